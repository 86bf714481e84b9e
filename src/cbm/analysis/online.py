"""Analyses while a run is trained. They see a copy of the agent and environments of their own, and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym

from cbm import checkpoint
from cbm.analysis.measures import measure
from cbm.analysis.probe import Probe, collect
from cbm.config import RunConfig
from cbm.factory import Shapes, load_weights, make_environment, make_run_agent, one_thread


class Analyzer:
    """Plays the probe and measures. Everything that it needs is made when it is first asked."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._env: gym.Env | None = None
        self._agent: Any = None
        self._random: Probe | None = None  # the half that is the same each time

    def probe(self, state: Mapping[str, Any], env_step: int, stop: Callable[[], bool] = lambda: False) -> Probe:
        """The probe of an agent with this state; `agent` then is that agent."""
        if self._env is None:
            self._env = make_environment(self._config.env, "train")
            self._agent = make_run_agent(self._config, Shapes.of(self._env))
        load_weights(self._agent, state)
        with one_thread():  # as in an evaluation
            if self._random is None:
                self._random = collect(None, self._env, self._config.seed, 0, random=True, stop=stop)
            own = collect(self._agent, self._env, self._config.seed, env_step, random=False, stop=stop)
        return Probe.join([self._random, own])

    @property
    def agent(self) -> Any:
        return self._agent

    def measure(
        self, state: Mapping[str, Any], env_step: int, stop: Callable[[], bool] = lambda: False
    ) -> dict[str, Any]:
        """The numbers of one analysis. `stop` may break it off with `Interrupted`."""
        before = checkpoint.random_state()
        try:
            probe = self.probe(state, env_step, stop)
            return measure(self._agent, probe)
        finally:
            checkpoint.set_random_state(before)

    def close(self) -> None:
        if self._env is not None:
            self._env.close()
