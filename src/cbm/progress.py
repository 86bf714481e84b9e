"""What a person watching a run sees: a bar on a terminal, plain lines in a file."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_PLAIN_SECONDS = 30.0  # between two plain lines


class Show:
    """Progress of one run. `update` may be called at every agent step."""

    def __init__(self, total: int, done: int, quiet: bool = False) -> None:
        self.console = Console(quiet=quiet, soft_wrap=True)
        self._total, self._first = total, done
        self._start = self._last = time.monotonic()
        self._first_updates: int | None = None
        self._bar = Progress(
            TextColumn("{task.fields[counts]}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("{task.fields[scores]}"),
            console=self.console,
            refresh_per_second=4,
            disable=not self.console.is_terminal,
        )
        self._task = self._bar.add_task("train", total=total, completed=done, counts="", scores="")

    def __enter__(self) -> Show:
        self._bar.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        self.console.print(text, highlight=False, markup=False)

    def update(self, env_step: int, agent_step: int, updates: int, episode_return: float | None) -> None:
        now = time.monotonic()
        if self._first_updates is None:
            self._first_updates, self._start = updates, now
        if now - self._last < (0.2 if self.console.is_terminal else _PLAIN_SECONDS) and env_step < self._total:
            return
        self._last = now
        seconds = max(now - self._start, 1e-9)
        rate = (updates - self._first_updates) / seconds
        counts = f"env {env_step:,} agent {agent_step:,} updates {updates:,}"
        scores = f"{rate:.1f} updates/s"
        if episode_return is not None:
            scores += f" return {episode_return:.1f}"
        if self.console.is_terminal:
            self._bar.update(self._task, completed=env_step, counts=counts, scores=scores)
            return
        left = seconds / max(env_step - self._first, 1) * (self._total - env_step)
        self.say(f"{counts} of {self._total:,} env steps, {scores}, {_clock(left)} left")


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
