"""`cbm bench study`: the overhead of Ray, the gain of two runs side by side, the time to see that a study is done."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median

from cbm.bench import Row, alternate, speedup
from cbm.errors import CBMError
from cbm.studies.define import Choice, Grid, Plan, Study, make_plan
from cbm.studies.drive import drive
from cbm.studies.file import read_study
from cbm.studies.launch import Resources, make_launcher
from cbm.studies.store import Store
from cbm.system.child import PYTHON, environment

_TASK = "cartpole-swingup"
_GRID = Grid((_TASK,), ("drqv2+cbm",), {"easy": {"env.distraction": "easy"}})
_SHORT = {  # updates of the preset `laptop`, and little else
    "training.seed_steps": 800,
    "training.replay_capacity": 2_000,
    "training.eval_episodes": 1,
    "training.eval_every": 1_000_000,
    "training.analyze_every": 0,
    "training.film": False,
    "training.threads": 1,
    "training.eval_workers": 0,
}
_TURNS = 5
_FINISHED = 200
_NAMES = {"local": "the local launcher", "ray": "Ray, its start included", "cluster": "Ray on a cluster that is up"}


def rows(quick: bool = False, report: Callable[[str], None] = lambda part: None) -> Iterator[Row]:
    """The three figures, with real runs of DrQ-v2 + CBM on distracting cartpole."""
    smoke = make_plan(Study("bench", "", (_GRID,)), Choice("smoke", seeds=2 if quick else 8))
    with tempfile.TemporaryDirectory() as folder:
        seconds: dict[str, list[float]] = {launcher: [] for launcher in _NAMES}
        for turn in range(1 if quick else _TURNS):
            for launcher in list(_NAMES)[:: -1 if turn % 2 else 1]:  # back and forth: a steady drift cancels out
                report(f"{len(smoke.runs)} smoke runs by {_NAMES[launcher]}, turn {turn + 1}")
                with cluster() if launcher == "cluster" else nullcontext() as address:
                    root, kind = Path(folder) / f"{launcher}-{turn}", "local" if launcher == "local" else "ray"
                    seconds[launcher].append(timed(smoke, root, kind, jobs=2, address=address))
        what = f"overhead of Ray on {len(smoke.runs)} smoke runs, two at once, on a cluster that is up"
        yield overhead(what, seconds["cluster"], seconds["local"])
        start = median(own - up for own, up in zip(seconds["ray"], seconds["cluster"], strict=True))
        yield Row("seconds to start and stop Ray here, once per study", _TASK, start, None, None, "<= 20", start)
        report(f"a finished study of {_FINISHED} runs")
        found = finished_seconds(Path(folder) / "finished", Store(root).run_dir(smoke.runs[0]).root)
        yield Row(f"seconds of `study run` on {_FINISHED} finished runs", _TASK, found, None, None, "<= 2", found)
    steps = 1_600 if quick else 4_800
    pair = make_plan(
        Study("bench", "", (_GRID,), set={**_SHORT, "training.total_steps": steps}), Choice("laptop", seeds=2)
    )
    with tempfile.TemporaryDirectory() as folder:
        report("two runs, one after the other")
        alone = timed(pair, Path(folder) / "alone", "local", jobs=1)
        report("two runs side by side")
        together = timed(pair, Path(folder) / "together", "local", jobs=2)
    yield speedup("throughput of two single-thread runs side by side", _TASK, together, alone, ">= 1.7")


def overhead(what: str, ours: list[float], reference: list[float]) -> Row:
    """The median over turns of the ratio within a turn, because the speed of a machine drifts between turns."""
    ratios = [a / b for a, b in zip(ours, reference, strict=True)]
    ratio, spread = median(ratios), {"lowest": min(ratios) - 1.0, "highest": max(ratios) - 1.0}
    return Row(what, _TASK, median(ours), median(reference), ratio, "<= 0.10", ratio - 1.0, spread)


@contextmanager
def cluster() -> Iterator[str]:
    """A Ray cluster of one node with two CPUs, and its address."""
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_worker_niceness", "0")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        yield made.address
    finally:
        made.shutdown()


def timed(plan: Plan, root: Path, launcher: str, jobs: int, address: str | None = None) -> float:
    """Seconds of a whole study, started from scratch."""
    start = time.perf_counter()
    result = drive(plan, Store(root), make_launcher(launcher, Resources(root, jobs=jobs, address=address)))
    seconds = time.perf_counter() - start
    if result.count("done") < len(plan.runs):
        errors = [state.error for state in result.states.values() if state.error]
        raise CBMError(f"the benchmark's runs did not finish: {'; '.join(errors)}")
    return seconds


def finished_seconds(folder: Path, run: Path) -> float:
    """Median seconds of the command on a finished study, made of copies of one finished run."""
    folder.mkdir()
    file = folder / "many.toml"
    easy = 'set = { env.distraction = "easy" }'
    file.write_text(f'tasks = ["{_TASK}"]\nmethods = ["drqv2+cbm"]\n{easy}\n[smoke]\nseeds = {_FINISHED}\n')
    command = [*PYTHON, "-m", "cbm.cli", "study", "run", str(file), "--scale", "smoke", "--root", str(folder)]
    for planned in make_plan(read_study(file), Choice("smoke")).runs:
        target = folder / "runs" / planned.name
        shutil.copytree(run, target, ignore=shutil.ignore_patterns("replay", "tb", ".lock"))

    def look() -> None:
        result = subprocess.run(command, capture_output=True, text=True, env=environment() | {"OMP_NUM_THREADS": "1"})
        if f"{_FINISHED} of {_FINISHED} runs are done" not in result.stdout:
            raise CBMError(f"the finished study was not recognised as finished: {result.stdout}{result.stderr}")

    return alternate(look, rounds=3)[0]  # the first, not counted, resolves the plan: as the command that ran it did
