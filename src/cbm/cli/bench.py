"""The verb `cbm bench`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Literal

from rich.console import Console
from rich.table import Table
from tyro.conf import Positional, arg

from cbm.bench import Row


def bench(
    what: Positional[Literal["env", "update", "methods", "act", "train", "study"]],
    as_json: Annotated[bool, arg(name="json")] = False,
    quick: bool = False,
) -> int:
    """Measure speed and fidelity on this machine, ours and a plain reference in turns. Trust ratios more than times.

    Args:
        what: env (rendering and distractions), update (one gradient step), methods (one `laptop` step of each),
            act (one decision, agent and ONNX file), train (everything around it), study (launchers; needs Ray).
        as_json: print one JSON object with a list `rows`.
        quick: fewer repetitions, so less precise figures.
    """
    console = Console(stderr=True)
    measured: list[Row] = []
    with console.status("measuring ...") as status:
        rows: Iterable[Row] = import_module(f"cbm.bench.{what}").rows(
            quick=quick, report=lambda part: status.update(f"measuring: {part}")
        )
        for row in rows:
            measured.append(row)
            if not as_json:
                console.print(f"[dim]{row.what}, {row.task}: {row.value:.4g}[/]", highlight=False)
    if as_json:
        print(json.dumps({"bench": what, "rows": [row.to_json() for row in measured]}, indent=2))
    else:
        Console().print(_table(measured))
    return 0


def _table(rows: list[Row]) -> Table:
    table = Table("what", "task", "ours", "reference", "ratio", "bar", "holds", box=None, pad_edge=False)
    for row in rows:
        reference = "" if row.reference is None else f"{row.reference:.4g}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        holds = "[green]yes[/]" if row.holds else "[red]no[/]"
        table.add_row(row.what, row.task, f"{row.ours:.4g}", reference, ratio, row.bar, holds)
    return table
