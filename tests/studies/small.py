"""A study that runs in seconds: the toy task, networks of a few channels."""

from __future__ import annotations

import json
from pathlib import Path

from cbm.studies.define import Choice, Plan
from cbm.studies.file import read_study
from cbm.studies.store import Store
from toy import TINY

SIZES = TINY | {"training.eval_workers": None, "training.threads": None, "training.film": False}


def write_study(folder: Path, methods: str = '["drqv2"]', seeds: int = 2, **changes: object) -> Path:
    """The file of a study on the toy task. `training__total_steps=400` changes a setting of all its runs."""
    values = SIZES | {name.replace("__", "."): value for name, value in changes.items()}
    lines = [f'"{name}" = {json.dumps(value)}' for name, value in values.items() if value is not None]
    path = folder / "toy-study.toml"
    head = f'title = "A toy"\ntasks = ["toy:PixelDot-v0"]\nmethods = {methods}\nseeds = {seeds}\n\n[set]\n'
    path.write_text(head + "\n".join(lines) + "\n")
    return path


def small_plan(folder: Path, **options: object) -> tuple[Plan, Store]:
    """The plan of such a study, and where it is computed."""
    store = Store(folder / "studies")
    return store.plan(read_study(write_study(folder, **options)), Choice()), store  # type: ignore[arg-type]
