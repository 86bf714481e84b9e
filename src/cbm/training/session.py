"""The state of a run between two steps, which is what a checkpoint holds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cbm.config import RunConfig, bound_settings, check_settings
from cbm.config.build import make_replay, make_run_agent
from cbm.config.seeds import seed_for
from cbm.errors import CBMError
from cbm.runs import checkpoint
from cbm.runs.directory import RunDir
from cbm.training.collect import Collector
from cbm.training.logs import Logs, Means, NotFinite
from cbm.training.stepper import Begun, Step


@dataclass
class Counters:
    """How far the run is. An agent step is `action_repeat` environment steps; an update is a call of `agent.update`."""

    env_step: int = 0
    agent_step: int = 0
    updates: int = 0
    episode: int = 0
    evaluated: int = -1  # the environment step of the last evaluation

    def counts(self) -> dict[str, int]:
        return {"env_step": self.env_step, "agent_step": self.agent_step, "updates": self.updates}


class Session:
    """Agent, replay, current episode, counters and random generators of one run."""

    def __init__(self, config: RunConfig, collector: Collector, replay_dir: Path, state: dict[str, Any] | None) -> None:
        """A new run, or one that is resumed from `state`."""
        self._config = bound_settings(config)
        if state is not None:
            check_settings(config, state.get("config"), replay_dir.parent / "config.json")
        checkpoint.seed_everything(seed_for(config.seed, "agent"))  # our agents do not need it; those of users may
        self.at, self.means = Counters(), Means()
        self.sampling = np.random.default_rng(seed_for(config.seed, "replay"))
        self.backgrounds: list[str] = []
        self.collector, self.shapes, self._repeat = collector, collector.shapes, config.env.action_repeat or 1
        self.agent = make_run_agent(config, self.shapes, config.training.device)
        collector.act_for(self.agent)
        self.replay = make_replay(config, self.shapes, replay_dir, None if state is None else state["replay"])
        self.replay.pinned = config.training.device.startswith("cuda")
        if state is None:
            self._begin(collector.begin(0))
        else:
            self._restore(state)

    def store(self, step: Step) -> None:
        """Add an agent step to replay, and count it."""
        self.replay.add(step.action, step.reward, step.frame, step.terminated, step.truncated)
        self.at.env_step, self.at.agent_step = self.at.env_step + self._repeat, self.at.agent_step + 1
        if step.begun is not None:
            self._begin(step.begun)

    def _begin(self, begun: Begun) -> None:
        self.at.episode = begun.episode
        if begun.background not in self.backgrounds:
            self.backgrounds.append(begun.background)
        self.replay.add_first(begun.frame, self.backgrounds.index(begun.background))

    def state(self) -> dict[str, Any]:
        return {
            "config": self._config,
            "at": asdict(self.at),
            "shapes": [list(self.shapes.obs), self.shapes.action],
            "agent": self.agent.state_dict(),
            "replay": self.replay.state(),
            "means": (self.means.sums, self.means.counts),
            "backgrounds": self.backgrounds,
            "collector": self.collector.state(),
            "sampling": self.sampling.bit_generator.state,
            "random": checkpoint.random_state(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.at = Counters(**state["at"])
        self.agent.load_state_dict(state["agent"])
        self.means.sums, self.means.counts = state["means"]
        self.backgrounds = state["backgrounds"]
        unfinished = self.replay.unfinished()
        if unfinished is None:  # checkpoints are taken after the next episode has begun
            raise CBMError(f"{self.replay.directory} does not belong to this checkpoint: it has no unfinished episode")
        self.collector.restore(state["collector"], self.at.episode, *unfinished)
        self.sampling.bit_generator.state = state["sampling"]
        checkpoint.set_random_state(state["random"])  # last: the lines above may draw from it


class Saver:
    """Takes the checkpoints of a session."""

    def __init__(self, run: RunDir, session: Session, logs: Logs, resumed: bool) -> None:
        self._run, self._session, self._logs = run, session, logs
        self._saved = self._moment if resumed else None
        self._kept = [session.replay.state()] if resumed else []  # state of replay at the checkpoints on disk
        self._time = time.monotonic()

    @property
    def _moment(self) -> tuple[int, int]:
        return self._session.at.env_step, self._session.at.evaluated

    def save(self) -> None:
        """Save a checkpoint, unless there is one of this moment. Everything it relies on reaches the disk first."""
        if self._saved != self._moment:
            self._session.means.read()  # weights after a loss that is not finite are worth nothing
            self._session.replay.flush()
            self._logs.sync()
            state = self._session.state() | {"records": self._logs.state()}
            checkpoint.save(self._run.checkpoints, self._session.at.env_step, state)
            self._saved, self._kept = self._moment, [*self._kept, state["replay"]][-2:]
        self._time = time.monotonic()

    def overdue(self, minutes: float) -> bool:
        """Whether it is time, or the ring of frames is about to overwrite what the older checkpoint needs."""
        crowded = bool(self._kept) and self._session.replay.room(self._kept[0]) <= 2
        return crowded or time.monotonic() - self._time > 60 * minutes

    @contextmanager
    def advising(self) -> Iterator[None]:
        """A context that adds to the error of a loss that is not finite: a resumed run would meet it again."""
        try:
            yield
        except NotFinite as error:
            kept = f"The checkpoint at {self._saved[0]:,} is good" if self._saved else "There is no checkpoint yet"
            raise NotFinite(
                f"{error} {kept}. A resumed run would fail in the same way: start another, for example with a lower "
                "--agent.lr."
            ) from None
