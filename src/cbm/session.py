"""Everything that a run is made of between two steps, which is everything that a checkpoint holds."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from cbm import checkpoint
from cbm.config import RunConfig
from cbm.errors import CBMError
from cbm.factory import Shapes, make_replay, make_run_agent
from cbm.logs import Logs, Means
from cbm.rollout import Rollout
from cbm.run_dir import RunDir
from cbm.seeds import seed_for
from cbm.types import begin_episode


@dataclass
class At:
    """How far the run is. An agent step is `action_repeat` environment steps, an update one call of `agent.update`."""

    env_step: int = 0
    agent_step: int = 0
    updates: int = 0
    episode: int = 0
    evaluated: int = -1  # the environment step of the last evaluation

    def counts(self) -> dict[str, int]:
        return {"env_step": self.env_step, "agent_step": self.agent_step, "updates": self.updates}


class Session:
    """Agent, replay, the episode under way, counters and random generators of one run."""

    def __init__(self, config: RunConfig, env: gym.Env, replay_dir: Path, state: dict[str, Any] | None) -> None:
        """A new run, or one that goes on from `state`."""
        checkpoint.seed_everything(seed_for(config.seed, "agent"))  # our agents do not need it; others' may
        self.at, self.means = At(), Means()
        self.random_actions = np.random.default_rng(seed_for(config.seed, "explore"))
        self.sampling = np.random.default_rng(seed_for(config.seed, "replay"))
        self.backgrounds: list[str] = []
        self.rollout = Rollout(env, config.seed)
        self.shapes = Shapes.of(env)
        self.agent = make_run_agent(config, self.shapes, config.training.device)
        self.replay = make_replay(config, self.shapes, replay_dir, None if state is None else state["replay"])
        if state is None:
            self.begin_episode(0)
        else:
            self._restore(state)

    def begin_episode(self, index: int) -> None:
        self.at.episode = index
        obs = self.rollout.begin(index)
        begin_episode(self.agent)
        if self.rollout.background not in self.backgrounds:
            self.backgrounds.append(self.rollout.background)
        self.replay.add_first(obs, self.backgrounds.index(self.rollout.background))

    def state(self) -> dict[str, Any]:
        return {
            "at": asdict(self.at),
            "shapes": [list(self.shapes.obs), self.shapes.action],
            "agent": self.agent.state_dict(),
            "replay": self.replay.state(),
            "means": (self.means.sums, self.means.counts),
            "backgrounds": self.backgrounds,
            "random_actions": self.random_actions.bit_generator.state,
            "sampling": self.sampling.bit_generator.state,
            "random": checkpoint.random_state(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.at = At(**state["at"])
        self.agent.load_state_dict(state["agent"])
        self.means.sums, self.means.counts = state["means"]
        self.backgrounds = state["backgrounds"]
        unfinished = self.replay.unfinished()
        if unfinished is None:  # checkpoints are taken after the next episode has begun
            raise CBMError(f"{self.replay.directory} does not belong to this checkpoint: no episode goes on in it")
        self.rollout.replay(self.at.episode, *unfinished)
        self.random_actions.bit_generator.state = state["random_actions"]
        self.sampling.bit_generator.state = state["sampling"]
        checkpoint.set_random_state(state["random"])  # last: the lines above may draw from it


class Saver:
    """Takes the checkpoints of a session."""

    def __init__(self, run: RunDir, session: Session, logs: Logs, resumed: bool) -> None:
        self._run, self._session, self._logs = run, session, logs
        self._saved = self._moment if resumed else None
        self._kept = [session.replay.state()] if resumed else []  # of replay, at the checkpoints on disk
        self._time = time.monotonic()

    @property
    def _moment(self) -> tuple[int, int]:
        return self._session.at.env_step, self._session.at.evaluated

    def save(self) -> None:
        """A checkpoint of now, unless there is one already. Everything it relies on reaches the disk before it."""
        if self._saved != self._moment:
            self._session.replay.flush()
            self._logs.sync()
            state = self._session.state() | {"lengths": self._logs.lengths()}
            checkpoint.save(self._run.checkpoints, self._session.at.env_step, state)
            self._saved, self._kept = self._moment, [*self._kept, state["replay"]][-2:]
        self._time = time.monotonic()

    def overdue(self, minutes: float) -> bool:
        """Whether it is time, or the ring of frames is about to overwrite what the older checkpoint needs."""
        crowded = bool(self._kept) and self._session.replay.room(self._kept[0]) <= 2
        return crowded or time.monotonic() - self._time > 60 * minutes

    def advice(self) -> str:
        """What to do after a failure that a resumed run would meet again."""
        kept = "There is no checkpoint yet" if self._saved is None else f"The checkpoint at {self._saved[0]:,} is whole"
        return f"{kept}. A resumed run would come here again: start another with, say, a lower --agent.lr."
