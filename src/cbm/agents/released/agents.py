"""The authors' DrQ-v2 + CBM and DrQ + CBM."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from cbm.agents.actor_critic import ActorCritic, ActorCriticConfig, make_encoder
from cbm.agents.base import Setup, seeded
from cbm.agents.released.cbm import ReleasedCBM
from cbm.agents.released.windows import REWARDS, sample_windows
from cbm.agents.sac import Temperature
from cbm.errors import CBMError
from cbm.learning import chunks
from cbm.learning.adam import adam, adams, encoder_optimizer
from cbm.learning.linear import fixed
from cbm.learning.nets import Critic, DeterministicActor, GaussianActor, initialise
from cbm.learning.ops import noisy_action, soft_update, squashed_gaussian
from cbm.learning.optimisation import critic_metrics, minimise, td_loss
from cbm.replay import Replay
from cbm.schema.ranges import Positive, Range, Weight, Width
from cbm.types import Batch, Metrics


@dataclass(frozen=True)
class ReleasedConfig(ActorCriticConfig):
    """Sizes and rates, which are those of the paper's table; what makes it the authors' code has no setting."""

    laptop_jitter = 0.0
    without: ClassVar[dict[str, str]] = {
        "batch_episodes": "the authors' batches come from one background video",
        "head_updates": "the authors' code has none",
        "colour_jitter": "the authors' code shifts images alone",
        "alike_shifts": "the authors' code gives each image a shift of its own",
    }

    prototypes: Annotated[int, Range(2, 65_536)] = 128
    """K."""
    tau: Positive = 0.1
    """Softmax temperature, of the predicted assignment and of the dynamics loss."""
    epsilon: Positive = 0.05
    """Sinkhorn regularisation."""
    sinkhorn_iterations: Annotated[int, Range(1, 10_000)] = 3
    """SwAV and Proto-RL, on which CBM builds."""
    reward_rate: Annotated[float, Range(0, 1, above=True)] = 0.01
    """beta, how fast prototype rewards follow the batch."""
    transition_hidden: Width = 256
    """Width of the transition model."""
    noise_clip: Weight = 0.3
    """DrQ-v2's bound on the noise of target and learned actions."""
    first_temperature: Positive = 0.1
    """Initial weight of DrQ's entropy, which is learned."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, reason in self.without.items():
            if getattr(self, name):
                raise CBMError(f"agent.{name} must be 0 here: {reason}")


class SlowTanhActor(DeterministicActor):
    """DrQ-v2's, with tanh(0.1 x): its slope at x = 15, where that of tanh is 0 in 32 bits, is still 0.018."""

    def forward(self, z: Tensor) -> Tensor:
        return torch.tanh(0.1 * self.net(z))


class WiderGaussianActor(GaussianActor):
    """DrQ's, with 1e-4 added to its standard deviation."""

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = super().forward(z)
        return mean, (log_std.exp() + 1e-4).log()


class Released(ActorCritic):
    """What the two have in common. `ahead` steps after an observation lies the one that its value is taken from."""

    ahead: int
    actor_kind: type[SlowTanhActor] | type[WiderGaussianActor]
    config: ReleasedConfig
    objective: ReleasedCBM

    def __init__(self, config: ReleasedConfig, setup: Setup, objective: None = None) -> None:
        super().__init__(config, setup, None)
        with seeded(setup.seed):
            self.encoder = make_encoder(config, setup, pixel_offset=0.0)
            self.critic = Critic(config.feature_dim, setup.action_dim, config.hidden_dim)
            self.objective = ReleasedCBM(config, setup.action_dim, 1.0 / setup.action_repeat)
            self.actor = self.actor_kind(config.feature_dim, setup.action_dim, config.hidden_dim)
            # The target critic has its own projection, which does not start as a copy.
            self.target_projection = deepcopy(self.encoder.projection).apply(initialise).requires_grad_(False)
        self.assemble(target_projection=self.target_projection)
        self.optimizers = {
            "encoder": encoder_optimizer(self.encoder.convs, self.objective, config.lr),
            **adams(config.lr, projection=self.encoder.projection, critic=self.critic, actor=self.actor),
        }
        self.weights["critic"] = 0.5  # the mean over the two critics

    def sample(self, replay: Replay, generator: np.random.Generator) -> Batch:
        """A batch of the kind that `update` needs."""
        return sample_windows(replay, self.config.batch_size, generator, self.config.discount, self.ahead)

    def update(self, batch: Batch, env_step: int) -> Metrics:
        config, batch = self.config, batch.to(self.device)
        seen = [self.seen(batch.obs, learns=True, makes="maps"), self.seen(batch.next_obs, makes="maps")]
        if self.ahead > 1:
            seen.append(self.seen(batch.boot_obs, makes="maps"))
        maps, maps_next, *maps_boot = chunks.run(seen)
        z = self.encoder.latent(maps)
        with torch.no_grad():
            z_next = self.encoder.latent(maps_next)
            target = self.td_target(batch, maps_boot[0] if maps_boot else maps_next, env_step)
        losses, metrics = self.objective.losses(z, batch.action, batch.n_step_reward, z_next, self.actor.mean)
        q = self.critic(z.detach(), batch.action)
        losses["critic"] = td_loss(q, target)
        metrics |= minimise(losses, self.weights, ("encoder", "projection", "critic"), self.optimizers)
        self.optimizers["projection"].step()  # it is in their optimizer twice
        metrics |= critic_metrics(q[0], target, z)
        if self.updates % config.target_every == 0:
            projection = self.encoder.projection.parameters()
            soft_update(self.target_projection.parameters(), projection, config.target_rate)
        with torch.no_grad():
            z = self.encoder.latent(maps)  # through the projection as it is now
        metrics |= self.follow(z, env_step, self.updates)
        self.updates += 1
        return metrics

    def td_target(self, batch: Batch, maps: Tensor, env_step: int) -> Tensor:
        """What Q should be, (B, 1), for feature maps of `boot_obs`."""
        raise NotImplementedError

    def _target_q(self, maps: Tensor, action: Tensor) -> Tensor:
        return torch.minimum(*self.target_critic(torch.tanh(self.target_projection(maps)), action))


