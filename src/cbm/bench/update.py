"""`cbm bench update`: an update against a plain one, on one and two threads, alone and next to another process; and
the cost of replay. Both sides of every figure take turns in one run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter

import numpy as np

from cbm.bench import Row, alternate, cost, speedup
from cbm.bench.side import EPISODE, PERIOD, Competitor, Load, Side, filled_replay

OBS_SHAPE = (9, 84, 84)
BFLOAT16_BAR = ">= 1.2"  # on processors that have it; others emulate it


def rows(quick: bool = False, report: Callable[[str], None] = lambda what: None) -> Iterator[Row]:
    """Every figure. `quick` stores less, repeats less and uses smaller batches, for tests."""
    size, rounds = (8, 1) if quick else (None, 5)
    for part in (replay_rows, plain_rows, bfloat16_rows, thread_rows, busy_rows):
        report(part.__name__.removesuffix("_rows"))
        yield from part(size, rounds)


def plain_rows(size: int | None, rounds: int) -> Iterator[Row]:
    """Updates at the paper's sizes against plain ones."""
    for name, bar in (("drqv2+cbm", ">= 4"), ("drq+cbm", ">= 3.5")):
        with Side(Load(agent=name, batch_size=size)) as own, Side(Load("plain", agent=name, batch_size=size)) as plain:
            yield _speedup(f"update of {name}, `paper`, against a plain one", own, plain, bar, rounds)


def bfloat16_rows(size: int | None, rounds: int) -> Iterator[Row]:
    with Side(Load(batch_size=size, mixed_precision=True)) as own, Side(Load(batch_size=size)) as other:
        what = "update of drqv2+cbm, `paper`, in bfloat16 against 32 bits"
        yield _speedup(what, own, other, BFLOAT16_BAR, rounds)


def _speedup(what: str, own: Side, other: Side, bar: str, rounds: int) -> Row:
    seconds, reference = (t / PERIOD for t in alternate(own, other, rounds=rounds, warmup=2))
    return speedup(f"{what}, seconds", "all", seconds, reference, bar)


def thread_rows(size: int | None, rounds: int) -> Iterator[Row]:
    """Two threads against operations that two share, against one thread, and against the rate of a matrix product."""
    for preset in ("laptop", "paper"):
        with (
            Side(Load("ours", preset, 2, batch_size=size)) as ours,
            Side(Load("shared", preset, 2, batch_size=size)) as shared,
            Side(Load("ours", preset, 1, batch_size=size)) as one,
            Side(Load("product", threads=2)) as product,
        ):
            sides, turns = (ours, shared, one, product), rounds * (5 if preset == "laptop" else 1)
            times = alternate(*sides, rounds=turns, warmup=2)
        what = f"update of drqv2+cbm, `{preset}`, two threads"
        seconds, shared_seconds, one_seconds, _ = (t / PERIOD for t in times)
        if preset == "laptop":
            yield speedup(f"{what}, against operations that two share, seconds", "all", seconds, shared_seconds, ">= 1")
            yield speedup(f"{what}, against one, seconds", "all", seconds, one_seconds, ">= 1.45")
        rate, best = ours.operations / times[0] / 1e9, product.operations / times[-1] / 1e9
        details = {"seconds": seconds, "seconds_shared": shared_seconds, "seconds_on_one_thread": one_seconds}
        yield cost(f"{what}, against a product of matrices, GFLOP/s", "all", rate, best, ">= 0.75", details)


def busy_rows(size: int | None, rounds: int) -> Iterator[Row]:
    """How much longer an update takes next to a process that never stops computing; the same for shared operations."""
    for nice, bar in ((10, "<= 2"), (0, "<= 2.5")):
        competitor = Competitor(nice)
        with (
            closing(competitor),
            Side(Load("ours", "laptop", 2, batch_size=size)) as ours,
            Side(Load("shared", "laptop", 2, batch_size=size)) as shared,
        ):
            alone: dict[Side, list[float]] = {ours: [], shared: []}
            beside: dict[Side, list[float]] = {ours: [], shared: []}
            for _ in range(rounds):
                for side in (ours, shared):
                    alone[side] += _calls(side)
                with competitor:
                    for side in (ours, shared):
                        beside[side] += _calls(side)
        quiet, shared_quiet = (float(np.median(alone[side])) / PERIOD for side in (ours, shared))
        busy, shared_busy = (float(np.mean(beside[side])) / PERIOD for side in (ours, shared))
        what = f"update of drqv2+cbm, `laptop`, two threads, beside a process at nice {nice}, against alone, seconds"
        yield cost(what, "all", busy, quiet, bar, {"shared_alone": shared_quiet, "shared_beside": shared_busy})


def _calls(side: Side, seconds: float = 1.5) -> list[float]:
    """Seconds of each call, after a first one, for about this long in total."""
    side()
    times: list[float] = []
    while not times or sum(times) < seconds:
        start = perf_counter()
        side()
        times.append(perf_counter() - start)
    return times


def replay_rows(size: int | None, rounds: int, draws: int = 50) -> Iterator[Row]:
    """Milliseconds to sample a batch for `drqv2+cbm`, and bytes on disk per transition."""
    stored = 200_000 if size is None else 2_000
    with tempfile.TemporaryDirectory() as folder:
        replay = filled_replay(Path(folder), OBS_SHAPE, stored // EPISODE)
        generator = np.random.default_rng(0)
        (seconds,) = alternate(lambda: replay.sample(128, generator, n_step=3), rounds=draws)
        disk = sum(path.stat().st_blocks * 512 for path in replay.directory.iterdir()) / len(replay)
        replay.close()
    yield Row(f"sampling 128 of {stored} steps, milliseconds", "all", 1e3 * seconds, None, None, "<= 10", 1e3 * seconds)
    yield Row(f"replay on disk, bytes a step, episodes of {EPISODE}", "all", disk, None, None, "<= 21300", disk)
