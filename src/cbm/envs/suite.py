"""A task of dm_control as a Gymnasium environment that shows pixels: physics x repeat, distract, render once."""

from __future__ import annotations

import inspect
import logging
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from cbm.envs.rendering import gl as gl  # before dm_control: it chooses the OpenGL backend

from dm_control import suite as dm_suite  # isort: skip

from cbm.envs.distractions.base import Distraction, Scene
from cbm.envs.rendering.renderer import Renderer
from cbm.envs.tasks import Task
from cbm.errors import CBMError, UnknownChoice

FILM_SIZE = 384  # side of what `render()` returns, for people


class ResetNeeded(CBMError, gym.error.ResetNeeded):
    """No episode is in progress."""


class SuiteEnv(gym.Env[np.ndarray, np.ndarray]):
    """Observations are single frames (3, H, W) uint8, actions are in [-1, 1], rewards are summed over the repeat.

    The distractions move with every environment step, but only the last one of an agent step is drawn. The time
    limit is a truncation. `info` holds the low-dimensional physical state (the task's own dm_control observation)
    and the name of the background, both for analysis.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self,
        task: Task,
        distractions: Sequence[Distraction],
        action_repeat: int,
        size: tuple[int, int],
        renderer: str = "fast",
        render_mode: str | None = None,
        camera_id: int | str | None = None,
        task_kwargs: Mapping[str, bool | int | float | str] | None = None,
    ) -> None:
        if action_repeat < 1:
            raise CBMError(f"action_repeat must be at least 1; got {action_repeat}.")
        if min(size) < 8:
            raise CBMError(f"size must be at least 8 pixels; got {size[0]}x{size[1]}.")
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise UnknownChoice("render_mode", render_mode, self.metadata["render_modes"])
        self.task, self.action_repeat, self.distractions = task, action_repeat, tuple(distractions)
        self.render_mode = render_mode
        self.drawing = True  # if False, steps cost only physics, and show the last frame again
        self._env = _load(task, task_kwargs or {})
        self.metadata = {**self.metadata, "render_fps": 1.0 / self.dt}  # as fast as the simulated time
        spec = self._env.action_spec()
        (self._num_actions,) = spec.shape
        is_unit = (spec.minimum == -1.0).all() and (spec.maximum == 1.0).all()
        is_unbounded = (spec.maximum - spec.minimum > 1e6).any()  # lqr: what the agent says is passed on
        self._action_range = None if is_unit or is_unbounded else (spec.minimum, spec.maximum)
        self.action_space = gym.spaces.Box(-1.0, 1.0, spec.shape, np.float32)
        self.observation_space = gym.spaces.Box(0, 255, (3, *size), np.uint8)
        model = self.physics.model.ptr
        self.scene = Scene(task.domain, model, self.physics.data.ptr, find_camera(model, task, camera_id))
        self._quality = renderer
        self._renderer = Renderer(self.scene.model, *size, renderer, self.scene.camera_id)
        self._film: Renderer | None = None
        self._begun, self._running = False, False
        self._spec: EnvSpec | None = None
        self._state = np.empty(0)
        self._frame = np.zeros(self.observation_space.shape, np.uint8)

    @property
    def physics(self) -> Any:
        """dm_control's physics, for inspection."""
        return self._env.physics

    @property
    def dt(self) -> float:
        """Seconds of simulated time in one agent step."""
        return float(self._env.control_timestep()) * self.action_repeat

    @property
    def max_episode_steps(self) -> int | None:
        """Agent steps to the time limit; None if there is no limit."""
        limit = self._env._step_limit  # environment steps; dm_control has no public name for it
        return None if math.isinf(limit) else math.ceil(math.ceil(limit) / self.action_repeat)

    @property
    def spec(self) -> EnvSpec | None:
        """What Gymnasium knows about the environment, including the length of an episode.

        The registry does not hold the length: `gymnasium.make` would end every episode there, even with another repeat.
        """
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        self._spec = None if spec is None else replace(spec, max_episode_steps=self.max_episode_steps)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        # Each has its own stream of random numbers, so that switching a distraction off changes nothing else.
        episode = int(self.np_random.integers(2**32))
        self._env.task.random.seed(episode)
        self._state = self._env.reset().observation["observations"]
        self._begun, self._running = True, True
        for distraction in self.distractions:
            name = zlib.crc32(type(distraction).__name__.encode())
            distraction.rng = np.random.default_rng([episode, name])
            distraction.reset(self.scene)
        return self._observe(), self._info()

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if not self._running:
            raise ResetNeeded("the episode is over (or was never begun): call reset() before step().")
        action = np.asarray(action, np.float64)
        if action.shape != (self._num_actions,) or not np.isfinite(action).all():
            raise CBMError(f"an action of {self.task.name} is {self._num_actions} finite numbers; got {action!r}.")
        reward, action = 0.0, np.clip(action, -1.0, 1.0)
        if self._action_range is not None:
            low, high = self._action_range
            action = low + (action + 1.0) / 2.0 * (high - low)
        for _ in range(self.action_repeat):
            time_step = self.advance(action)
            reward += time_step.reward
            if time_step.last():
                break
        self._state = time_step.observation["observations"]
        self._running = not time_step.last()
        terminated = time_step.last() and time_step.discount == 0.0
        truncated = time_step.last() and not terminated
        return self._observe(), reward, bool(terminated), bool(truncated), self._info()

    def advance(self, action: np.ndarray) -> Any:
        """One environment step of physics and distractions, not drawn. Returns dm_control's time step."""
        time_step = self._env.step(action)
        for distraction in self.distractions:
            distraction.step()
        return time_step

    def render(self) -> np.ndarray | None:
        """A larger picture (H, W, 3) of the current state, with its distractions, for films.

        Without a render mode it warns and returns None, like Gymnasium's own environments.
        """
        if self.render_mode is None:
            gym.logger.warn('render() needs a render mode: make the environment with render_mode="rgb_array".')
            return None
        if not self._begun:
            raise ResetNeeded("no episode has begun: call reset() before render().")
        if self._film is None:
            self._film = Renderer(self.scene.model, FILM_SIZE, FILM_SIZE, self._quality, self.scene.camera_id)
        return self._film.render(self.scene.data, self.scene.sky)

    def close(self) -> None:
        self._running = False
        self._renderer.close()
        if self._film is not None:
            self._film.close()
        self._env.close()  # dm_control's own render contexts, if they were used

    def _observe(self) -> np.ndarray:
        if self.drawing:
            for distraction in self.distractions:
                distraction.apply(self.scene)
            frame = self._renderer.render(self.scene.data, self.scene.sky)
            self._frame = np.ascontiguousarray(frame.transpose(2, 0, 1))
        return self._frame

    def _info(self) -> dict[str, Any]:
        return {"state": self._state.astype(np.float32), "background": self.scene.background}


