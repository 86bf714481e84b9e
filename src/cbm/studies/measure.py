"""How long a study takes on this machine, estimated from a few steps and updates of each method at full size.

One run is measured at a time, on as many threads as it will have. Runs side by side share memory and caches, so the
estimate is a little low (`cbm bench study` measures by how much).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from cbm.analysis.probing.probe import BACKGROUNDS, EPISODES
from cbm.config import from_json
from cbm.config.build import make_environment, resolve_machine
from cbm.learning import threads
from cbm.studies.define import Plan, PlannedRun
from cbm.studies.store import State
from cbm.system.cores import cores
from cbm.training.collect import make_collector
from cbm.training.session import Session

_STEPS, _STORED = 20, 400  # agent steps in an environment; made-up steps in replay
_SECONDS, _UPDATES = 3.0, 5  # limits for the updates of one method; there is at least one


def estimate_duration(
    plan: Plan, states: Mapping[str, State], jobs: int, report: Callable[[str], None]
) -> tuple[float, int, dict[str, tuple[float, float]]]:
    """Measure every environment and every method of the missing runs, then add up.

    Returns seconds for all missing runs, how many of them run at a time, and seconds for an update and a complete run
    of each method.
    """
    missing = [run for run in plan.runs if states[run.name].kind in ("missing", "begun")] or list(plan.runs)
    jobs = min(jobs or cores(), len(missing))
    worlds: dict[tuple[str, str], float] = {}
    methods: dict[str, tuple[float, float]] = {}
    with threads.use(max(1, cores() // jobs)):
        for run in missing:
            world = (run.task, run.variant)
            if world not in worlds:
                report(" ".join(filter(None, world)))
                worlds[world] = _seconds_of_step(run)
            if run.method not in methods:
                report(run.method)
                methods[run.method] = _seconds_of_update(run)
    whole = {run.name: _whole(run, worlds[run.task, run.variant], *methods[run.method]) for run in missing}
    rest = sum(whole[run.name] * (1.0 - states[run.name].env_step / run.total_steps) for run in missing)
    runs_of = {method: [whole[run.name] for run in missing if run.method == method] for method in methods}
    about = {method: (update, sum(runs_of[method]) / len(runs_of[method])) for method, (_, update) in methods.items()}
    return rest / jobs, jobs, about


def _seconds_of_step(run: PlannedRun) -> float:
    """One agent step of the run's environment, rendering included."""
    with closing(make_environment(from_json(run.config).env, "train")) as env:
        env.reset(seed=0)
        action = env.action_space.sample()
        env.step(action)
        start = time.perf_counter()
        for _ in range(_STEPS):
            if any(env.step(action)[2:4]):
                env.reset(seed=0)
        return (time.perf_counter() - start) / _STEPS


def _seconds_of_update(run: PlannedRun) -> tuple[float, float]:
    """Acting once, and one update (with its sample), on made-up frames."""
    config = resolve_machine(from_json(run.config))
    config = replace(config, training=replace(config.training, replay_capacity=_STORED + 100))
    with tempfile.TemporaryDirectory() as folder:
        with closing(make_collector(config)) as collector:
            session = Session(config, collector, Path(folder), None)
        rng = np.random.default_rng(0)
        frames = rng.integers(0, 256, (16, *session.shapes.obs), np.uint8)
        for i in range(_STORED):
            action = rng.uniform(-1.0, 1.0, session.shapes.action).astype(np.float32)
            session.replay.add(action, rng.uniform(), frames[i % len(frames)], False, False)
        agent, step = session.agent, config.training.seed_steps
        acting = _seconds(lambda index: agent.act(frames[index % len(frames)], step, explore=True), 20)
        updating = _seconds(lambda _: agent.update(agent.sample(session.replay, session.sampling), step), _UPDATES)
        return acting, updating


def _seconds(action: Callable[[int], object], rounds: int) -> float:
    """Mean seconds of an action, not counting the first one; if that takes long, its own time."""
    start = time.perf_counter()
    action(0)
    first = time.perf_counter() - start
    if first > _SECONDS:
        return first
    start, done = time.perf_counter(), 0
    while done < rounds and (not done or time.perf_counter() - start < _SECONDS):
        done += 1
        action(done)
    return (time.perf_counter() - start) / done


def _whole(run: PlannedRun, step: float, act: float, update: float) -> float:
    """Seconds of a whole run: training, evaluations and analyses, whose episodes last 1000 environment steps."""
    config = from_json(run.config)
    training, repeat = config.training, config.env.action_repeat or 1
    steps = training.total_steps / repeat
    updates = max(0, training.total_steps - training.seed_steps) / repeat * config.updates_per_agent_step
    updates += config.agent.first_updates
    evaluations = training.total_steps // training.eval_every + 1
    episodes = evaluations * training.eval_episodes * len(config.env.splits) + run.final_episodes
    if training.analyze_every:  # the half with random actions is played only once
        analyses = 1 + -(-training.total_steps // training.analyze_every)
        episodes += (analyses + 1) * EPISODES * (BACKGROUNDS if len(config.env.splits) > 1 else 1)
    return steps * (step + act) + updates * update + episodes * 1000 / repeat * (step + act)
