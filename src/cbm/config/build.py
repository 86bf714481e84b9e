"""A configuration's environment, agent and replay."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import torch

from cbm.agents import Setup, make_agent
from cbm.config import EnvConfig, RunConfig
from cbm.config.seeds import seed_for
from cbm.errors import CBMError
from cbm.replay import Replay
from cbm.system.cores import cores
from cbm.types import Agent


class Shapes(NamedTuple):
    """What an agent must know of an environment: (3 * stack, H, W), and the number of actions."""

    obs: tuple[int, int, int]
    action: int

    @classmethod
    def of(cls, env: gym.Env) -> Shapes:
        setup = Setup.of(env)
        return cls(setup.obs_shape, setup.action_dim)


def make_environment(config: EnvConfig, split: str, film: bool = False) -> gym.Env:
    """The environment of a run. `film` allows `render()`."""
    config = config.resolved()
    if config.env_id is not None:
        from cbm.envs.adapt import adapt

        assert config.action_repeat is not None
        return adapt(config.env_id, config.size, config.frame_stack, config.action_repeat)
    from cbm.envs.make import make_env

    return make_env(
        config.task,
        **config.conditions(),
        split=split,
        size=config.size,
        frame_stack=config.frame_stack,
        action_repeat=config.action_repeat,
        renderer=config.renderer,
        render_mode="rgb_array" if film else None,
    )


def make_run_agent(config: RunConfig, shapes: Shapes, device: str = "cpu") -> Agent:
    """The agent of a run, with fresh weights."""
    env = config.env.resolved()
    assert env.action_repeat is not None
    assert env.noise is not None
    setup = Setup(
        obs_shape=shapes.obs,
        action_dim=shapes.action,
        action_repeat=env.action_repeat,
        noise=env.noise,
        device=torch.device(device),
        seed=seed_for(config.seed, "agent"),
    )
    return make_agent(config.agent_name, setup, config.agent, config.objective)


def load_weights(agent: Agent, state: Mapping[str, Any]) -> None:
    """Make `agent` act as the one that `state` came from. Optimizers stay behind, and so does a generator that may
    belong to another device. Only learning needs target networks, so `state` may be without them."""
    own = agent.state_dict()
    targets = {name: weights for name, weights in own.get("modules", {}).items() if name.startswith("target_")}
    try:
        modules = {"modules": targets | state["modules"]} if targets else {}
        agent.load_state_dict({**state, **modules, "optimizers": {}, "generator": own["generator"]})
    except (RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        first = str(error).strip().splitlines()[:2]
        raise CBMError(f"the checkpoint does not fit the settings in config.json: {' '.join(first)}") from error


def make_replay(config: RunConfig, shapes: Shapes, directory: Path, state: Mapping[str, Any] | None = None) -> Replay:
    """A new replay, or the one of a checkpoint."""
    if state is not None:
        return Replay.open(directory, state)
    frames = min(config.training.replay_capacity, config.training.total_steps // (config.env.action_repeat or 1))
    needed, disk = frames * 3 * shapes.obs[1] * shapes.obs[2], shutil.disk_usage(directory.parent).total
    if needed > disk:
        raise CBMError(
            f"replay will hold {frames:,} frames, which take {needed / 1e9:,.1f} GB, but the disk of "
            f"{directory.parent} has {disk / 1e9:,.1f} GB in total. Lower --training.replay_capacity."
        )
    return Replay.create(directory, shapes.obs, shapes.action, config.training.replay_capacity)


def resolve_machine(config: RunConfig) -> RunConfig:
    """With the device of this machine filled in, so that a resumed run uses the same."""
    training, device = config.training, config.training.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    elif device.startswith("cuda") and not torch.cuda.is_available():
        raise CBMError(f"--device {device}: PyTorch finds no GPU here. Use --device cpu or leave it out.")
    return replace(config, env=config.env.resolved(), training=replace(training, device=device))


def thread_count(wanted: int | None) -> int:
    """Threads that compute: one per core."""
    return cores() if wanted is None else wanted


def worker_count(episodes: int, wanted: int | None) -> int:
    """Processes for an evaluation: one per core, and no more than there are episodes."""
    return min(cores() if wanted is None else wanted, episodes)


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch on one thread: sums are then taken in one order, wherever an episode is played."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
