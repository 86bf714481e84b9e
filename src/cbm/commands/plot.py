"""The verb `cbm plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


def plot(runs: Positional[tuple[Path, ...]], output: Annotated[Path, arg(aliases=["-o"])] = Path("curve.png")) -> int:
    """Draw learning curves of runs, finished or not. Runs of one setting are averaged over their seeds.

    Args:
        runs: run directories.
        output: .png, .svg or .pdf; the numbers go to a .csv beside it.
    """
    from cbm.analysis.curves import draw_curves, read_curve
    from cbm.errors import CBMError

    if output.suffix not in (".png", ".svg", ".pdf"):
        raise CBMError(f"-o {output}: the name must end in .png, .svg or .pdf.")
    written = draw_curves([read_curve(run) for run in runs], output)
    print("wrote", ", ".join(map(str, written)))
    return 0
