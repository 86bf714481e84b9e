"""What remains of an agent when it only has to act: one module, observation in, action out. `cbm export` writes it."""

from __future__ import annotations

from copy import deepcopy
from typing import Protocol

from torch import Tensor, nn


class Deterministic(Protocol):
    """An actor that can act without exploration."""

    def mean(self, z: Tensor) -> Tensor: ...


class Controller(nn.Module):
    """A copy of an agent's networks on the CPU, without gradients, that acts as the agent does without exploration.

    `forward` takes uint8 observations (N, C, H, W) and gives actions (N, A) in [-1, 1]. With a memory it takes that
    too, as (N, memory_dim), and gives the next one; zeros are the memory at the start of an episode.
    """

    memory_dim = 0

    def __init__(self, **networks: nn.Module) -> None:
        super().__init__()
        for name, network in networks.items():
            self.add_module(name, deepcopy(network).cpu())
        self.requires_grad_(False).eval()


class Reactive(Controller):
    """An encoder, and an actor that looks at nothing but its latent."""

    def __init__(self, encoder: nn.Module, actor: nn.Module) -> None:
        super().__init__(encoder=encoder, actor=actor)
        self.encoder: nn.Module  # said here: annotations of a class are read when it is traced
        self.actor: Deterministic

    def forward(self, observation: Tensor) -> Tensor:
        return self.actor.mean(self.encoder(observation))
