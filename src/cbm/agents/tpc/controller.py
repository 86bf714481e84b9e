"""TPC when it only has to act: its memory is an input and an output."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cbm.agents.controller import Controller, Deterministic
from cbm.agents.tpc.networks import RSSM, Belief
from cbm.learning.augment import RGB


class Remembering(Controller):
    """The memory is h, s and the last action, side by side."""

    def __init__(self, encoder: nn.Module, code: nn.Module, rssm: RSSM, actor: nn.Module, action_dim: int) -> None:
        super().__init__(encoder=encoder, head=code, rssm=rssm, actor=actor)  # a traced module has a `code` of its own
        self.encoder: nn.Module
        self.head: nn.Module
        self.rssm: RSSM
        self.actor: Deterministic
        self.parts = [rssm.deterministic, rssm.stochastic, action_dim]
        self.memory_dim = sum(self.parts)

    def forward(self, observation: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        h, s, last_action = memory.split(self.parts, dim=-1)
        h = self.rssm.remember(Belief(h, s), last_action)
        belief = Belief(h, self.head(self.encoder(observation[:, -RGB:])))
        action = self.actor.mean(belief.joined)
        return action, torch.cat([belief.h, belief.s, action], dim=-1)
