"""The verbs `cbm plot`, `cbm report` and `cbm watch`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from cbm.errors import CBMError
from cbm.schema.ranges import Range
from cbm.schema.tree import check
from cbm.system.files import check_output


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
    from cbm.runs.read import load_runs

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


def report(
    runs: Positional[tuple[Path, ...]],
    output: Annotated[Path, arg(aliases=["-o"])] = Path("report.html"),
    title: str | None = None,
    megabytes: float = 19.5,
) -> int:
    """Write one self-contained page about runs, finished or not: curves, tables, films, galleries, settings.

    Args:
        runs: run directories, or folders with run directories below them.
        output: an .html file.
        title: heading of the page. None: the names of the folders.
        megabytes: largest size of the page; films and pictures that do not fit are scaled down, then left out.
    """
    from cbm.report.page import count_states, write_page
    from cbm.runs.read import load_runs

    if not runs:
        raise CBMError("name at least one run directory, or a folder of them: cbm report runs -o report.html")
    if output.suffix not in (".html", ".htm"):
        raise CBMError(f"-o {output}: the name must end in .html.")
    if output.is_dir():
        raise CBMError(f"-o {output} is a folder. Type: -o {output / 'report.html'}")
    check_output(output)
    check(Annotated[float, Range(1, 100_000)], megabytes, "--megabytes")
    loaded = load_runs(runs)
    if not loaded.runs:
        found = "\n  ".join(map(str, loaded.problems))
        raise CBMError(f"no run to show.\n  {found}\nTo make a run: cbm train --task cartpole-swingup --out runs/first")
    try:
        written = write_page(loaded, output, title or _title(runs), int(megabytes * 1e6))
    except OSError as error:
        raise CBMError(f"-o {output} cannot be written ({error.strerror}). Choose another file.") from None
    print(f"wrote {written.path} ({written.size / 1e6:.1f} MB), {count_states(loaded.runs)}")
    for problem in written.problems:
        print(f"  left out: {problem}", file=sys.stderr)
    if count := written.left_out:
        print(
            f"  {count} film{'s' * (count != 1)} or pictures did not fit; they are listed at the end of the page. "
            "To see all of them, raise --megabytes or use cbm watch.",
            file=sys.stderr,
        )
    return 0


def watch(
    directories: Positional[tuple[Path, ...]] = (Path("runs"),), port: int = 8010, title: str | None = None
) -> int:
    """Serve the same page live on this machine during training. Ctrl-C stops it.

    Args:
        directories: run directories, or folders with run directories below them; they may still be empty.
        port: port on 127.0.0.1; 0 picks a free one.
        title: heading of the page. None: the names of the folders.
    """
    from cbm.report.server import LiveData, Server, problems_of

    problems = problems_of(directories)
    if problems or not directories:
        found = "; ".join(map(str, problems)) or "no folder named"
        raise CBMError(f"{found}. Name the folder that your runs are in: cbm watch runs")
    try:
        with Server(LiveData(directories, title or _title(directories)), port) as server:
            print(f"watching {', '.join(map(str, directories))} at {server.url} (Ctrl-C stops it)", flush=True)
            server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        print()
    return 0


def _title(paths: tuple[Path, ...]) -> str:
    names = [path.resolve().name for path in paths]
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"
