"""DrQ: SAC with Q and its target averaged over random shifts; with or without an objective."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cbm.agents.parts import critic_blocked, features_shifted, minimise, td_loss
from cbm.agents.sac import SAC, SACConfig
from cbm.types import Batch, Losses, Metrics


@dataclass(frozen=True)
class DrQConfig(SACConfig):
    """DrQ with the paper's sizes; see `SACConfig` and `AgentConfig` for the rest."""

    shifts: int = 2
    """K = M, shifted copies over which Q and its target are averaged (DrQ). The authors' DrQ + CBM: 1."""

    @classmethod
    def released(cls) -> DrQConfig:
        """Every departure of the authors' code from the paper that lies in the agent."""
        return cls(shifts=1, learn_temperature=True, projection_steps=2, one_background=True)


class DrQ(SAC):
    """The critic trains the encoder. With an objective, that does, and the critic too if the objective lets it."""

    config: DrQConfig

    def update(self, batch: Batch, env_step: int) -> Metrics:
        config, batch, size = self.config, batch.to(self.device), len(batch.obs)
        losses: Losses = {}
        metrics: Metrics = {}
        with torch.no_grad():
            z_next = self._encode(batch.next_obs, config.shifts)  # (shifts * B, D)
        blocked = critic_blocked(self.objective)
        features = features_shifted(self.encoder, batch.obs, config.shift_pad, self.generator)
        z = self.encoder.latent(features)
        if self.objective is not None:
            losses, metrics = self.objective.losses(z, batch.action, batch.reward, z_next[:size], self.actor.mean)
        with torch.set_grad_enabled(not blocked):  # the other shifts are for the critic alone
            z = torch.cat([z, self._encode(batch.obs, config.shifts - 1)])

        q = self.critic(z, batch.action.repeat(config.shifts, 1))
        target = self.target(batch, z_next)
        losses["critic"] = td_loss(q, target.repeat(config.shifts, 1))
        steps = {"encoder": 1, "projection": config.projection_steps, "critic": 1}
        metrics |= minimise(losses, self.weights, steps, self.optimizers)
        return metrics | self._finish_update(features, q[0], target)

    def target(self, batch: Batch, z_next: Tensor) -> Tensor:
        """y = r + gamma * mean over shifts of (min_i Q_i'(z', a') - alpha log pi(a' | z')), a' ~ pi(z')."""
        mean = self.soft_value(z_next).view(self.config.shifts, -1, 1).mean(dim=0)
        return batch.n_step_reward + batch.n_step_discount * mean
