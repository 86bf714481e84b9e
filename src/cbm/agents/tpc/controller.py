"""TPC when it only has to act: its memory is an input and an output."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from cbm.agents.controller import Controller
from cbm.agents.tpc.rssm import RGB, RSSM, Belief


class Remembering(Controller):
    """The memory is h, s and the last action, side by side."""

    def __init__(self, encoder: nn.Module, code: nn.Module, rssm: RSSM, actor: nn.Module, action_dim: int) -> None:
        super().__init__(encoder=encoder, head=code, rssm=rssm, actor=actor)  # a traced module has a `code` of its own
        self.encoder: Any
        self.head: Any
        self.rssm: Any
        self.actor: Any
        self.parts = [rssm.deterministic, rssm.stochastic, action_dim]
        self.memory_dim = sum(self.parts)

    def forward(self, observation: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        h, s, last_action = memory.split(self.parts, dim=-1)
        h = self.rssm.remember(Belief(h, s), last_action)
        belief = Belief(h, self.head(self.encoder(observation[:, -RGB:])))
        action = self.actor.mean(belief.feature)
        return action, torch.cat([belief.h, belief.s, action], dim=-1)