def find_camera(model: Any, task: Task, camera: int | str | None) -> int:
    """The number of a camera that is given by number or name; None means the task's default."""
    names = [model.camera(index).name for index in range(model.ncam)]
    if camera in names:
        return names.index(str(camera))
    number = task.camera_id if camera is None else camera
    if isinstance(number, int) and 0 <= number < len(names):
        return number
    raise UnknownChoice(f"camera of {task.name}", camera, [f"{index} ({name})" for index, name in enumerate(names)])


def _load(task: Task, task_kwargs: Mapping[str, object]) -> Any:
    """The dm_control environment, without its warnings about its own XML files."""
    constructor = getattr(dm_suite, task.domain).SUITE[task.task]
    known = [name for name in inspect.signature(constructor).parameters if name not in ("random", "environment_kwargs")]
    for name in task_kwargs:
        if name not in known:
            raise UnknownChoice(f"task_kwargs of {task.name}", name, known)
    defaults = {} if task.time_limit is None else {"time_limit": task.time_limit}
    absl = logging.getLogger("absl")
    level = absl.level
    absl.setLevel(logging.ERROR)
    try:
        return dm_suite.load(
            task.domain,
            task.task,
            task_kwargs={**defaults, **task_kwargs, "random": 0},
            environment_kwargs={"flat_observation": True},
        )
    except (TypeError, ValueError) as error:
        if not task_kwargs:
            raise
        raise CBMError(f"task_kwargs {dict(task_kwargs)} of {task.name}: {error}") from error
    finally:
        absl.setLevel(level)
