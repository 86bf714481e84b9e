"""The contracts between the parts: a batch, an agent, an objective. Everything else is plain functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor

Metrics = dict[str, Tensor]  # detached scalars; `.item()` is the logger's business
Losses = dict[str, Tensor]  # scalars with a graph, by name
Policy = Callable[[Tensor], Tensor]  # latent (B, D) -> action (B, A) in [-1, 1]


@dataclass(frozen=True)
class Batch:
    """B transitions out of replay. Observations are uint8 (B, C, H, W); every scalar is (B, 1) float32.

    `next_obs` is one agent step after `obs`; `boot_obs` is n steps after it (or where the episode ended). With n = 1
    they are the same tensor.
    """

    obs: Tensor
    action: Tensor  # a_t, (B, A)
    reward: Tensor  # r_t, summed over the action repeat
    next_obs: Tensor
    n_step_reward: Tensor  # r_t + gamma r_{t+1} + ... over the n steps
    n_step_discount: Tensor  # gamma^n, or 0 where the episode terminated within them (a time limit does not)
    boot_obs: Tensor


class Objective(Protocol):
    """A loss that owns the encoder. The critic's gradient stops before the latent when an agent carries one."""

    weights: Mapping[str, float]  # the same keys as the losses

    def losses(
        self, z: Tensor, action: Tensor, reward: Tensor, z_next: Tensor, policy: Policy
    ) -> tuple[Losses, Metrics]: ...


class Agent(Protocol):
    """What the training loop and the evaluation know of an agent."""

    def act(self, obs: np.ndarray, env_step: int, explore: bool) -> np.ndarray:
        """One action (A,) in [-1, 1] for one uint8 observation (C, H, W)."""
        ...

    def update(self, batch: Batch, env_step: int) -> Metrics:
        """One gradient step on everything the agent learns."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that must survive a crash: parameters, optimizers, buffers, counters, random state."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...
