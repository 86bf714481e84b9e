"""DrQ-v2: a deterministic actor, n-step returns, scheduled exploration noise; with or without an objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from cbm.agents.actor_critic import ActorCritic, ActorCriticConfig, make_encoder
from cbm.agents.base import Setup, seeded
from cbm.learning.linear import fixed
from cbm.learning.nets import Critic, DeterministicActor
from cbm.learning.ops import noisy_action
from cbm.learning.optimisation import critic_blocked, critic_metrics, minimise, td_loss
from cbm.learning.recent import Latents
from cbm.schema.ranges import Positive, Range, Weight
from cbm.types import Batch, Context, Later, Losses, Metrics, Objective


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
        self.n_step = config.n_step
        with seeded(setup.seed):
            self.encoder = make_encoder(config, setup)
            self.actor = DeterministicActor(config.feature_dim, setup.action_dim, config.hidden_dim, config.actor_bound)
            self.critic = Critic(config.feature_dim, setup.action_dim, config.hidden_dim)
        self.assemble()

    def explore(self, z: Tensor, env_step: int) -> Tensor:
        return noisy_action(self.actor.mean(z), self.noise(env_step), self.generator)

    def update(self, batch: Batch, env_step: int) -> Metrics:
        batch = batch.to(self.device)
        losses: Losses = {}
        metrics: Metrics = {}
        alike = self.draw_alike(batch)
        learned = self.seen(batch.obs, alike, learns=True, makes="both")
        ahead = () if self.objective is None else (batch.next_obs, batch.later_obs)
        (z, maps), z_boot, *z_ahead = self.encoded_views(learned, (batch.boot_obs, *ahead), alike, env_step)
        if self.objective is not None:
            transitions = z, batch.action, batch.reward, z_ahead[0]
            context = Context(batch.episode, Later(z_ahead[1], batch.actions, batch.steps))
            losses, metrics = self.objective.losses(*transitions, self.actor.mean, context)

        latents = Latents(z.detach(), batch.action, batch.n_step_reward, batch.n_step_discount, z_boot)
        q = self.critic(latents.z if critic_blocked(self.objective) else z, batch.action)
        target = self.target(latents, env_step)
        losses["critic"] = td_loss(q, target)
        metrics |= minimise(losses, self.weights, ("encoder", "critic"), self.optimizers)
        metrics |= critic_metrics(q[0], target, z)
        return metrics | self.finish_update(latents, maps, env_step)

    @torch.no_grad()
    def target(self, latents: Latents, env_step: int) -> Tensor:
        """y = sum_k gamma^k r_{t+k} + gamma^n min_i Q_i'(z_{t+n}, pi(z_{t+n}) + clipped noise)."""
        q = torch.minimum(*self.target_critic(latents.z_boot, self._noisy(latents.z_boot, env_step)))
        return latents.n_step_reward + latents.n_step_discount * q

    def actor_loss(self, z: Tensor, env_step: int) -> Tensor:
        """-min_i Q_i(z, pi(z) + clipped noise)."""
        with fixed(self.critic):
            return -torch.minimum(*self.critic(z, self._noisy(z, env_step))).mean()

    def update_actor(self, z: Tensor, env_step: int) -> Metrics:
        return minimise({"actor": self.actor_loss(z, env_step)}, {"actor": 1.0}, ("actor",), self.optimizers)

    def _noisy(self, z: Tensor, env_step: int) -> Tensor:
        return noisy_action(self.actor.mean(z), self.noise(env_step), self.generator, self.config.noise_clip)
