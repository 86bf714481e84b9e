"""`make_env`: the whole stack of an environment in one place."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import FrameStackObservation, ReshapeObservation

from cbm.envs.distractions import make_distractions
from cbm.envs.suite import SuiteEnv
from cbm.errors import CBMError
from cbm.tasks import get_task


def make_env(
    task: str,
    distraction: str = "none",
    *,
    scale: float | None = None,
    num_videos: int | None = None,
    dynamic: bool = False,
    videos: str = "builtin",
    split: str = "train",
    size: int | tuple[int, int] = 84,
    frame_stack: int = 3,
    action_repeat: int | None = None,
    renderer: str = "fast",
    render_mode: str | None = None,
) -> gym.Env[np.ndarray, np.ndarray]:
    """A task of the Distracting Control Suite, seen as stacked frames.

    Args:
        task: such as `cartpole-swingup`; see `cbm.tasks.TASKS`.
        distraction: `none`, together `easy`, `medium`, `hard`, or alone `background`, `camera`, `color`.
        scale: strength of camera and colour, 0 to 1; None takes the difficulty's (alone: that of `easy`).
        num_videos: how many training videos; None takes the difficulty's (alone: that of `easy`).
        dynamic: the distraction changes at every environment step; otherwise it is drawn once per episode.
        videos: where backgrounds come from: `builtin`, `davis`, `davis:FOLDER`, or a folder of videos or images.
        split: `train` videos, or the `unseen` ones (all of them).
        size: of a frame; one number for a square, or (height, width).
        frame_stack: frames in an observation, oldest first; the first frame of an episode is repeated.
        action_repeat: environment steps per agent step; None takes the paper's value for the task.
        renderer: `fast`, or `exact` for the pixels of dm_control.
        render_mode: `rgb_array` allows `env.render()`, a larger picture for films.

    Returns:
        An environment with observations (3 * frame_stack, height, width) uint8 and actions in [-1, 1].
    """
    known = get_task(task)
    if frame_stack < 1:
        raise CBMError(f"frame_stack must be at least 1; got {frame_stack}.")
    height, width = (size, size) if isinstance(size, int) else size
    distractions = make_distractions(
        distraction, scale=scale, num_videos=num_videos, dynamic=dynamic, videos=videos, split=split
    )
    repeat = known.action_repeat if action_repeat is None else action_repeat
    # The repeat is inside the first line, below the render: one frame is drawn per agent step, not one per repeat.
    env: gym.Env = SuiteEnv(known, distractions, repeat, (height, width), renderer, render_mode)
    env = FrameStackObservation(env, frame_stack)  # (3, H, W) -> (stack, 3, H, W)
    env = ReshapeObservation(env, (3 * frame_stack, height, width))
    return env
