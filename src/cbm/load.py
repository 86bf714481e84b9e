"""Agents out of run directories: to act, to be filmed, to be evaluated again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbm.checkpoint import load_newest
from cbm.config import RunConfig, read_config
from cbm.errors import CBMError
from cbm.evaluate import Job, plan
from cbm.factory import Shapes, load_weights, make_environment, make_run_agent
from cbm.logs import read_lines
from cbm.run_dir import RunDir, open_existing

if TYPE_CHECKING:
    from cbm.types import Agent


def load_agent(directory: Path | str, device: str = "cpu") -> Agent:
    """The agent of a run's newest checkpoint, ready to `act`. No code from the run directory is executed."""
    return load_run(directory, device)[1]


def load_run(directory: Path | str, device: str = "cpu") -> tuple[RunConfig, Agent, int]:
    """Configuration, agent and environment step of a run's newest checkpoint."""
    run = open_existing(Path(directory))
    config = read_config(run.config)
    env_step, state = load_state(run)
    obs, action = state["shapes"]
    agent = make_run_agent(config, Shapes(tuple(obs), action), device)
    load_weights(agent, state["agent"])
    return config, agent, env_step


def load_state(run: RunDir) -> tuple[int, dict[str, Any]]:
    """Environment step and state of a run's newest checkpoint; an error where it has none."""
    found = load_newest(run.checkpoints)
    if found is None:
        raise CBMError(f"{run.root} has no checkpoint yet. Train it first: {run.resume_command}")
    return found


def film_best(config: RunConfig, run: RunDir, agent: Agent) -> Path:
    """A film in `videos/` of the best episode of the last evaluation, which is played again for it."""
    import torch

    from cbm.record import film_episode

    job, env_step = best_job(config, run)
    path = run.videos / f"best-{env_step:09d}.mp4"
    env = make_environment(config.env, job.split, film=True)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the evaluation, so that it is the same episode to the last bit
    try:
        film_episode(agent, env, job, env_step, path, f"{config.env.name} {config.agent_name}")
    finally:
        torch.set_num_threads(threads)
        env.close()
    return path


def best_job(config: RunConfig, run: RunDir) -> tuple[Job, int]:
    """The episode of the last evaluation with the highest return, on videos of training or unseen."""
    last = read_lines(run.evals)[-1]
    returns = {split: last[split]["returns"] for split in config.env.splits}
    split = max(returns, key=lambda name: max(returns[name]))
    best = returns[split].index(max(returns[split]))
    return plan(config, last["env_step"], best + 1, (split,))[best], last["env_step"]
