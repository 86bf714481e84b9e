"""One episode without exploration: its seed, how it is played, and how several of them are summarised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import gymnasium as gym
import numpy as np

from cbm.agents.base import seeded
from cbm.config import EnvConfig, RunConfig
from cbm.config.seeds import seed_for
from cbm.types import Acts, Agent, begin_episode

Result = TypeVar("Result", covariant=True)


class Interrupted(Exception):
    """An evaluation was abandoned because the run was asked to stop."""


@dataclass(frozen=True)
class EpisodeSpec:
    """One episode to play: the split of the videos, and the seed."""

    split: str
    seed: int
    env: EnvConfig | None = None  # None: the environment of the run

    def run(self, agent: Acts, env: gym.Env, env_step: int) -> Episode:
        return play(agent, env, self, env_step)


class PlayJob(Protocol[Result]):
    """A job for a worker: something that is found out by playing in an environment of this split."""

    @property
    def split(self) -> str: ...

    @property
    def env(self) -> EnvConfig | None: ...

    def run(self, agent: Agent, env: gym.Env, env_step: int) -> Result: ...


@dataclass(frozen=True)
class Episode:
    spec: EpisodeSpec
    total: float
    length: int
    background: str


def evaluation_episodes(config: RunConfig, env_step: int, episodes: int, splits: tuple[str, ...]) -> list[EpisodeSpec]:
    """The episodes of an evaluation: the same for every agent with the same run seed at the same step."""
    return [nth_episode(config, env_step, split, index) for split in splits for index in range(episodes)]


def nth_episode(config: RunConfig, env_step: int, split: str, index: int) -> EpisodeSpec:
    """One episode of such an evaluation."""
    return EpisodeSpec(split, seed_for(config.seed, f"eval/{split}", env_step, index))


def play(
    agent: Acts,
    env: gym.Env,
    spec: EpisodeSpec,
    env_step: int,
    watch: Callable[[np.ndarray, float], None] | None = None,
) -> Episode:
    """One episode without exploration. `watch` sees every observation and the return so far."""
    with seeded(spec.seed):  # for a policy that samples even without exploration
        obs, info = env.reset(seed=spec.seed)
        begin_episode(agent)
        background = str(info.get("background", "none"))
        total, length, over = 0.0, 0, False
        while not over:
            if watch is not None:
                watch(obs, total)
            obs, reward, terminated, truncated, info = env.step(agent.act(obs, env_step, explore=False))
            total, length, over = total + float(reward), length + 1, terminated or truncated
        if watch is not None:
            watch(obs, total)
    return Episode(spec, total, length, background)


def summarise(episodes: list[Episode]) -> dict[str, dict[str, Any]]:
    """By split: every return, their mean and (population) standard deviation."""
    result: dict[str, dict[str, Any]] = {}
    for split in dict.fromkeys(episode.spec.split for episode in episodes):
        own = [episode for episode in episodes if episode.spec.split == split]
        returns = [episode.total for episode in own]
        result[split] = {
            "mean": float(np.mean(returns)),
            "std": float(np.std(returns)),
            "returns": returns,
            "lengths": [episode.length for episode in own],
            "backgrounds": [episode.background for episode in own],
        }
    return result
