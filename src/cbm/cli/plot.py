"""The verb `cbm plot`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


def plot(
    runs: Positional[tuple[Path, ...]],
    output: Annotated[Path, arg(aliases=["-o"])] = Path("curve.png"),
    scores: bool = False,
    level: float = 200.0,
) -> int:
    """Draw learning curves of runs, finished or not. Runs that differ only in their seed are drawn as one method.

    Args:
        runs: run directories, or folders with run directories in them.
        output: .png or .svg; both are written, and the numbers go to a .csv next to them.
        scores: also draw interquartile means, performance profiles, probability of improvement and sample efficiency,
            as OUTPUT-scores.
        level: for sample efficiency, the return that has to be reached.
    """
    from cbm.analysis.figures.curves import draw_curves, draw_scores, group_runs
    from cbm.errors import CBMError
    from cbm.runs.read import load_runs
    from cbm.schema.ranges import Range
    from cbm.schema.tree import check
    from cbm.system.files import check_output

    if output.suffix not in (".png", ".svg"):
        raise CBMError(f"-o {output}: the name must end in .png or .svg.")
    check_output(output)
    check(Annotated[float, Range(-1e9, 1e9)], level, "--level")
    loaded = load_runs(runs)
    for problem in loaded.problems:
        print(f"cbm plot: {problem}", file=sys.stderr)
    for run in loaded.runs:
        if not run.evals:
            print(f"cbm plot: {run.path}: left out, it has no evaluation yet", file=sys.stderr)
    if not loaded.runs:
        raise CBMError("no runs to draw. Give run directories: cbm plot runs/first runs/second")
    groups = group_runs(loaded.runs)
    written = draw_curves(groups, output.parent, output.stem)
    if scores:
        written += draw_scores(groups, output.parent, f"{output.stem}-scores", level)
    print("wrote", ", ".join(map(str, written)))
    return 0
