"""What all agents have in common: how they are set up, what they take and give, what a checkpoint of them holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Adam

from cbm.envs.tasks import Noise, Task
from cbm.errors import CBMError
from cbm.types import Agent, send


@dataclass(frozen=True)
class Setup:
    """What a run knows and a config does not."""

    obs_shape: tuple[int, int, int]  # (3 * stack, H, W)
    action_dim: int
    action_repeat: int = 1  # rewards come summed over it; objectives see them divided by it
    noise: Noise = field(default_factory=lambda: Noise(1.0, 0.1, 100_000))  # DrQ-v2's exploration, from tasks.py
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    seed: int = 0

    @classmethod
    def of(cls, env: gym.Env[Any, Any]) -> Self:
        """Of an environment with observations (C, H, W) and a box of actions."""
        obs, action = env.observation_space.shape, env.action_space.shape
        if obs is None or len(obs) != 3 or action is None or len(action) != 1:
            raise CBMError(f"an agent needs observations (C, H, W) and a box of actions, not {obs} and {action}.")
        setup = cls((obs[0], obs[1], obs[2]), action[0], getattr(env.unwrapped, "action_repeat", 1))
        task = getattr(env.unwrapped, "task", None)
        return replace(setup, noise=task.noise) if isinstance(task, Task) else setup


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Weights made inside depend on `seed` alone, and the global random state stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def as_batch(obs: np.ndarray | Tensor, device: torch.device) -> Tensor:
    """One observation (C, H, W), or several (N, C, H, W), as several on `device`."""
    tensor = send(torch.as_tensor(obs), device)
    if tensor.dtype != torch.uint8 or tensor.ndim not in (3, 4):
        raise CBMError(
            f"an observation is a uint8 array (channels, height, width), or several of them; this is {tensor.dtype} "
            f"of shape {tuple(tensor.shape)}."
        )
    return tensor if tensor.ndim == 4 else tensor[None]


def as_actions(action: Tensor, obs: np.ndarray) -> np.ndarray:
    """What `act` returns for `obs`: one action (A,) for one observation, else (N, A)."""
    return action.cpu().numpy().reshape(*obs.shape[:-3], -1)


class Learner(Agent):
    """An agent that consists of `modules` and `optimizers`, with random numbers of its own."""

    modules: dict[str, nn.Module]
    optimizers: dict[str, Adam]

    def __init__(self, setup: Setup) -> None:
        self.setup, self.device = setup, setup.device
        self.generator = torch.Generator(self.device).manual_seed(setup.seed)
        self.updates = 0

    def hold(self, **modules: nn.Module | None) -> None:
        """What it consists of, except for what is None; moved to its device."""
        self.modules = {name: module.to(self.device) for name, module in modules.items() if module is not None}

    def state_dict(self) -> dict[str, Any]:
        """Tensors and numbers from which an agent with the same settings goes on bit for bit."""
        return {
            "modules": {name: dict(module.state_dict()) for name, module in self.modules.items()},
            "optimizers": {
                name: {str(i): dict(slots) for i, slots in optimizer.state_dict()["state"].items()}
                for name, optimizer in self.optimizers.items()
            },
            "generator": self.generator.get_state(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, module in self.modules.items():
            module.load_state_dict(state["modules"][name])
        for name, optimizer in self.optimizers.items():
            slots = {int(i): values for i, values in state["optimizers"].get(name, {}).items()}
            optimizer.load_state_dict({"state": slots, "param_groups": optimizer.state_dict()["param_groups"]})
        self.generator.set_state(state["generator"].cpu())
        self.updates = int(state["updates"])
