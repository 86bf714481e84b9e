"""One agent step of training: who acts, in which episode, and what came of it."""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np

from cbm.config import RunConfig
from cbm.config.build import Shapes, make_environment
from cbm.config.seeds import seed_for
from cbm.types import Acts, begin_episode

_RGB = 3


class Begun(NamedTuple):
    """An episode that begins: its number, its first frame and its background."""

    episode: int
    frame: np.ndarray
    background: str


class Step(NamedTuple):
    action: np.ndarray
    reward: float
    frame: np.ndarray  # the newest frame of the observation that it led to
    terminated: bool
    truncated: bool
    ended: dict[str, Any] | None  # the episode that it ended, as written to metrics.jsonl
    begun: Begun | None  # and the next episode
    seconds: dict[str, float]  # spent on it, by part of the loop


class Stepper:
    """An environment, its current episode, and the agent that acts in it.

    The environment is reset for every episode with that episode's own seed. So it carries nothing over from one episode
    to the next, and its seed and actions are enough to return to the middle of an episode: physics and renderer need
    not be saved.
    """

    ahead = 0  # steps that were taken before `take` asked for them; see `collect.Ahead`

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._env = make_environment(config.env, "train")
        self._random_actions = np.random.default_rng(seed_for(config.seed, "explore"))
        self.shapes = Shapes.of(self._env)

    def act_for(self, agent: Acts) -> None:
        """Act as this agent from now on."""
        self._agent = agent

    def begin(self, episode: int) -> Begun:
        self._reset(episode)
        begin_episode(self._agent)
        return Begun(episode, _newest(self._obs), self._background)

    def _reset(self, episode: int) -> None:
        self._episode, self._length, self._total = episode, 0, 0.0
        self._obs, info = self._env.reset(seed=seed_for(self._config.seed, "train", episode))
        self._background = str(info.get("background", "none"))

    def take(self, env_step: int) -> Step:
        """The next agent step, at `env_step`."""
        start = time.perf_counter()
        if env_step < self._config.training.seed_steps:
            action = self._random_actions.uniform(-1.0, 1.0, self.shapes.action).astype(np.float32)
        else:
            action = self._agent.act(self._obs, env_step, explore=True)
        acted, ended, begun = time.perf_counter(), None, None
        reward, terminated, truncated = self._step(action)
        frame = _newest(self._obs)
        if terminated or truncated:
            numbers = {"episode": self._episode, "episode_return": self._total, "episode_length": self._length}
            ended = {**numbers, "background": self._background}
            begun = self.begin(self._episode + 1)
        seconds = {"act": acted - start, "environment": time.perf_counter() - acted}
        return Step(action, reward, frame, terminated, truncated, ended, begun, seconds)

    def _step(self, action: np.ndarray) -> tuple[float, bool, bool]:
        self._obs, reward, terminated, truncated, _ = self._env.step(action)
        self._length, self._total = self._length + 1, self._total + float(reward)
        return float(reward), terminated, truncated

    def go_ahead(self, env_steps: range) -> None:
        """Before an update: nothing, because an agent cannot act while it learns. `collect.Ahead` takes these steps."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs in addition to the episode so far and the agent."""
        return {"random_actions": self._random_actions.bit_generator.state}

    def restore(self, state: dict[str, Any], episode: int, actions: np.ndarray, newest_frame: np.ndarray) -> None:
        """Return to where `state` was taken, by the actions of the episode so far. It must come out the same."""
        self._reset(episode)
        for action in actions:
            self._step(action)
        if not np.array_equal(_newest(self._obs), newest_frame):
            warnings.warn(
                "the environment showed another picture for the same seed and actions: it is not deterministic, "
                "so this run resumes, but will differ from an uninterrupted one",
                stacklevel=2,
            )
        self._random_actions.bit_generator.state = state["random_actions"]

    def close(self) -> None:
        self._env.close()


def _newest(obs: np.ndarray) -> np.ndarray:
    return np.array(obs[-_RGB:])  # a copy: the environment may overwrite it with the next one
