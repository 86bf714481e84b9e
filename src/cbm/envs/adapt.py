"""Any Gymnasium environment with image observations and a box of actions, in the form that our agents expect."""

from __future__ import annotations

from collections import deque
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box
from PIL import Image

from cbm.errors import CBMError


class NotPixels(CBMError):
    """This package cannot learn from observations or actions of this kind."""


class PixelTask(gym.Wrapper):
    """Observations as `frame_stack` RGB frames (3 * stack, size, size) uint8, actions in [-1, 1], each repeated.

    This is the form of the suite's own tasks. Only the last frame of a repeat becomes an observation.
    """

    def __init__(self, env: gym.Env, size: int, frame_stack: int, action_repeat: int) -> None:
        super().__init__(env)
        self._channels_last = _layout(env.observation_space, env)
        actions = _bounded(env.action_space, env)
        self._low, self._high = actions.low, actions.high
        self._size, self._repeat = size, action_repeat
        self._frames: deque[np.ndarray] = deque(maxlen=frame_stack)
        self.observation_space = Box(0, 255, (3 * frame_stack, size, size), np.uint8)
        self.action_space = Box(-1.0, 1.0, actions.shape, np.float32)
        if env.metadata.get("render_fps"):
            self.metadata = {**env.metadata, "render_fps": env.metadata["render_fps"] / action_repeat}

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        obs, info = self.env.reset(seed=seed, options=options)
        self._frames.extend([self._frame(obs)] * self._frames.maxlen)  # type: ignore[operator]
        return np.concatenate(self._frames), info

    def step(self, action: np.ndarray) -> tuple[np.ndarray, SupportsFloat, bool, bool, dict[str, Any]]:
        unit = (np.clip(action, -1.0, 1.0) + 1.0) / 2.0
        inner = (self._low + unit * (self._high - self._low)).astype(self.env.action_space.dtype)
        total = 0.0
        for _ in range(self._repeat):
            obs, reward, terminated, truncated, info = self.env.step(inner)
            total += float(reward)
            if terminated or truncated:
                break
        self._frames.append(self._frame(obs))
        return np.concatenate(self._frames), total, terminated, truncated, info

    def _frame(self, obs: np.ndarray) -> np.ndarray:
        image = np.atleast_3d(obs) if self._channels_last else np.moveaxis(obs, 0, 2)
        coloured = Image.fromarray(np.broadcast_to(image, (*image.shape[:2], 3)))
        resized = coloured.resize((self._size, self._size), Image.Resampling.BOX)
        return np.ascontiguousarray(np.asarray(resized).transpose(2, 0, 1))


def adapt(env_id: str, size: int, frame_stack: int, action_repeat: int) -> PixelTask:
    """`gymnasium.make` on `module:ID` (the module registers ID), wrapped for our agents."""
    try:
        try:
            env = gym.make(env_id, render_mode="rgb_array")
        except TypeError:  # an environment without render modes
            env = gym.make(env_id)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # somebody else's module may raise anything, even SystemExit
        what = str(error) if isinstance(error, gym.error.Error | ImportError) else f"{type(error).__name__}: {error}"
        raise CBMError(f"--env {env_id}: {what}") from error
    return PixelTask(env, size, frame_stack, action_repeat)


def _layout(space: gym.Space, env: gym.Env) -> bool:
    """Whether the channels come last; an error if observations are not uint8 images."""
    shape = space.shape or ()
    if isinstance(space, Box) and space.dtype == np.uint8:
        if len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3)):
            return True
        if len(shape) == 3 and shape[0] in (1, 3):
            return False
    raise NotPixels(
        f"{_name(env)}: observations must be uint8 images (H, W), (H, W, 1|3) or (1|3, H, W), not {space}. "
        "If the environment can render, wrap it in gymnasium.wrappers.AddRenderObservation."
    )


def _bounded(space: gym.Space, env: gym.Env) -> Box:
    if not isinstance(space, Box) or len(space.shape) != 1:
        raise NotPixels(f"{_name(env)}: actions must be a Box of one dimension, not {space}.")
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise NotPixels(f"{_name(env)}: the action space has no finite bounds ({space}), so it cannot be scaled.")
    return space


def _name(env: gym.Env) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__
