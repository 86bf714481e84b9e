"""How agents with an encoder and an actor act, and what analyses ask of them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cbm.agents.base import Learner, as_actions, as_batch
from cbm.agents.controller import Reactive
from cbm.learning.nets import Critic, DeterministicActor, Encoder, GaussianActor


class Acting(Learner):
    """All that an agent does without learning; only how it explores is missing."""

    acting = ("encoder", "actor")
    encoder: Encoder
    actor: DeterministicActor | GaussianActor
    critic: Critic

    @torch.no_grad()
    def act(self, obs: np.ndarray, env_step: int = 0, explore: bool = False) -> np.ndarray:
        z = self.encoder(as_batch(obs, self.device))
        return as_actions(self.explore(z, env_step) if explore else self.actor.mean(z), obs)

    def explore(self, z: Tensor, env_step: int) -> Tensor:
        """The actions (N, A) of training for latents (N, D)."""
        raise NotImplementedError

    @torch.no_grad()
    def encode(self, obs: np.ndarray | Tensor) -> Tensor:
        """Latents (N, D) of observations (N, C, H, W), without shifts."""
        z: Tensor = self.encoder(as_batch(obs, self.device))
        return z

    @torch.no_grad()
    def value(self, obs: np.ndarray | Tensor) -> Tensor:
        """min_i Q_i(z, pi(z)), (N, 1), for the policy without exploration."""
        z = self.encoder(as_batch(obs, self.device))
        return torch.minimum(*self.critic(z, self.actor.mean(z)))

    def controller(self) -> Reactive:
        return Reactive(self.encoder, self.actor)
