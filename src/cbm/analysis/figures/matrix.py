"""The matrix of `cbm robustness` as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cbm.analysis.figures.style import plt, save, thousands
from cbm.evaluation.robustness import Matrix


def draw_matrix(matrices: Sequence[Matrix], rows: Sequence[str], folder: Path) -> list[Path]:
    """A row for each condition, a column for each run, static next to dynamic: `robustness`.png, .svg, .csv."""
    values = [
        np.array([[matrix.mean(row, moving) for matrix in matrices] for row in rows], float)  # None becomes nan
        for moving in (False, True)
    ]
    highest = max(1.0, float(np.nanmax(np.stack(values))))
    several = len(matrices) > 1
    size = (3.2 + 2 * max(0.8 * len(matrices), 1.2), (2.8 if several else 1.2) + 0.27 * len(rows))
    figure, axes = plt.subplots(1, 2, figsize=size, sharey=True, layout="constrained")
    names = [f"{matrix.name}, {thousands(matrix.env_step)}" for matrix in matrices]
    for axis, numbers, title in zip(axes, values, ("static", "dynamic"), strict=True):
        axis.imshow(numbers, vmin=0, vmax=highest, cmap="viridis", aspect="auto")
        for (row, column), number in np.ndenumerate(numbers):
            if not np.isnan(number):
                colour = "black" if number > 0.6 * highest else "white"
                axis.text(column, row, f"{number:.0f}", ha="center", va="center", color=colour, fontsize=8)
        axis.set_yticks(range(len(rows)), rows)
        axis.set_xticks(range(len(names)), names if several else [""], rotation=40, ha="right", rotation_mode="anchor")
        axis.set_title(title)
        axis.grid(False)
    if not several:
        figure.suptitle(names[0], fontsize=9)
    figure.colorbar(axes[0].images[0], ax=axes, label="mean return", shrink=0.8)
    table = [
        (matrix.name, matrix.env_step, row, motion, float(np.mean(own)), float(np.std(own)), len(own))
        for matrix in matrices
        for motion, moving in (("static", False), ("dynamic", True))
        for row in rows
        if (own := matrix.returns.get((row, moving)))
    ]
    header = ("run", "env_steps", "condition", "motion", "mean", "std", "episodes")
    return save(figure, folder, "robustness", header, table)
