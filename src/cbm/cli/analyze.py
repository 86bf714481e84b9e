"""The verbs `cbm analyze` and `cbm bisimulation`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, UseAppendAction, arg

from cbm.runs.trust import trust as trust_modules
from cbm.schema.ranges import Count, CountOrZero
from cbm.schema.tree import check
from cbm.system.files import check_folder


def analyze(
    runs: Positional[tuple[Path, ...]],
    output: Annotated[Path, arg(aliases=["-o"])] = Path("analysis"),
    only: tuple[str, ...] = (),
    episodes: int = 50,
    all_prototypes: bool = False,
    trust: UseAppendAction[tuple[str, ...]] = (),
) -> int:
    """Show what the agents of runs have learned. Each run's figures go to its own folder `figures`.

    Args:
        runs: run directories, or folders with run directories in them.
        output: folder for figures that compare several runs.
        only: ch_index, probes, tsne, gallery, assignments, generalization, saliency. If omitted: all.
        episodes: number to play on unseen videos for `generalization`; 0 uses those of the last evaluation.
        all_prototypes: also draw a gallery of all prototypes, not only of the first four.
        trust: a Python module that the runs may import for their environment.
    """
    from cbm.analysis.analyze import FIGURES, analyze
    from cbm.errors import CBMError

    trust_modules(trust)
    check(CountOrZero, episodes, "--episodes")
    check_folder(output)
    report = analyze(runs, output, only or FIGURES, episodes, all_prototypes, say=lambda text: print(text, flush=True))
    for problem in report.problems:
        print(f"cbm analyze: {problem}", file=sys.stderr)
    if not report.analysed:
        raise CBMError("nothing was analysed. Give run directories with a checkpoint: cbm analyze runs/first")
    folders = dict.fromkeys(path.parent for path in report.written)
    print(f"wrote {len(report.written)} files in {', '.join(map(str, folders))}")
    return 0


def bisimulation(
    output: Annotated[Path, arg(aliases=["-o"])] = Path("analysis"), seeds: int = 3, updates: int = 600
) -> int:
    """Train CBM on a small pixel gridworld and compare its distance with the exact bisimulation metric.

    Args:
        output: folder for the figure and its numbers.
        seeds: number of seeds per method (untrained, dynamics only, CBM).
        updates: training updates; 600 take well under a minute per method and seed on a free core.
    """
    import torch

    from cbm.analysis.exact.gridworld import draw_bisimulation

    check(Count, seeds, "--seeds")
    check(Count, updates, "--updates")
    check_folder(output)
    torch.set_num_threads(1)  # networks too small to share
    written = draw_bisimulation(output, seeds, updates, say=lambda text: print(text, flush=True))
    print("wrote", ", ".join(map(str, written)))
    return 0
