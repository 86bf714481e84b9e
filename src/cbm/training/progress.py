"""What a person watching a run sees: a bar on a terminal, plain lines in a file."""

from __future__ import annotations

import time
from collections import deque

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

_BAR_SECONDS, _PLAIN_SECONDS = 0.25, 30.0  # between two refreshes
_WINDOW = 120.0  # seconds over which speed is measured: seed steps are much faster than the rest


class ProgressDisplay:
    """Progress of one run. `update` may be called at every agent step."""

    def __init__(self, total: int, quiet: bool = False) -> None:
        self.console = Console(quiet=quiet, soft_wrap=True)
        self._total = total
        self._plain = not self.console.is_terminal
        self._seen: deque[tuple[float, int, int]] = deque()  # time, environment steps, updates
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            console=self.console,
            disable=self._plain or quiet,
        )
        self._task = self._bar.add_task("starting", total=total)

    def __enter__(self) -> ProgressDisplay:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        self.console.print(text, highlight=False, markup=False)

    def update(self, env_step: int, agent_step: int, updates: int, episode_return: float | None) -> None:
        """The counters, the speed, the last return and the time left, in one line."""
        now = time.monotonic()
        pause = _PLAIN_SECONDS if self._plain else _BAR_SECONDS
        if self._seen and now - self._seen[-1][0] < pause and env_step < self._total:
            return
        self._seen.append((now, env_step, updates))
        while len(self._seen) > 2 and now - self._seen[0][0] > _WINDOW:
            self._seen.popleft()
        start, first_step, first_updates = self._seen[0]
        seconds = max(now - start, 1e-9)
        speed, update_speed = (env_step - first_step) / seconds, (updates - first_updates) / seconds
        line = f"env {env_step:,}, agent {agent_step:,}, updates {updates:,} ({update_speed:.1f}/s)"
        if episode_return is not None:
            line += f", return {episode_return:.1f}"
        if speed > 0:
            line += f", {clock((self._total - env_step) / speed)} left"
        self._bar.update(self._task, completed=env_step, description=line)
        if self._plain:
            self.say(f"{line}, of {self._total:,}")


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
