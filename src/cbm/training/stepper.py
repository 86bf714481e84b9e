"""One agent step of training: who acts, in which episode, and what came of it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from cbm.config import RunConfig
from cbm.config.build import Shapes, make_environment, make_run_agent
from cbm.config.seeds import seed_for
from cbm.types import Acts, ActsApart, begin_episode

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
    mark: dict[str, Any]  # random state and memory of the acting agent after the step
    seconds: tuple[float, float]  # spent on acting, and in the environment


class Stepper:
    """An environment, its current episode, and the agent that acts in it: the one that learns, or a copy of it.

    The environment is reset for every episode with that episode's own seed. So it carries nothing over from one episode
    to the next, and its seed and actions are enough to return to the middle of an episode: physics and renderer need
    not be saved.
    """

    def __init__(self, config: RunConfig, copy: bool) -> None:
        self._config = config
        self._env = make_environment(config.env, "train")
        self._random_actions = np.random.default_rng(seed_for(config.seed, "explore"))
        self.shapes = Shapes.of(self._env)
        self.agent: Acts | None = None  # the one that acts
        self._copy: ActsApart | None = None  # the same, if it is a copy
        if copy:
            agent = make_run_agent(config, self.shapes)
            assert isinstance(agent, ActsApart)
            agent.generator.manual_seed(seed_for(config.seed, "act"))
            self.agent = self._copy = agent

    def begin(self, episode: int) -> Begun:
        self._reset(episode)
        assert self.agent is not None
        begin_episode(self.agent)
        return Begun(episode, _newest(self._obs), self._background)

    def _reset(self, episode: int) -> None:
        self._episode, self._length, self._total = episode, 0, 0.0
        self._obs, info = self._env.reset(seed=seed_for(self._config.seed, "train", episode))
        self._background = str(info.get("background", "none"))

    def take(self, env_step: int) -> Step:
        start = time.perf_counter()
        if env_step < self._config.training.seed_steps:
            action = self._random_actions.uniform(-1.0, 1.0, self.shapes.action).astype(np.float32)
        else:
            assert self.agent is not None
            action = self.agent.act(self._obs, env_step, explore=True)
        acted, ended, begun = time.perf_counter(), None, None
        reward, terminated, truncated = self._step(action)
        frame = _newest(self._obs)
        if terminated or truncated:
            numbers = {"episode": self._episode, "episode_return": self._total, "episode_length": self._length}
            ended = {**numbers, "background": self._background}
            begun = self.begin(self._episode + 1)
        seconds = (acted - start, time.perf_counter() - acted)
        return Step(action, reward, frame, terminated, truncated, ended, begun, self.mark(), seconds)

    def _step(self, action: np.ndarray) -> tuple[float, bool, bool]:
        self._obs, reward, terminated, truncated, _ = self._env.step(action)
        self._length, self._total = self._length + 1, self._total + float(reward)
        return float(reward), terminated, truncated

    def follow(self, weights: Sequence[np.ndarray]) -> None:
        """Act with these weights from now on."""
        assert self._copy is not None
        with torch.no_grad():
            torch._foreach_copy_(acting_tensors(self._copy), [torch.from_numpy(each) for each in weights])

    def mark(self) -> dict[str, Any]:
        """What `restore` needs in addition to the episode so far. The rest of the learner is in the checkpoint."""
        mark: dict[str, Any] = {"random_actions": self._random_actions.bit_generator.state}
        if self._copy is not None:
            mark["generator"] = self._copy.generator.get_state().numpy()
            memory = getattr(self._copy, "memory", None)
            mark["memory"] = None if memory is None else {name: x.numpy() for name, x in memory.items()}
        return mark

    def restore(self, mark: dict[str, Any], episode: int, actions: np.ndarray, newest_frame: np.ndarray) -> None:
        """Return to where `mark` was made, by the actions of the episode so far. It must come out the same."""
        self._reset(episode)
        for action in actions:
            self._step(action)
        if not np.array_equal(_newest(self._obs), newest_frame):
            warnings.warn(
                "the environment showed another picture for the same seed and actions: it is not deterministic, "
                "so this run resumes, but will differ from an uninterrupted one",
                stacklevel=2,
            )
        self._random_actions.bit_generator.state = mark["random_actions"]
        if self._copy is not None:
            self._copy.generator.set_state(torch.from_numpy(mark["generator"]))
            if mark["memory"] is not None:
                memory = {name: torch.from_numpy(x) for name, x in mark["memory"].items()}
                self._copy.memory = memory  # type: ignore[attr-defined] # not every agent has one

    def close(self) -> None:
        self._env.close()


def acting_tensors(agent: ActsApart) -> list[torch.Tensor]:
    """All tensors that `act` reads and `update` changes."""
    return [tensor for name in agent.acting for tensor in getattr(agent, name).state_dict().values()]


def _newest(obs: np.ndarray) -> np.ndarray:
    return np.array(obs[-_RGB:])  # a copy: the environment may overwrite it with the next one
