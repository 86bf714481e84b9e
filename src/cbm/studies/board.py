"""What a person watching a study sees: a live table of its runs on a terminal, plain lines in a file."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Collection, Mapping
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cbm.studies.define import Plan, PlannedRun
from cbm.studies.store import Ended, State, Store
from cbm.training.progress import clock

_PLAIN_SECONDS = 30.0  # between two summaries in a file
_WINDOW = 300.0  # seconds over which speed is measured
_ORDER = ("running", "set aside", "begun", "missing", "done")
_STYLE = {"running": "bold", "set aside": "red", "done": "green"}


class Board:
    def __init__(self, plan: Plan, store: Store, quiet: bool = False, console: Console | None = None) -> None:
        self.console = Console(quiet=quiet) if console is None else console
        self._plan, self._store = plan, store
        self._plain = not self.console.is_terminal
        self._live = Live(console=self.console, auto_refresh=False, transient=True)
        self._seen: dict[str, deque[tuple[float, int]]] = {}
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        if not self._plain:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def ended(self, run: PlannedRun, ended: Ended, state: State) -> None:
        """One process of a run has ended."""
        if state.kind == "done":
            self.say(f"done: {run.label}, return {_number(state.result)}")
        elif ended.outcome == "lost":
            self.say(f"lost: {run.label}: {ended.error}; it will resume elsewhere")
        elif state.kind == "set aside":
            self.say(f"set aside after {state.failures} failures: {run.label}: {state.error} ({self._store.log(run)})")
        elif ended.outcome == "failed":
            self.say(f"failed: {run.label}: {ended.error}; trying again from its last checkpoint")

    def update(self, states: Mapping[str, State], running: Collection[str]) -> None:
        now = time.monotonic()
        for name in running:
            seen = self._seen.setdefault(name, deque())
            seen.append((now, states[name].env_step))
            while len(seen) > 2 and now - seen[0][0] > _WINDOW:
                seen.popleft()
        if not self._plain:
            self._live.update(self.render(states, running), refresh=True)
        elif now - self._last > _PLAIN_SECONDS:
            self._last = now
            self.say(self.summary(states, running))

    def render(self, states: Mapping[str, State], running: Collection[str]) -> Group:
        """The table, with running runs at the top, cut to the height of the terminal."""
        table = Table("task", "method", "variant", "seed", "", "steps", "return", "left", box=None, pad_edge=False)
        for column in (5, 6, 7):
            table.columns[column].justify = "right"
        kinds = {name: "running" if name in running else state.kind for name, state in states.items()}
        rows = sorted(self._plan.runs, key=lambda run: _ORDER.index(kinds[run.name]))
        room = max(3, self.console.height - 4)
        for run in rows[:room]:
            state, kind = states[run.name], kinds[run.name]
            steps = f"{state.env_step:,} of {run.total_steps:,}"
            cells = (run.task, run.method, run.variant, str(run.seed), kind, steps)
            table.add_row(*cells, _number(state.result), self._left(run, state, kind), style=_STYLE.get(kind))
        hidden = len(rows) - room
        more = [Text(f"... and {hidden} more", style="dim")] if hidden > 0 else []
        return Group(table, *more, Text(self.summary(states, running), style="bold"))

    def summary(self, states: Mapping[str, State], running: Collection[str]) -> str:
        """Counts, and the time left if the other runs are as fast as the current ones."""
        counts = Counter("running" if name in running else state.kind for name, state in states.items())
        parts = [f"{counts[kind]} {kind}" for kind in reversed(_ORDER) if counts[kind]]
        speed = sum(self._speed(name) for name in running)
        rest = sum(
            run.total_steps - states[run.name].env_step
            for run in self._plan.runs
            if states[run.name].kind in ("begun", "missing")
        )
        left = f"; about {clock(rest / speed)} left" if speed > 0 else ""
        return f"{self._plan.title}: {', '.join(parts)} of {len(states)} runs{left}"

    def _speed(self, name: str) -> float:
        """Recent environment steps per second."""
        seen = self._seen.get(name)
        if not seen or seen[-1][0] - seen[0][0] < 1.0:
            return 0.0
        return (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0])

    def _left(self, run: PlannedRun, state: State, kind: str) -> str:
        speed = self._speed(run.name) if kind == "running" else 0.0
        return clock((run.total_steps - state.env_step) / speed) if speed > 0 else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
