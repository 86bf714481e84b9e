"""What training costs beside the update: everything else in the loop, and a checkpoint when replay is large."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from cbm.bench import Row
from cbm.collect import Collector
from cbm.config import EnvConfig, RunConfig, make_config
from cbm.factory import resolve_machine
from cbm.jsonl import read_lines
from cbm.logs import Logs
from cbm.run_dir import RunDir
from cbm.session import Saver, Session
from cbm.training import train

_TASK = "cartpole-swingup"
_STORED = 100_000  # steps in replay when a checkpoint is timed


def rows(quick: bool = False, report: Callable[[str], None] = lambda part: None) -> Iterator[Row]:
    """The two figures, for DrQ-v2 + CBM with the preset `paper` on distracting cartpole."""
    config = make_config("drqv2+cbm", EnvConfig(_TASK, "easy"), "paper")
    with tempfile.TemporaryDirectory() as directory:
        report("a short run")
        share = share_outside_update(config, Path(directory) / "run", updates=20 if quick else 60)
        yield Row("share of wall time outside the update", _TASK, share, None, None, "<= 0.10", share)
    with tempfile.TemporaryDirectory() as directory:
        report(f"a checkpoint with {_STORED:,} steps in replay")
        seconds = checkpoint_seconds(config, RunDir(Path(directory)), rounds=2 if quick else 5)
        yield Row(f"seconds of a checkpoint, {_STORED:,} steps in replay", _TASK, seconds, None, None, "<= 2", seconds)


def share_outside_update(config: RunConfig, out: Path, updates: int) -> float:
    """Of the time from one evaluation to the next, the part that is not spent in `agent.update`.

    A short run gives the seconds of a step, of an evaluation (the last one: the workers are up) and of a checkpoint;
    the interval of the real configuration says how many steps share one of each.
    """
    assert config.env.action_repeat is not None
    repeat, warmup = config.env.action_repeat, 5
    seed_steps = 50 * repeat
    settings = replace(
        config.training,
        seed_steps=seed_steps,
        total_steps=seed_steps + (warmup + updates) * repeat,
        log_every=warmup * repeat,
        film=False,
    )
    train(replace(config, training=settings), out, quiet=True)
    lines = read_lines(out / "timings.jsonl")
    first, last, after_evaluation = lines[2], lines[-2], lines[-1]  # lines[0] is the evaluation at step 0
    steps = last["agent_step"] - first["agent_step"]
    spent = {part: last["seconds"][part] - first["seconds"].get(part, 0.0) for part in last["seconds"]}
    evaluation = after_evaluation["seconds"]["evaluate"] - last["seconds"]["evaluate"]
    checkpoint = last["seconds"]["checkpoint"]
    interval = config.training.eval_every / repeat
    in_update = interval * spent["update"] / steps
    in_all = interval * spent["all"] / steps + evaluation + checkpoint
    return 1.0 - in_update / in_all


def checkpoint_seconds(config: RunConfig, run: RunDir, rounds: int) -> float:
    """Median seconds of a checkpoint, each after as many new steps as there are between two of a real run."""
    config = resolve_machine(config)
    repeat = config.env.action_repeat or 1
    between = config.training.checkpoint_every // repeat
    collector = Collector(config)
    try:
        session = Session(config, collector, run.replay, None)
    finally:
        collector.close()
    logs = Logs(run, 0, None)
    saver = Saver(run, session, logs, resumed=False)
    frames = np.random.default_rng(0).integers(0, 256, (64, *session.shapes.obs), np.uint8)

    def store(steps: int) -> None:
        for i in range(steps):
            session.replay.add(np.zeros(session.shapes.action), 0.0, frames[i % len(frames)], False, False)
        session.at.env_step += steps * repeat

    store(_STORED - rounds * between)
    session.agent.update(session.agent.sample(session.replay, session.sampling), 0)  # Adam's moments count too
    saver.save()
    times = []
    for _ in range(rounds):
        store(between)
        start = time.perf_counter()
        saver.save()
        times.append(time.perf_counter() - start)
    logs.close()
    return sorted(times)[rounds // 2]
