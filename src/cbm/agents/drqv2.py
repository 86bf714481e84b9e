"""DrQ-v2: a deterministic actor, n-step returns, scheduled exploration noise; with or without an objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from cbm.agents.base import ActorCritic, ActorCriticConfig, Setup, make_encoder, seeded
from cbm.learning import chunks
from cbm.learning.nets import Critic, DeterministicActor, Makes
from cbm.learning.ops import noisy_action, soft_update
from cbm.learning.optimisation import critic_blocked, critic_metrics, minimise, shifted, td_loss
from cbm.replay import Replay
from cbm.schema.ranges import Positive, Range, Weight
from cbm.types import Batch, Losses, Metrics, Objective


@dataclass(frozen=True)
class DrQv2Config(ActorCriticConfig):
    """DrQ-v2 with the paper's sizes; see `ActorCriticConfig` for the rest."""

    n_step: Annotated[int, Range(1, 1_000)] = 3
    """Steps of reward before the bootstrap (DrQ-v2)."""
    noise_clip: Weight = 0.3
    """Bound on the noise of target and learned actions (DrQ-v2)."""
    actor_bound: Positive | None = 3.0
    """Beyond this bound the actor's tanh has a slope that leads back (ours, see `ops.bounded_tanh`); none: a plain
    tanh, as in DrQ-v2. The authors of CBM use tanh(0.1 x) against the same problem."""


class DrQv2(ActorCritic):
    """The critic trains the encoder. With an objective, that does, and the critic too if the objective lets it."""

    config: DrQv2Config
    actor: DeterministicActor

    def __init__(self, config: DrQv2Config, setup: Setup, objective: Objective | None = None) -> None:
        super().__init__(config, setup, objective)
        with seeded(setup.seed):
            self.encoder = make_encoder(config, setup)
            self.actor = DeterministicActor(config.feature_dim, setup.action_dim, config.hidden_dim, config.actor_bound)
            self.critic = Critic(config.feature_dim, setup.action_dim, config.hidden_dim)
        self.assemble()

    def explore(self, z: Tensor, env_step: int) -> Tensor:
        return noisy_action(self.actor.mean(z), self.noise(env_step), self.generator)

    def sample(self, replay: Replay, generator: np.random.Generator) -> Batch:
        """A batch of the kind that `update` needs."""
        config = self.config
        return replay.sample(
            config.batch_size,
            generator,
            n_step=config.n_step,
            discount=config.discount,
            episodes=config.batch_episodes,
        )

    def update(self, batch: Batch, env_step: int) -> Metrics:
        config, batch, std = self.config, batch.to(self.device), self.noise(env_step)
        losses: Losses = {}
        metrics: Metrics = {}
        seen = [self._shifted(batch.obs, learns=True), self._shifted(batch.boot_obs)]
        if self.objective is not None:
            seen.append(self._shifted(batch.next_obs))
        (z, features), z_boot, *z_next = chunks.run(seen)
        if self.objective is not None:
            losses, metrics = self.objective.losses(z, batch.action, batch.reward, z_next[0], self.actor.mean)

        z_critic = z.detach() if critic_blocked(self.objective) else z
        q, target = self.critic(z_critic, batch.action), self.target(batch, z_boot, std)
        losses["critic"] = td_loss(q, target)
        metrics |= minimise(losses, self.weights, ("encoder", "critic"), self.optimizers)
        metrics |= critic_metrics(q[0], target, z)

        if self.updates % config.actor_every == 0:
            with torch.no_grad():
                z = self.encoder.latent(features)  # through the projection as it is now
            metrics |= minimise({"actor": self.actor_loss(z, std)}, {"actor": 1.0}, ("actor",), self.optimizers)
        if self.updates % config.target_every == 0:
            soft_update(self.target_critic.parameters(), self.critic.parameters(), config.target_rate)
        self.updates += 1
        return metrics

    def _shifted(self, obs: Tensor, learns: bool = False) -> chunks.Work:
        """Where something is to be learned with features, which the actor needs later."""
        makes: Makes = "both" if learns else "latents"
        return shifted(self.encoder, obs, self.config.shift_pad, self.generator, learns, makes)

    @torch.no_grad()
    def target(self, batch: Batch, z_boot: Tensor, std: float) -> Tensor:
        """y = sum_k gamma^k r_{t+k} + gamma^n min_i Q_i'(z_{t+n}, pi(z_{t+n}) + clipped noise)."""
        action = noisy_action(self.actor.mean(z_boot), std, self.generator, self.config.noise_clip)
        return batch.n_step_reward + batch.n_step_discount * torch.minimum(*self.target_critic(z_boot, action))

    def actor_loss(self, z: Tensor, std: float) -> Tensor:
        """-min_i Q_i(z, pi(z) + clipped noise)."""
        action = noisy_action(self.actor.mean(z), std, self.generator, self.config.noise_clip)
        return -torch.minimum(*self.critic(z, action)).mean()
