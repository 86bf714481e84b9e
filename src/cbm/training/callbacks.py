"""What a program may do while it trains: look, write something down, stop the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cbm.config import RunConfig
from cbm.errors import CBMError
from cbm.runs.checkpoint import random_state, set_random_state
from cbm.training.session import Session
from cbm.training.stop import Stop
from cbm.types import Agent


class LiveRun:
    """A run while it is trained, as callbacks see it."""

    def __init__(self, config: RunConfig, directory: Path, session: Session, stop: Stop) -> None:
        self.config, self.directory = config, directory
        self.agent: Agent = session.agent
        """The agent that learns. `predict` and `encode` leave it as it is; anything that changes it changes the run."""
        self.episode_return: float | None = None
        """Return of the last training episode that ended in this process; None before the first."""
        self._at, self._stop = session.at, stop

    @property
    def env_step(self) -> int:
        """Environment steps so far."""
        return self._at.env_step

    @property
    def agent_step(self) -> int:
        """Agent steps so far."""
        return self._at.agent_step

    @property
    def updates(self) -> int:
        """Updates so far."""
        return self._at.updates

    @property
    def stopped(self) -> str | None:
        """Why the run stops before its end; None if it does not."""
        return self._stop.reason

    def stop(self, reason: str = "a callback") -> None:
        """End the run as Ctrl-C does: it is saved, and `cbm.resume` continues it. Does nothing in a complete run."""
        if self.env_step < self.config.training.total_steps:
            self._stop.reason = reason


class Callback:
    """Called while a run is trained. Derive from it, define the methods that you need, and pass `callbacks=[...]` to
    `cbm.train` or `cbm.resume`.

    Callbacks run in the order of the list, in the process that trains, between two steps: training waits for them. They
    draw random numbers from the program's generators, not from those of the run, so they do not change its result. If
    one raises an error, the run ends; the last checkpoint stays, and the run can be resumed from there.

    Examples:
        >>> import cbm
        >>> class StopAt(cbm.Callback):
        ...     def __init__(self, score):
        ...         self.score = score
        ...
        ...     def on_evaluation(self, run, results):
        ...         if results["train"]["mean"] >= self.score:
        ...             run.stop(f"a mean return of {self.score}")
    """

    def on_step(self, run: LiveRun) -> None:
        """After each agent step, and the updates that follow it."""

    def on_evaluation(self, run: LiveRun, results: Mapping[str, Mapping[str, Any]]) -> None:
        """After each evaluation. `results` is what is written to evals.jsonl: for each set of videos (`train`,
        `unseen`) an object with `mean`, `std`, `returns`, `lengths` and `backgrounds`."""

    def on_end(self, run: LiveRun) -> None:
        """When the run is complete or was stopped (`run.stopped`), and is saved. Not after an error."""


class Callbacks:
    """The callbacks of one run, and a context in which the global random generators are those of the run.

    Callbacks have those of the program, which are put back at the end.
    """

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        """Raise an error, before anything is written, if one of them is not a callback."""
        self._callbacks = callbacks
        for each in callbacks:
            if not isinstance(each, Callback):
                made = " Did you mean to call it, to make one?" if isinstance(each, type) else ""
                raise CBMError(
                    f"a callback must be an object of a class that derives from cbm.Callback, not {each!r}.{made}"
                )

    def __enter__(self) -> Callbacks:
        self._program = random_state()
        return self

    def __exit__(self, *error: object) -> None:
        set_random_state(self._program)

    def __call__(self, method: str, run: LiveRun, *args: object) -> None:
        """Call `method` of every callback that defines it."""
        wanted = [each for each in self._callbacks if getattr(type(each), method) is not getattr(Callback, method)]
        if wanted:
            own = random_state()
            set_random_state(self._program)
            try:
                for each in wanted:
                    getattr(each, method)(run, *args)
            finally:
                self._program = random_state()
                set_random_state(own)
