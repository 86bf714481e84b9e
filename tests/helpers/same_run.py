"""Whether two runs are the same to the last bit, and how one is interrupted at some moment."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from cbm.replay import Replay
from cbm.runs.checkpoint import load_newest
from cbm.system.jsonl import read_lines
from cbm.training.loop import Outcome
from toy import cbm


def same(a: Any, b: Any) -> bool:
    """Whether two checkpoint states are equal to the last bit."""
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if hasattr(a, "shape"):
        return a.shape == b.shape and a.dtype == b.dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes()
    return a == b


def complete(outcome: Outcome) -> None:
    """Both of two runs that are compared must have come to their end.

    SIGTERM, such as `timeout` sends it to a test that is late, is a request to stop: `train` saves and returns, and the
    test would go on to compare a run that is cut off.
    """
    assert outcome.stopped is None, f"the run was stopped at {outcome.at.env_step}: {outcome.stopped}"


def assert_same_run(ours: Path, reference: Path) -> None:
    for run in (ours, reference):
        assert json.loads((run / "ended.json").read_text())["how"] == "complete", run
    for name in ("metrics.jsonl", "evals.jsonl", "analysis.jsonl"):
        assert (ours / name).read_bytes() == (reference / name).read_bytes(), name
    (step, state), (reference_step, reference_state) = map(load, (ours, reference))
    assert step == reference_step
    for part in reference_state:
        assert same(state[part], reference_state[part]), part
    replays = [Replay.open(run / "replay", state["replay"], writable=False) for run in (ours, reference)]
    indices = replays[0].indices()
    assert np.array_equal(indices, replays[1].indices())
    assert replays[0].observations(indices).equal(replays[1].observations(indices))
    assert replays[0].records(indices).tobytes() == replays[1].records(indices).tobytes()


def load(run: Path) -> tuple[int, dict[str, Any]]:
    found = load_newest(run / "checkpoint")
    assert found is not None
    return found


def wait_for_lines(run: Path, count: int, process: Any, seconds: float = 300) -> None:
    """Until metrics.jsonl has `count` lines."""
    deadline = time.monotonic() + seconds
    while len(read_lines(run / "metrics.jsonl")) < count:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def interrupt(run: Path, number: int, lines: int, words: list[Any]) -> tuple[int, str]:
    """Start `cbm train`, send it a signal some moment after metrics.jsonl has `lines` lines; exit code and output."""
    process = cbm("train", *words)
    wait_for_lines(run, lines, process)
    time.sleep(random.uniform(0, 0.3))
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    output = process.communicate(timeout=60)[0]
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive, "evaluation workers outlive their parent"
    return process.returncode, output
