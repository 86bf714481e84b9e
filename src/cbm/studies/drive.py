"""The loop that gets every run of a plan finished, or sets it aside with its error."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from cbm.studies.board import Board
from cbm.studies.define import Plan, PlannedRun
from cbm.studies.launch import Job, Launcher
from cbm.studies.store import TRIES, Ended, State, Store
from cbm.training.stop import Stop

_LOOK = 0.5  # seconds between two looks at the runs


@dataclass(frozen=True)
class Result:
    """The state of the study when the driver ends. `signal` is None unless it was asked to stop."""

    states: dict[str, State]
    signal: int | None = None

    def count(self, kind: str) -> int:
        return sum(state.kind == kind for state in self.states.values())


def drive(
    plan: Plan, store: Store, open_launcher: Callable[[], Launcher], board: Board | None = None, retry: bool = False
) -> Result:
    """Run what is missing. Finished runs are left alone, and begun ones resume from their checkpoint."""
    with store.locked():
        if retry:
            for run in plan.runs:
                store.forgive(run)
        states = {run.name: store.state(run) for run in plan.runs}
        waiting = deque(run for run in plan.runs if states[run.name].kind in ("missing", "begun"))
        if not waiting:
            return Result(states)
        with open_launcher() as launcher, Stop() as stop, board or Board(plan, store, quiet=True) as shown:
            _loop(waiting, states, store, launcher, shown, stop)
        return Result(states, stop.signal)


def _loop(
    waiting: deque[PlannedRun], states: dict[str, State], store: Store, launcher: Launcher, board: Board, stop: Stop
) -> None:
    running: dict[str, PlannedRun] = {}
    told = False
    while running or (waiting and not stop):
        if stop and not told:
            told = True
            board.say(f"stopping: {len(running)} runs are saving. Nothing is lost; run the same command to resume.")
            launcher.stop()
        while waiting and not stop and len(running) < launcher.slots:
            run = waiting.popleft()
            launcher.start(_job(run, store, launcher.threads))
            running[run.name] = run
        for name, ended in launcher.wait(_LOOK):
            run = running.pop(name)
            states[name] = _settle(run, ended, states[name], store)
            board.ended(run, ended, states[name])
            if states[name].kind in ("begun", "missing") and not stop:
                waiting.append(run)
        for name, run in running.items():
            step, result = store.progress(run)
            states[name] = replace(states[name], env_step=step, result=result)
        board.update(states, set(running))


def _settle(run: PlannedRun, ended: Ended, before: State, store: Store) -> State:
    """The state of a run after one of its processes has ended."""
    if ended.outcome == "done" and not store.is_done(run):
        ended = replace(ended, outcome="failed", error="its process ended without error, but the run is incomplete")
    store.record(run, ended)
    state = store.state(run)
    if ended.outcome == "failed":  # counted here too: on a full disk, the record may be lost
        failures = max(before.failures + 1, state.failures)
        kind = "set aside" if failures >= TRIES else state.kind
        state = replace(state, kind=kind, failures=failures, error=ended.error)
    return state


def _job(run: PlannedRun, store: Store, threads: int) -> Job:
    """The job of a run. The launcher divides up threads and evaluation workers, unless the study sets them."""
    training = run.config["training"]
    shares = {"threads": threads, "eval_workers": 0 if threads == 1 else threads}
    shares = {name: share for name, share in shares.items() if training[name] is None}
    shared = replace(run, config={**run.config, "training": training | shares})
    return Job(shared, str(store.root.resolve()), os.getcwd())
