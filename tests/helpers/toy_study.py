"""A study that runs in seconds: the toy task, networks of a few channels."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cbm.studies.define import Choice, Plan
from cbm.studies.file import read_study
from cbm.studies.store import Store
from toy import TINY, cbm

SIZES = TINY | {
    "agent.updates_per_step": 1,  # long enough to be interrupted
    "training.eval_workers": None,
    "training.threads": None,
    "training.film": False,
}


def write_study(folder: Path, methods: str = '["drqv2"]', seeds: int = 2, **changes: object) -> Path:
    """The file of a study on the toy task. `training__total_steps=400` changes a setting of all its runs."""
    values = SIZES | {name.replace("__", "."): value for name, value in changes.items()}
    lines = [f'"{name}" = {json.dumps(value)}' for name, value in values.items() if value is not None]
    path = folder / "toy-study.toml"
    head = f'title = "A toy"\ntasks = ["toy:PixelDot-v0"]\nmethods = {methods}\nseeds = {seeds}\n\n[set]\n'
    path.write_text(head + "\n".join(lines) + "\n")
    return path


def small_plan(folder: Path, **options: Any) -> tuple[Plan, Store]:
    """The plan of such a study, and where it is computed."""
    store = Store(folder / "studies")
    return store.plan(read_study(write_study(folder, **options)), Choice()), store


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    """`cbm study run` of the study that was written to `folder`."""
    return cbm("study", "run", "toy-study.toml", *words, cwd=folder)


def finish(process: subprocess.Popen[str], code: int = 0, seconds: float = 240) -> str:
    """Its output, when it has ended as it should."""
    output = process.communicate(timeout=seconds)[0]
    assert process.returncode == code, output
    return output


def wait_until(holds: Callable[[], Any], process: subprocess.Popen[str], seconds: float = 120) -> None:
    """Look again and again, while the process lives."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
