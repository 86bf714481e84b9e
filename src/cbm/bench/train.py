"""What training costs besides updates: everything else in the loop, and a checkpoint with a large replay."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from cbm.bench import Row, alternate, cost
from cbm.config import EnvConfig, RunConfig, make_config
from cbm.config.build import resolve_machine, thread_count
from cbm.learning import threads
from cbm.learning.memory import keep_freed_memory
from cbm.runs.directory import RunDir
from cbm.system.jsonl import read_lines
from cbm.training.collect import make_collector
from cbm.training.logs import Logs, Stopwatch
from cbm.training.loop import learn, train
from cbm.training.session import Saver, Session

_TASK = "cartpole-swingup"
_STORED = 100_000  # steps in replay when a checkpoint is timed
_STEPS = 20_000  # environment steps whose time is compared with and without overlap
DEMO_STEPS = 150_000  # of `make demo`


def rows(quick: bool = False, report: Callable[[str], None] = lambda part: None) -> Iterator[Row]:
    """Every figure, for DrQ-v2 + CBM on distracting cartpole."""
    env = EnvConfig(_TASK, "easy")
    paper, laptop = (make_config("drqv2+cbm", env, preset) for preset in ("paper", "laptop"))
    rounds = 2 if quick else 5
    for rate in (laptop.updates_per_agent_step, 0.25):
        report(f"steps with and without overlap, {rate} updates a step")
        yield overlap_row(make_config("drqv2+cbm", env, "laptop", overrides={"agent.updates_per_step": rate}), rounds)
    updates = 20 if quick else 60
    with tempfile.TemporaryDirectory() as directory:
        report("a short run as in make demo")
        share = share_of_evaluation(laptop, Path(directory) / "demo", DEMO_STEPS, updates)
        yield Row("share of evaluation and analysis in make demo", _TASK, share, None, None, "<= 0.15", share)
        report("a short run")
        share = share_outside_update(paper, Path(directory) / "run", updates)
        yield Row("share of wall time outside the update", _TASK, share, None, None, "<= 0.10", share)
        report(f"a checkpoint with {_STORED:,} steps in replay")
        seconds = checkpoint_seconds(paper, RunDir(Path(directory)), rounds)
        yield Row(f"seconds of a checkpoint, {_STORED:,} steps in replay", _TASK, seconds, None, None, "<= 2", seconds)


def overlap_row(config: RunConfig, rounds: int, updates: int = 12) -> Row:
    """Training with and without `training.overlap`, in turns of a few updates each, without evaluations.

    The seconds are those of 20,000 steps: the seed steps, which have no updates, and the rest.
    """
    with ExitStack() as stack:
        keep_freed_memory()
        stack.enter_context(threads.use(thread_count(config.training.threads)))
        sides = [_FreshRun(config, overlap, stack) for overlap in (True, False)]
        turns = alternate(*(partial(side.train, updates) for side in sides), rounds=rounds, warmup=0)
    repeat, seed_steps, rate = config.env.action_repeat or 1, config.training.seed_steps, config.updates_per_agent_step
    per_update = [seconds / updates for seconds in turns]  # with the steps that belong to it
    ours, reference = (
        seed_steps / repeat * side.seed_step + (_STEPS - seed_steps) / repeat * rate * seconds
        for side, seconds in zip(sides, per_update, strict=True)
    )
    what = f"seconds of {_STEPS:,} steps with overlap against without, laptop, {rate:g} updates a step"
    details = {"seconds an update, ours": per_update[0], "seconds an update, reference": per_update[1]}
    return cost(what, _TASK, ours, reference, "<= 0.85", details)


class _FreshRun:
    """A run just after its seed steps, without evaluations and records."""

    def __init__(self, config: RunConfig, overlap: bool, stack: ExitStack) -> None:
        seed_steps = 300 * (config.env.action_repeat or 1)
        settings = replace(config.training, overlap=overlap, seed_steps=seed_steps, replay_capacity=10_000)
        self._config = resolve_machine(replace(config, training=settings))
        self._clock = Stopwatch()
        self._collector = make_collector(self._config)
        stack.callback(self._collector.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._session = Session(self._config, self._collector, folder, None)
        start = time.perf_counter()
        for _ in range(299):
            self._step()
        self.seed_step = (time.perf_counter() - start) / 299
        self.train(3)

    def train(self, updates: int) -> None:
        at = self._session.at
        until = at.updates + updates
        while at.updates < until:
            before = at.updates
            learn(self._session, self._config, self._clock)
            if at.updates == before:
                self._step()
        while self._collector.ahead:  # or they would slow down the other side
            self._step()

    def _step(self) -> None:
        self._session.store(self._collector.take(self._session.at.env_step))


@dataclass(frozen=True)
class Costs:
    """Seconds, from a short run."""

    step: float  # an agent step with its updates, in total
    update: float  # the part of that spent in `agent.update`
    seed_step: float
    evaluation: float  # after the first: the workers are running
    analysis: float  # likewise
    checkpoint: float
    first: float  # how much longer the first evaluation and analysis take


def costs(config: RunConfig, out: Path, updates: int) -> Costs:
    """Train a little with this configuration."""
    assert config.env.action_repeat is not None
    repeat, every = config.env.action_repeat, round(1.0 / min(1.0, config.updates_per_agent_step))
    warmup, seed_steps = 5 * every, 50 * repeat
    settings = replace(
        config.training,
        seed_steps=seed_steps,
        total_steps=seed_steps + (warmup + updates * every) * repeat,
        log_every=warmup * repeat,
        film=False,
    )
    train(replace(config, training=settings), out, quiet=True)
    lines = read_lines(out / "timings.jsonl")
    warm = next(line for line in lines if line["agent_step"] >= 50 + warmup)
    # Counters, because a part that has not occurred has taken no time.
    at_start, first, last, end = (Counter(line["seconds"]) for line in (lines[0], warm, lines[-2], lines[-1]))
    between, after, steps = last - first, end - last, lines[-2]["agent_step"] - warm["agent_step"]
    return Costs(
        step=between["all"] / steps,
        update=between["update"] / steps,
        seed_step=(first["act"] + first["environment"]) / warm["agent_step"],
        evaluation=after["evaluate"],
        analysis=after["analyze"],
        checkpoint=last["checkpoint"],
        first=at_start["evaluate"] - after["evaluate"] + at_start["analyze"] - after["analyze"],
    )


def share_outside_update(config: RunConfig, out: Path, updates: int) -> float:
    """The part of the time between two evaluations that is not spent in `agent.update`."""
    found = costs(replace(config, training=replace(config.training, analyze_every=0)), out, updates)
    interval = config.training.eval_every / (config.env.action_repeat or 1)
    return 1.0 - interval * found.update / (interval * found.step + found.evaluation + found.checkpoint)


def share_of_evaluation(config: RunConfig, out: Path, total_steps: int, updates: int) -> float:
    """The part of the time of a whole run of `total_steps` that evaluations and analyses take."""
    found, settings, repeat = costs(config, out, updates), config.training, config.env.action_repeat or 1
    evaluations, analyses = (
        1 + -(-total_steps // every) for every in (settings.eval_every, settings.analyze_every or total_steps)
    )
    apart = found.first + evaluations * found.evaluation + analyses * found.analysis
    steps = (total_steps - settings.seed_steps) / repeat * found.step + settings.seed_steps / repeat * found.seed_step
    return apart / (apart + steps)


def checkpoint_seconds(config: RunConfig, run: RunDir, rounds: int) -> float:
    """Median seconds of a checkpoint, each after as many new steps as in a real run."""
    config = resolve_machine(config)
    repeat = config.env.action_repeat or 1
    between = config.training.checkpoint_every // repeat
    with closing(make_collector(config)) as collector:
        session = Session(config, collector, run.replay, None)
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
    _, seconds = alternate(lambda: store(between), saver.save, rounds=rounds, warmup=0)
    logs.close()
    return seconds
