"""SAC on the latents of an encoder: what DrQ, Proto-RL and SVEA have in common. How each learns is its own `update`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor, nn

from cbm.agents.base import ActorCritic, ActorCriticConfig, Setup, make_encoder, seeded
from cbm.learning.chunks import Work
from cbm.learning.nets import Critic, Encoder, GaussianActor, Makes
from cbm.learning.ops import soft_update, squashed_gaussian
from cbm.learning.optimisation import adam, critic_metrics, minimise, shifted
from cbm.replay import Replay
from cbm.schema.ranges import Positive, Range
from cbm.types import Batch, Metrics, Objective


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

    def sample(self, replay: Replay, generator: np.random.Generator) -> Batch:
        """A batch of the kind that `update` needs."""
        config = self.config
        return replay.sample(config.batch_size, generator, discount=config.discount, episodes=config.batch_episodes)

    def _shifted(self, obs: Tensor, learns: bool = False, makes: Makes = "latents") -> Work:
        return shifted(self.encoder, obs, self.config.shift_pad, self.generator, learns, makes)

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
        return (alpha * log_pi - torch.minimum(*self.critic(z, action))).mean(), log_pi

    def _finish_update(self, features: Tensor, q: Tensor, target: Tensor) -> Metrics:
        """What follows the step on encoder and critic: actor, temperature and target critic, when it is their turn.

        They see the latents that the encoder's projection makes of the batch's `features` after its step.
        """
        config = self.config
        with torch.no_grad():
            z = self.encoder.latent(features)
        metrics = critic_metrics(q, target, z)
        if self.updates % config.actor_every == 0:
            metrics |= self._update_actor(z)
        if self.updates % config.target_every == 0:
            soft_update(self.target_critic.parameters(), self.critic.parameters(), config.target_rate)
        self.updates += 1
        return metrics

    def _update_actor(self, z: Tensor) -> Metrics:
        actor_loss, log_pi = self.actor_loss(z)
        losses, alpha = {"actor": actor_loss}, self.temperature()
        if self.config.learn_temperature:
            losses["temperature"] = (alpha * (-log_pi + self.setup.action_dim).detach()).mean()
        metrics = minimise(losses, dict.fromkeys(losses, 1.0), [*losses], self.optimizers)
        return metrics | {"actor/entropy": -log_pi.detach().mean(), "actor/temperature": alpha.detach()}
