"""SAC on the latents of an encoder: what DrQ, Proto-RL and SVEA have in common. How each learns is its own `update`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from cbm.agents.actor_critic import ActorCritic, ActorCriticConfig, make_encoder
from cbm.agents.base import Setup, seeded
from cbm.learning.adam import adam
from cbm.learning.linear import fixed
from cbm.learning.nets import Critic, Encoder, GaussianActor
from cbm.learning.ops import squashed_gaussian
from cbm.learning.optimisation import minimise
from cbm.learning.recent import Latents
from cbm.schema.ranges import Positive, Range
from cbm.types import Metrics, Objective


@dataclass(frozen=True)
class SACConfig(ActorCriticConfig):
    """SAC with the paper's sizes; see `ActorCriticConfig` for the rest."""

    temperature: Positive = 0.1
    """Weight of the entropy (Table, "SAC entropy temperature")."""
    learn_temperature: bool = False
    """Learn the temperature, towards an entropy of -action_dim and starting from 0.1, as DrQ and the authors' code
    do."""
    temperature_lr: Positive | None = None
    """Learning rate of the temperature, if it is learned. None: `lr` (DrQ)."""
    temperature_beta1: Annotated[float, Range(0, 0.999_999)] = 0.9
    """Adam's first decay rate for the temperature (DrQ)."""


class Temperature(nn.Module):
    """alpha > 0, kept as its logarithm."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.tensor(math.log(alpha)))

    def forward(self) -> Tensor:
        return self.log_alpha.exp()


class SAC(ActorCritic):
    """Everything but `update`, which says how a batch trains the encoder and the critic."""

    config: SACConfig
    actor: GaussianActor

    def __init__(self, config: SACConfig, setup: Setup, objective: Objective | None = None) -> None:
        super().__init__(config, setup, objective)
        with seeded(setup.seed):
            self.encoder = self.make_encoder()
            self.actor = GaussianActor(config.feature_dim, setup.action_dim, config.hidden_dim)
            self.critic = Critic(config.feature_dim, setup.action_dim, config.hidden_dim)
        self.temperature = Temperature(config.temperature).requires_grad_(config.learn_temperature)
        self.assemble(temperature=self.temperature)
        if config.learn_temperature:
            lr = config.lr if config.temperature_lr is None else config.temperature_lr
            self.optimizers["temperature"] = adam(self.temperature.parameters(), lr, config.temperature_beta1)

    def make_encoder(self) -> Encoder:
        """For agents whose encoder differs."""
        return make_encoder(self.config, self.setup)

    def explore(self, z: Tensor, env_step: int) -> Tensor:
        return squashed_gaussian(self.actor(z), self.generator)[0]

    @torch.no_grad()
    def soft_value(self, z: Tensor, z_target: Tensor | None = None) -> Tensor:
        """min_i Q_i'(z, a) - alpha log pi(a | z), a ~ pi(z): (B, 1). `z_target`: what the target critic sees, if it
        has an encoder of its own."""
        action, log_pi = squashed_gaussian(self.actor(z), self.generator)
        q = torch.minimum(*self.target_critic(z if z_target is None else z_target, action))
        value: Tensor = q - self.temperature() * log_pi
        return value

    def actor_loss(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """alpha log pi(a | z) - min_i Q_i(z, a), a ~ pi(z); and log pi."""
        action, log_pi = squashed_gaussian(self.actor(z), self.generator)
        alpha = self.temperature().detach()
        with fixed(self.critic):
            return (alpha * log_pi - torch.minimum(*self.critic(z, action))).mean(), log_pi

    @torch.no_grad()
    def target(self, latents: Latents, env_step: int) -> Tensor:
        """y = r + gamma * (min_i Q_i'(z', a') - alpha log pi(a' | z')), a' ~ pi(z')."""
        return latents.n_step_reward + latents.n_step_discount * self.soft_value(latents.z_boot)

    def update_actor(self, z: Tensor, env_step: int) -> Metrics:
        """And one of the temperature, if it is learned."""
        actor_loss, log_pi = self.actor_loss(z)
        losses, alpha = {"actor": actor_loss}, self.temperature()
        if self.config.learn_temperature:
            losses["temperature"] = (alpha * (-log_pi + self.setup.action_dim).detach()).mean()
        metrics = minimise(losses, dict.fromkeys(losses, 1.0), [*losses], self.optimizers)
        return metrics | {"actor/entropy": -log_pi.detach().mean(), "actor/temperature": alpha.detach()}
