"""`cbm bench update`: one learning step against a plain one, in bfloat16, on one and two threads; what replay costs.

Both sides of every figure take turns in one run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np

from cbm.bench import Row, alternate, speedup
from cbm.bench.side import EPISODE, PERIOD, What, filled_replay, side

OBS_SHAPE = (9, 84, 84)
BFLOAT16_BAR = ">= 1.2"  # on processors that have it; others emulate it


def rows(quick: bool = False, report: Callable[[str], None] = lambda what: None) -> Iterator[Row]:
    """Every figure. `quick` stores and repeats less, with smaller batches, for tests."""
    size, rounds = (8, 1) if quick else (None, 5)
    report("replay")
    yield from replay_rows(2_000 if quick else 200_000)
    for name, bar in (("drqv2+cbm", ">= 4"), ("drq+cbm", ">= 3.5")):
        report(f"{name} against a plain update")
        own = What(agent=name, batch_size=size)
        what = f"update of {name}, `paper`, against a plain one"
        yield _against(what, own, replace(own, plain=True), bar, rounds)
    report("bfloat16")
    what = "update of drqv2+cbm, `paper`, in bfloat16 against 32 bits"
    own = What(batch_size=size)
    yield _against(what, replace(own, mixed_precision=True), own, BFLOAT16_BAR, rounds)
    report("threads")
    two = What(preset="laptop", threads=2, batch_size=size)
    what = "update of drqv2+cbm, `laptop`, two threads, against one"
    yield _against(what, two, replace(two, threads=1), ">= 1.45", 5 * rounds)


def _against(what: str, own: What, other: What, bar: str, rounds: int) -> Row:
    with side(own) as ours, side(other) as reference:
        seconds, other_seconds = alternate(ours, reference, rounds=rounds, warmup=2)
    return speedup(f"{what}, seconds", "all", seconds / PERIOD, other_seconds / PERIOD, bar)


def replay_rows(stored: int, draws: int = 50) -> Iterator[Row]:
    """Milliseconds to sample a batch for `drqv2+cbm`, and bytes on disk per transition."""
    with tempfile.TemporaryDirectory() as folder:
        replay = filled_replay(Path(folder), OBS_SHAPE, stored // EPISODE)
        generator = np.random.default_rng(0)
        times = []
        for _ in range(draws):
            start = perf_counter()
            replay.sample(128, generator, n_step=3)
            times.append(perf_counter() - start)
        disk = sum(path.stat().st_blocks * 512 for path in replay.directory.iterdir()) / len(replay)
        replay.close()
    milliseconds = 1e3 * float(np.median(times))
    yield Row(f"sampling 128 of {stored} steps, milliseconds", "all", milliseconds, None, None, "<= 10", milliseconds)
    yield Row(f"replay on disk, bytes a step, episodes of {EPISODE}", "all", disk, None, None, "<= 21300", disk)