class ReleasedDrQv2(Released):
    """Their DrQ-v2 + CBM: the late reward is also the critic's."""

    ahead, actor_kind = REWARDS, SlowTanhActor
    actor: SlowTanhActor

    def explore(self, z: Tensor, env_step: int) -> Tensor:
        return noisy_action(self.actor(z), self.noise(env_step), self.generator)

    def td_target(self, batch: Batch, maps: Tensor, env_step: int) -> Tensor:
        """y = r_{t-2} + gamma r_{t-1} + gamma^2 r_t + gamma^3 min_i Q_i'(s_{t+3}, pi(z_{t+3}) + clipped noise)."""
        action = self._noisy(self.encoder.latent(maps), env_step)
        return batch.n_step_reward + batch.n_step_discount * self._target_q(maps, action)

    def actor_loss(self, z: Tensor, env_step: int) -> Tensor:
        """-min_i Q_i(z, pi(z) + clipped noise)."""
        with fixed(self.critic):
            return -torch.minimum(*self.critic(z, self._noisy(z, env_step))).mean()

    def update_actor(self, z: Tensor, env_step: int) -> Metrics:
        return minimise({"actor": self.actor_loss(z, env_step)}, {"actor": 1.0}, ("actor",), self.optimizers)

    def _noisy(self, z: Tensor, env_step: int) -> Tensor:
        return noisy_action(self.actor(z), self.noise(env_step), self.generator, self.config.noise_clip)


class ReleasedDrQ(Released):
    """Their DrQ + CBM: the critic's reward is r_t, and only CBM sees the late sum."""

    ahead, actor_kind = 1, WiderGaussianActor
    actor: WiderGaussianActor

    def __init__(self, config: ReleasedConfig, setup: Setup, objective: None = None) -> None:
        super().__init__(config, setup)
        self.temperature = Temperature(config.first_temperature).to(self.device)
        self.modules["temperature"] = self.temperature
        self.optimizers["temperature"] = adam(self.temperature.parameters(), config.lr)

    def explore(self, z: Tensor, env_step: int) -> Tensor:
        return squashed_gaussian(self.actor(z), self.generator)[0]

    def td_target(self, batch: Batch, maps: Tensor, env_step: int) -> Tensor:
        """y = r_t + gamma (min_i Q_i'(s_{t+1}, a') - alpha log pi(a' | z_{t+1})), a' ~ pi(z_{t+1})."""
        action, log_pi = squashed_gaussian(self.actor(self.encoder.latent(maps)), self.generator)
        value: Tensor = self._target_q(maps, action) - self.temperature() * log_pi
        return batch.reward + batch.n_step_discount * value

    def actor_loss(self, z: Tensor, action: Tensor, log_pi: Tensor) -> Tensor:
        """alpha log pi(a | z) - min_i Q_i(z, a)."""
        with fixed(self.critic):
            loss: Tensor = (self.temperature().detach() * log_pi - torch.minimum(*self.critic(z, action))).mean()
        return loss

    def update_actor(self, z: Tensor, env_step: int) -> Metrics:
        """The temperature learns first, and the actor's loss sees the new one."""
        action, log_pi = squashed_gaussian(self.actor(z), self.generator)
        excess = (-log_pi + self.setup.action_dim).detach()  # of the entropy, over -action_dim
        losses = {"temperature": (self.temperature() * excess).mean()}
        metrics = minimise(losses, {"temperature": 1.0}, ("temperature",), self.optimizers)
        metrics |= minimise({"actor": self.actor_loss(z, action, log_pi)}, {"actor": 1.0}, ("actor",), self.optimizers)
        return metrics | {"actor/entropy": -log_pi.detach().mean(), "actor/temperature": self.temperature().detach()}
