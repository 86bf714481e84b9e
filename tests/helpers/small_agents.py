"""Agents and batches small enough for a test: frames of 20 pixels, few channels, narrow heads."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch

from cbm.agents import Setup, configs, make_agent
from cbm.envs.tasks import Noise
from cbm.types import Batch, Sequences

SETUP = Setup((9, 20, 20), action_dim=2, action_repeat=4, noise=Noise(1.0, 0.1, 100), seed=3)
SIZES = {"batch_size": 8, "conv_channels": 4, "feature_dim": 6, "hidden_dim": 16}
SIZES |= {"length": 9, "memory_dim": 10, "horizon": 4, "imagined": 3, "model_first": 0, "conv_layers": 2}  # of TPC
OBJECTIVE_SIZES = {
    "prototypes": 8,
    "transition_hidden": 8,
    "hidden": 8,
    "projection_dim": 6,
    "predictor_hidden": 16,
    "queue": 20,
}


def shrunk(config: Any, sizes: dict[str, Any]) -> Any:
    return replace(config, **{f.name: sizes[f.name] for f in fields(config) if f.name in sizes})


def agent(name: str, **changes: Any) -> Any:
    config, objective = configs(name)
    if objective is not None:
        objective = shrunk(objective, OBJECTIVE_SIZES)
    own = {f.name: shrunk(getattr(config, f.name), OBJECTIVE_SIZES) for f in fields(config) if f.name == "proto"}
    return make_agent(name, SETUP, replace(shrunk(config, SIZES), **(own | changes)), objective)


def batch(seed: int = 0, n_step: int = 3, size: int = 8, ahead: int = 1) -> Batch:
    g = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (7, size, 9, 20, 20), generator=g, dtype=torch.uint8)
    reward = torch.rand(size, 1, generator=g)
    actions = torch.rand(size, ahead, 2, generator=g) * 2 - 1
    seen = {1: images[1], n_step: images[1 if n_step == 1 else 2]}
    return Batch(
        obs=images[0],
        action=actions[:, 0],
        reward=reward,
        next_obs=images[1],
        n_step_reward=reward if n_step == 1 else 3 * reward,
        n_step_discount=torch.full((size, 1), 0.99**n_step),
        boot_obs=seen[n_step],
        episode=torch.arange(size) // 4,
        later_obs=seen.get(ahead, images[3]),
        actions=actions,
        steps=torch.full((size,), ahead),
    )


def sequences(seed: int = 0, size: int = 8, length: int = 9) -> Sequences:
    g = torch.Generator().manual_seed(seed)
    return Sequences(
        obs=torch.randint(0, 256, (size, length, 3, 20, 20), generator=g, dtype=torch.uint8),
        action=torch.rand(size, length, 2, generator=g) * 2 - 1,
        reward=torch.rand(size, length, 1, generator=g),
    )


def example(a: Any, seed: int = 0) -> Batch | Sequences:
    """What `a.update` wants."""
    return sequences(seed) if hasattr(a.config, "length") else batch(seed)
