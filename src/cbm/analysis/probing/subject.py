"""A run under examination: its newest checkpoint, the probe that it was shown, and the results."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from cbm.analysis.figures.style import thousands
from cbm.analysis.probing.clusters import Clusters, cluster, prototype_space
from cbm.analysis.probing.measures import in_batches, measure
from cbm.analysis.probing.online import Analyzer
from cbm.analysis.probing.probe import EPISODES, Probe
from cbm.config import to_json
from cbm.config.build import Shapes, one_thread, worker_count
from cbm.evaluation.workers import Workers
from cbm.runs.load import find_run, load_checkpoint
from cbm.runs.read import Run
from cbm.types import Agent, PrototypeSpace


@dataclass(frozen=True)
class Subject:
    """Everything that the figures of one run are drawn from."""

    run: Run
    agent: Agent
    env_step: int
    replay: dict[str, Any] | None  # the state of replay at the checkpoint; None for an agent of the zoo
    probe: Probe
    z: Tensor  # (N, D)
    value: np.ndarray  # (N,)
    space: PrototypeSpace | None
    clusters: Clusters
    findings: dict[str, Any]

    @property
    def title(self) -> str:
        where = f"{self.run.task}, {self.run.distraction}"
        return f"{self.run.agent} on {where}, seed {self.run.seed}, {thousands(self.env_step)} environment steps"


def names(subjects: Sequence[Subject]) -> list[str]:
    """For a legend: agent and seed, and also task and distraction if they differ."""
    places = [f"{each.run.task}, {each.run.distraction}" for each in subjects]
    short = [f"{each.run.agent}, seed {each.run.seed}" for each in subjects]
    return [", ".join(both) for both in zip(short, places, strict=True)] if len(set(places)) > 1 else short


def examine(run: Run) -> Subject:
    """Show the probe to the newest checkpoint of a run. A `CBMError` says why if that is impossible."""
    config, env_step, state = load_checkpoint(find_run(run.path), plays=True)
    obs, action = state["shapes"]
    with closing(Workers(to_json(config), worker_count(EPISODES, config.training.eval_workers))) as workers:
        analyzer = Analyzer(config, Shapes(tuple(obs), action), workers)
        probe = analyzer.probe(state["agent"], env_step)
    agent = analyzer.agent
    with one_thread():
        z, value = in_batches(agent.encode, probe.obs), in_batches(agent.value, probe.obs)
    space = prototype_space(agent)
    return Subject(
        run=run,
        agent=agent,
        env_step=env_step,
        replay=state.get("replay"),
        probe=probe,
        z=z,
        value=value.squeeze(1).numpy(),
        space=space,
        clusters=cluster(z, space),
        findings=measure(agent, probe),
    )
