"""Analyses during training. They use a copy of the agent and their own environments, and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from cbm.analysis.probing.measures import measure
from cbm.analysis.probing.probe import Probe, showings
from cbm.config import RunConfig
from cbm.config.build import Shapes, load_weights, make_run_agent
from cbm.evaluation.workers import Workers
from cbm.runs import checkpoint
from cbm.types import Agent


class Analyzer:
    """Measures on a probe that the workers of the evaluations play."""

    def __init__(self, config: RunConfig, shapes: Shapes, workers: Workers) -> None:
        self._config, self._shapes, self._workers = config, shapes, workers
        self._random: list[Probe] = []  # the half that is the same each time

    @cached_property
    def agent(self) -> Agent:
        return make_run_agent(self._config, self._shapes)

    def probe(self, state: Mapping[str, Any], env_step: int, stop: Callable[[], bool] = lambda: False) -> Probe:
        """The probe of an agent with this state; afterwards, `agent` is that agent."""
        load_weights(self.agent, state)
        seed = self._config.seed
        jobs = [*([] if self._random else showings(seed, random=True)), *showings(seed, random=False)]
        parts = [*self._random, *self._workers.play(state, jobs, env_step, stop)]
        self._random = parts[: len(parts) // 2]
        return Probe.join(parts)

    def measure(
        self, state: Mapping[str, Any], env_step: int, stop: Callable[[], bool] = lambda: False
    ) -> dict[str, Any]:
        """The numbers of one analysis. If `stop` returns true, it ends with `Interrupted`."""
        before = checkpoint.random_state()
        try:
            return measure(self.agent, self.probe(state, env_step, stop))
        finally:
            checkpoint.set_random_state(before)
