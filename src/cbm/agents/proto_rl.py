"""Proto-RL: SAC on a latent that learns by predicting clusters alone; intrinsic reward and pre-training as options."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from cbm.agents.actor_critic import make_encoder
from cbm.agents.base import Setup, as_batch, seeded
from cbm.agents.sac import SAC, SACConfig
from cbm.learning import chunks
from cbm.learning.adam import adam, encoder_optimizer
from cbm.learning.augment import view
from cbm.learning.nets import Encoder, conv_outputs
from cbm.learning.ops import soft_update
from cbm.learning.optimisation import critic_metrics, minimise, td_loss
from cbm.learning.recent import Latents
from cbm.objectives.proto import Proto, ProtoConfig
from cbm.schema.ranges import Count, Positive, Range, Share, StepsOrZero, Weight
from cbm.types import Batch, Metrics


@dataclass(frozen=True)
class ProtoRLConfig(SACConfig):
    """Defaults follow Proto-RL's authors, sizes of the networks the paper; see `SACConfig` and `ActorCriticConfig`."""

    batch_size: Annotated[int, Range(2, 65_536)] = 512
    """Proto-RL."""
    lr: Positive = 1e-4
    """Learning rate of Adam, for everything (Proto-RL)."""
    learn_temperature: bool = True
    """Proto-RL."""
    encoder_every: Count = 2
    """Updates between updates of encoder and prototypes (Proto-RL)."""
    encoder_rate: Annotated[float, Range(0, 1, above=True)] = 0.05
    """How far the slow encoder and projector move each time (Proto-RL)."""
    intrinsic_weight: Weight = 0.2
    """Weight of the intrinsic reward, relative to the task's (Proto-RL); 0 switches it off."""
    pretrain_steps: StepsOrZero = 0
    """Environment steps with only the intrinsic reward; afterwards encoder and prototypes are fixed. Proto-RL: half of
    the run. 0 trains them together with the task, as every other method does."""
    pixel_offset: Share = 0.0
    """Subtracted from pixels / 255. Proto-RL subtracts nothing, the paper's encoder 0.5."""
    latent_tanh: bool = False
    """Whether the latent ends with tanh. Proto-RL's does not, the paper's encoder does."""
    centre_maps: bool = False
    """Whether the average is subtracted from feature maps before the latent. Proto-RL does not do this."""
    proto: ProtoConfig = ProtoConfig()  # noqa: RUF009 - frozen
    """Projector, prototypes, candidates."""

    def laptop(self) -> Self:
        """As the others, with their encoder, and with what keeps projections and latents from collapsing."""
        return replace(
            super().laptop(), pixel_offset=0.5, latent_tanh=True, centre_maps=True, proto=self.proto.laptop()
        )


class CentredEncoder(Encoder):
    """Features less their average, on the way to the latent.

    Most of a feature is the same in all images. The critic would fill the latent with that in its first updates, and
    its spread would fall to a tenth. If the critic also trains the convolutions, they fix this.
    """

    rate = 0.05
    average: Tensor

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        linear = self.projection[0]
        assert isinstance(linear, nn.Linear)
        self.register_buffer("average", torch.zeros(linear.in_features))

    def latent(self, maps: Tensor) -> Tensor:
        return super().latent(maps - self.average)

    @torch.no_grad()
    def follow(self, maps: Tensor) -> None:
        """Move the average towards that of a batch; the first one sets it."""
        self.average.lerp_(maps.mean(dim=0), torch.where(self.average.any(), self.rate, 1.0))


class ProtoRL(SAC):
    """The objective alone trains the convolutions, on whose maps it works; the critic trains the layer from these to
    the latent, as it trains its own first layer in the authors' code."""

    config: ProtoRLConfig
    objective: Proto

    def __init__(self, config: ProtoRLConfig, setup: Setup, objective: None = None) -> None:
        with seeded(setup.seed):
            inputs = conv_outputs(setup.obs_shape, config.conv_channels, config.conv_strides)
            proto = Proto(config.proto, inputs)
        super().__init__(config, setup, proto)
        self.optimizers["encoder"] = encoder_optimizer(self.encoder.convs, proto, config.lr)
        self.optimizers["projection"] = adam(self.encoder.projection.parameters(), config.lr)
        self.target_encoder = deepcopy(self.encoder).requires_grad_(False)
        self.modules["target_encoder"] = self.target_encoder

    def make_encoder(self) -> Encoder:
        config = self.config
        kind = CentredEncoder if config.centre_maps else Encoder
        return make_encoder(config, self.setup, kind, pixel_offset=config.pixel_offset, tanh=config.latent_tanh)

    def update(self, batch: Batch, env_step: int) -> Metrics:
        config, batch = self.config, batch.to(self.device)
        pretraining = env_step < config.pretrain_steps
        metrics: Metrics = {}
        alike = self.draw_alike(batch)
        now, then = (self.random_view(obs, alike) for obs in (batch.obs, batch.next_obs))
        if (pretraining or not config.pretrain_steps) and self.updates % config.encoder_every == 0:
            metrics |= self._update_encoder(now, then, batch)
        seen = [self.encoder.work(*views, see=view, learns=False, makes="maps") for views in (now, then)]
        maps, maps_next = self.encoded(seen, env_step)
        if isinstance(self.encoder, CentredEncoder):
            self.encoder.follow(maps)

        reward = torch.zeros_like(batch.reward) if pretraining else batch.n_step_reward
        if pretraining or config.intrinsic_weight:
            novelty = self.objective.novelty(maps_next, self.generator)
            reward = reward + (1.0 if pretraining else config.intrinsic_weight) * novelty
            metrics["proto/novelty"] = novelty.mean()
        z = self.encoder.latent(maps)
        with torch.no_grad():
            z_next = self.encoder.latent(maps_next)
        latents = Latents(z.detach(), batch.action, reward, batch.n_step_discount, z_next)
        q, target = self.critic(z, batch.action), self.target(latents, env_step)
        critic = ("critic", "projection")
        metrics |= minimise({"critic": td_loss(q, target)}, {"critic": 1.0}, critic, self.optimizers)
        metrics |= critic_metrics(q[0], target, z)
        return metrics | self.finish_update(latents, maps, env_step)

    def _update_encoder(self, now: tuple[Tensor, ...], then: tuple[Tensor, ...], batch: Batch) -> Metrics:
        """One step on convolutions, projector, predictor and prototypes; then their slow copies follow.

        `now` and `then` are random views.
        """
        proto, rate = self.objective, self.config.encoder_rate
        maps, slow = chunks.run(
            [
                encoder.work(*seen, see=view, makes="maps")
                for encoder, seen in ((self.encoder, now), (self.target_encoder, then))
            ]
        )
        losses, metrics = proto.losses(maps, batch.action, batch.reward, slow, self.actor.mean)
        metrics |= minimise(losses, proto.weights, ("encoder",), self.optimizers)
        soft_update(self.target_encoder.parameters(), self.encoder.parameters(), rate)
        proto.follow(rate)
        return metrics

    @torch.no_grad()
    def encode(self, obs: np.ndarray | Tensor) -> Tensor:
        """Projections (N, P) of observations: what the objective learns, and where its prototypes are."""
        return self.objective.embed(self.encoder.maps(as_batch(obs, self.device)))
