"""`make_env`: the whole stack of an environment in one place."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import FrameStackObservation, ReshapeObservation

from cbm.envs.conditions import Conditions
from cbm.envs.distractions import make_distractions
from cbm.envs.suite import SuiteEnv
from cbm.envs.tasks import get_task
from cbm.errors import CBMError
from cbm.schema.tree import from_json


def make_env(
    task: str,
    distraction: str = "none",
    *,
    split: str = "train",
    size: int | tuple[int, int] = 84,
    frame_stack: int = 3,
    action_repeat: int | None = None,
    renderer: str = "fast",
    render_mode: str | None = None,
    **conditions: Any,
) -> gym.Env[np.ndarray, np.ndarray]:
    """A task of the Distracting Control Suite, seen as stacked frames.

    Args:
        task: such as `cartpole-swingup`; see `cbm.envs.tasks.TASKS`.
        distraction: `none`; `background`, `camera` or `color`; all three at once as `easy`, `medium` or `hard`; or
            several joined with +, such as `background+camera`.
        split: `train` videos, or the `unseen` ones (all of them).
        size: size of a frame; one number for a square, or (height, width).
        frame_stack: frames in an observation, oldest first; the first frame of an episode is repeated.
        action_repeat: environment steps per agent step; None means the task's default.
        renderer: `fast`, or `exact` for the pixels of dm_control.
        render_mode: `rgb_array` allows `env.render()`, a larger picture for films.
        conditions: any other field of `cbm.envs.conditions.Conditions`: `scale`, `camera_scale`, `color_scale`,
            `dynamic`, `videos`, `num_videos`, `video_names`, `video_alpha`, `camera_id`, `task_kwargs`.

    Returns:
        An environment with observations (3 * frame_stack, height, width) uint8 and actions in [-1, 1].

    Examples:
        >>> import cbm
        >>> env = cbm.make_env("cartpole-swingup", "easy", num_videos=2, size=64)
        >>> obs, info = env.reset(seed=1)
        >>> obs.shape
        (9, 64, 64)
        >>> obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        >>> env.close()
    """
    known = get_task(task)
    seen = from_json(Conditions, {"distraction": distraction, **conditions})  # an unknown keyword is an error
    if frame_stack < 1:
        raise CBMError(f"frame_stack must be at least 1; got {frame_stack}.")
    height, width = (size, size) if isinstance(size, int) else size
    distractions = make_distractions(seen, split)
    repeat = known.action_repeat if action_repeat is None else action_repeat
    # The repeat is inside the first line, below the render: one frame is drawn per agent step, not one per repeat.
    env: gym.Env = SuiteEnv(
        known, distractions, repeat, (height, width), renderer, render_mode, seen.camera_id, seen.task_kwargs
    )
    env = FrameStackObservation(env, frame_stack)  # (3, H, W) -> (stack, 3, H, W)
    env = ReshapeObservation(env, (3 * frame_stack, height, width))
    return env
