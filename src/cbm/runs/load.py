"""Agents from run directories: to act, to be filmed, to be evaluated again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cbm.config import RunConfig, check_settings, read_config
from cbm.config.build import Shapes, load_weights, make_run_agent
from cbm.errors import CBMError
from cbm.runs.checkpoint import load_newest
from cbm.runs.directory import RunDir
from cbm.runs.trust import check_trusted
from cbm.runs.zoo.entries import is_reference, open_entry, verify
from cbm.types import Agent, begin_episode


def load_agent(directory: Path | str, device: str = "cpu") -> Agent:
    """The agent of a run's newest checkpoint, or `zoo:NAME`, ready to `act`. No code in the run is executed.

    Examples:
        With the run from the example of `cbm.train`.

        >>> import cbm
        >>> agent = cbm.load_agent("runs/short")
        >>> env = cbm.make_env("cartpole-swingup", "easy", num_videos=2, size=32)
        >>> obs, info = env.reset(seed=0)
        >>> obs, reward, terminated, truncated, info = env.step(agent.act(obs))
        >>> action, state = agent.predict(obs)  # as in Stable-Baselines3
        >>> env.close()
    """
    return load_run(directory, device)[1]


def find_run(name: Path | str) -> RunDir:
    """What RUN on a command line means: a run directory, or the agent `zoo:NAME`."""
    if is_reference(name):
        return RunDir(open_entry(str(name)).root)
    run = RunDir(Path(name))
    if not run.config.exists():
        raise CBMError(f"{run.root} is not a run directory (it has no config.json).")
    if run.entry.exists():
        verify(run.root)
    return run


def load_run(directory: Path | str, device: str = "cpu", full_precision: bool = False) -> tuple[RunConfig, Agent, int]:
    """Configuration, agent and environment step of a run's newest checkpoint.

    With `full_precision` an agent that learned in bfloat16 acts in 32 bits.
    """
    config, env_step, state = load_checkpoint(find_run(directory))
    acting = replace(config, agent=replace(config.agent, mixed_precision=False)) if full_precision else config
    obs, action = state["shapes"]
    agent = make_run_agent(acting, Shapes(tuple(obs), action), device)
    load_weights(agent, state["agent"])
    begin_episode(agent)  # its memory of a training episode would be of no use
    return config, agent, env_step


def load_checkpoint(run: RunDir, plays: bool = False) -> tuple[RunConfig, int, dict[str, Any]]:
    """Configuration, environment step and state of a run's newest checkpoint; an error if it has none, or if the
    configuration has changed since. With `plays`, its environment will be made, so the user must trust it."""
    config = read_config(run.config)
    if plays:
        check_trusted(config.env.env_id, run.root)
    found = load_newest(run.checkpoints)
    if found is None:
        raise CBMError(f"{run.root} has no checkpoint yet. Train it first: {run.resume_command}")
    env_step, state = found
    check_settings(config, state.get("config"), run.config)
    return config, env_step, state
