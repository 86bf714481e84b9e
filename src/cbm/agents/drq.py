"""DrQ: SAC with Q and its target averaged over random shifts; with or without an objective."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Annotated

import torch
from torch import Tensor

from cbm.agents.sac import SAC, SACConfig
from cbm.learning.optimisation import critic_blocked, critic_metrics, minimise, td_loss
from cbm.learning.recent import Latents
from cbm.schema.ranges import Range
from cbm.types import Batch, Context, Later, Losses, Metrics


@dataclass(frozen=True)
class DrQConfig(SACConfig):
    """DrQ with the paper's sizes; see `SACConfig` and `ActorCriticConfig` for the rest."""

    shifts: Annotated[int, Range(1, 64)] = 2
    """K = M: number of shifted copies over which Q and its target are averaged (DrQ). The authors' DrQ + CBM has 1."""


class DrQ(SAC):
    """The critic trains the encoder. With an objective, that does, and the critic too if the objective lets it."""

    config: DrQConfig

    def update(self, batch: Batch, env_step: int) -> Metrics:
        config, batch = self.config, batch.to(self.device)
        losses: Losses = {}
        metrics: Metrics = {}
        blocked = critic_blocked(self.objective)
        alike = self.draw_alike(batch)
        first = self.seen(batch.obs, alike, learns=True, makes="both")
        # Further views, for the critic alone.
        others = [self.seen(batch.obs, alike, learns=not blocked) for _ in range(1, config.shifts)]
        then = [self.seen(batch.next_obs, alike) for _ in range(config.shifts)]
        far = [] if batch.later_obs is batch.next_obs else [self.seen(batch.later_obs, alike)]
        encoded = iter(self.encoded([first, *others, *then, *far], env_step))
        (z, maps), z_others = next(encoded), [*islice(encoded, len(others))]
        z_then = [*islice(encoded, len(then))]
        z_next, z_later = torch.cat(z_then), next(encoded, z_then[0])  # (shifts * B, D), (B, D)
        if self.objective is not None:
            transitions = z, batch.action, batch.reward, z_then[0]
            context = Context(batch.episode, Later(z_later, batch.actions, batch.steps))
            losses, metrics = self.objective.losses(*transitions, self.actor.mean, context)
        latents = Latents(z.detach(), batch.action, batch.n_step_reward, batch.n_step_discount, z_then[0])
        z = torch.cat([latents.z if blocked else z, *z_others])
        q = self.critic(z, batch.action.repeat(config.shifts, 1))
        target = self.mean_target(batch, z_next)
        losses["critic"] = td_loss(q, target.repeat(config.shifts, 1))
        metrics |= minimise(losses, self.weights, ("encoder", "critic"), self.optimizers)
        metrics |= critic_metrics(q[0], target, z)
        return metrics | self.finish_update(latents, maps, env_step)

    def mean_target(self, batch: Batch, z_next: Tensor) -> Tensor:
        """y = r + gamma * mean over shifts of (min_i Q_i'(z', a') - alpha log pi(a' | z')), a' ~ pi(z')."""
        mean = self.soft_value(z_next).view(self.config.shifts, -1, 1).mean(dim=0)
        return batch.n_step_reward + batch.n_step_discount * mean
