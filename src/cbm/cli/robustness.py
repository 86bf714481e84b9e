"""The verb `cbm robustness`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from tyro.conf import Positional, UseAppendAction, arg

from cbm.errors import CBMError
from cbm.schema.ranges import Count, Range, Share
from cbm.schema.tree import check
from cbm.system.files import check_folder, make_folder
from cbm.training.progress import clock

if TYPE_CHECKING:
    from cbm.evaluation.robustness import Cell, Matrix


def robustness(
    runs: Positional[tuple[Path, ...]],
    output: Annotated[Path, arg(aliases=["-o"])] = Path("robustness"),
    episodes: int = 10,
    scales: tuple[float, ...] = (0.1, 0.2, 0.3, 0.5),
    videos: UseAppendAction[tuple[str, ...]] = (),
    workers: int | None = None,
) -> int:
    """Play agents in a grid of conditions: nothing, each distraction alone and stronger, easy, medium and hard, static
    and dynamic, on videos that they never saw. Ctrl-C stops it; the same command continues.

    Args:
        runs: run directories, or zoo:NAME.
        output: folder for the matrix of all runs: robustness.png, .svg and .csv.
        episodes: number of episodes per condition.
        scales: strengths of the camera and colour distractions, 0 to 1.
        videos: a source of videos in addition to the run's own, such as davis or a folder. Can be repeated.
        workers: number of processes. None: one per core. Changes no result.
    """
    from cbm.analysis.figures.matrix import draw_matrix
    from cbm.evaluation.robustness import grid, play_grid
    from cbm.runs.load import find_run

    check(Count, episodes, "--episodes")
    check(Annotated[int, Range(0, 1_024)] | None, workers, "--workers")
    for scale in scales:
        check(Share, scale, "--scales")
    if not runs:
        raise CBMError("name at least one run: cbm robustness runs/first")
    check_folder(output)
    cells = grid(scales, videos)
    rows = list(dict.fromkeys(cell.row for cell in cells))
    found = [find_run(run) for run in runs]  # a mistake is said before the first is played
    matrices = []
    with _EpisodeBar(len(runs) * len(cells) * episodes, episodes) as show:
        for run, directory in zip(runs, found, strict=True):
            show.say(f"{run}:")
            matrices.append(play_grid(run, cells, episodes, workers, output, show.done))
            if not directory.entry.exists():
                draw_matrix(matrices[-1:], rows, make_folder(directory.figures, directory.root))
    _print(matrices, rows)
    print("wrote", ", ".join(map(str, draw_matrix(matrices, rows, output))))
    return 0


class _EpisodeBar(Progress):
    """A bar with the time left, and a line for each finished cell."""

    def __init__(self, total: int, episodes: int) -> None:
        console = Console(stderr=True, soft_wrap=True)
        columns = (TextColumn("episodes"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        super().__init__(*columns, console=console, disable=not console.is_terminal)
        self.add_task("", total=total)
        (self._bar,) = self.tasks
        self._episodes, self._played, self._begun = episodes, 0, time.monotonic()

    def say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False)

    def done(self, cell: Cell | None, returns: list[float], fresh: bool) -> None:
        """As `play_grid` tells it."""
        self._played += fresh
        self.advance(self._bar.id, 1 if fresh else self._episodes)
        if cell is not None:
            seconds = (time.monotonic() - self._begun) / max(self._played, 1) * (self._bar.remaining or 0)
            left = f", {clock(seconds)} left" if self._played else ""
            motion = "dynamic" if cell.dynamic else "static"
            mean = sum(returns) / len(returns)
            self.say(f"  {cell.row}, {motion}: {mean:.1f}  ({self._bar.completed} of {self._bar.total} episodes{left})")


def _print(matrices: list[Matrix], rows: list[str]) -> None:
    table = Table("condition", box=None, pad_edge=False)
    for matrix in matrices:
        table.add_column(f"{matrix.name}\nstatic", justify="right")
        table.add_column("\ndynamic", justify="right")
    for row in rows:
        cells = [matrix.mean(row, moving) for matrix in matrices for moving in (False, True)]
        table.add_row(row, *("" if mean is None else f"{mean:.0f}" for mean in cells))
    Console().print(table, markup=False)
