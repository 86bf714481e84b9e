"""SVEA (Hansen, Su and Wang, NeurIPS 2021): SAC whose critic sees strong augmentations, but never in its target."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

import numpy as np
import torch
from torch import Tensor

from cbm.agents.actor_critic import make_encoder
from cbm.agents.base import Setup
from cbm.agents.sac import SAC, SACConfig
from cbm.errors import CBMError
from cbm.learning.augment import convolution, draw_convolutions, draw_images, overlay, view
from cbm.learning.nets import Encoder
from cbm.learning.ops import soft_update
from cbm.learning.optimisation import critic_metrics, minimise, td_loss
from cbm.learning.recent import Latents
from cbm.schema.ranges import CountOrZero, Positive, Range, Share, Weight
from cbm.types import Batch, Metrics


@dataclass(frozen=True)
class SVEAConfig(SACConfig):
    """Defaults follow SVEA's authors, sizes of the networks the paper; see `SACConfig` and `ActorCriticConfig`."""

    lr: Positive = 1e-3
    """Learning rate of Adam, for everything but the temperature (SVEA)."""
    learn_temperature: bool = True
    """SVEA."""
    temperature_lr: Positive | None = 1e-4
    """SVEA."""
    temperature_beta1: Annotated[float, Range(0, 0.999_999)] = 0.5
    """SVEA."""
    encoder_rate: Annotated[float, Range(0, 1, above=True)] = 0.05
    """How far the target critic's encoder moves each time (SVEA)."""
    augmentation: Literal["convolution", "overlay"] = "convolution"
    """What the critic sees in addition to plain images: a random convolution of them, or natural images over them
    (SVEA)."""
    plain_weight: Weight = 0.5
    """alpha, the weight of the critic's loss on plain images (SVEA)."""
    augmented_weight: Weight = 0.5
    """beta, the weight of its loss on augmented images (SVEA)."""
    overlay_weight: Share = 0.5
    """Weight of the natural image in an overlay (SVEA)."""
    overlay_videos: str | None = None
    """Source of the images of an overlay: builtin, davis, or a folder of videos; training videos only."""
    overlay_images: Annotated[int, Range(1, 100_000)] = 300
    """Number of stills taken from them."""
    first_updates: CountOrZero = 1_000
    """Updates in one go after the random steps (SVEA); 0: one, as at every other step."""
    pixel_offset: Share = 0.0
    """Subtracted from pixels / 255. SVEA subtracts nothing, the paper's encoder 0.5."""
    last_relu: bool = False
    """Whether ReLU follows the last convolution. In SVEA it does not, in the paper's encoder it does."""
    delta_orthogonal: bool = True
    """Initialise convolutions with zeros around an orthogonal matrix (SVEA); the paper's encoder fills the whole
    kernel."""

    def laptop(self) -> Self:
        """As the others, with their encoder and no updates at once."""
        return replace(super().laptop(), first_updates=0, pixel_offset=0.5, last_relu=True, delta_orthogonal=False)


class SVEA(SAC):
    """The critic trains the encoder. `images` (N, 3, H, W) for an overlay, in place of `overlay_videos`."""

    config: SVEAConfig

    def __init__(
        self, config: SVEAConfig, setup: Setup, objective: None = None, images: np.ndarray | Tensor | None = None
    ) -> None:
        super().__init__(config, setup)
        self.weights = {"critic": config.plain_weight, "critic_augmented": config.augmented_weight}
        self.target_encoder = deepcopy(self.encoder).requires_grad_(False)
        self.modules["target_encoder"] = self.target_encoder
        if config.augmentation == "overlay":
            if images is None:
                if config.overlay_videos is None:
                    raise CBMError(
                        "SVEA's overlay needs images: name their source with --agent.overlay_videos builtin (or davis, "
                        "or a folder), or use --agent.augmentation convolution"
                    )
                images = stills(config.overlay_videos, config.overlay_images, setup.obs_shape[1:])
            self.images = torch.as_tensor(images).to(self.device)

    def make_encoder(self) -> Encoder:
        config = self.config
        return make_encoder(
            config,
            self.setup,
            pixel_offset=config.pixel_offset,
            last_relu=config.last_relu,
            delta=config.delta_orthogonal,
        )

    def update(self, batch: Batch, env_step: int) -> Metrics:
        config, batch = self.config, batch.to(self.device)
        alike = self.draw_alike(batch)
        now, then = (self.random_view(obs, alike) for obs in (batch.obs, batch.next_obs))
        (z, maps), z_augmented, z_next, z_target = self.encoded(
            [
                self.encoder.work(*now, see=view, makes="both"),
                self.encoder.work(self.draw(batch.obs), *now, see=self.augment),
                self.encoder.work(*then, see=view, learns=False),
                self.target_encoder.work(*then, see=view),
            ],
            env_step,
        )
        latents = Latents(z.detach(), batch.action, batch.n_step_reward, batch.n_step_discount, z_next)
        target = batch.n_step_reward + batch.n_step_discount * self.soft_value(z_next, z_target)
        q = self.critic(z, batch.action)
        losses = {
            "critic": td_loss(q, target),
            "critic_augmented": td_loss(self.critic(z_augmented, batch.action), target),
        }
        metrics = minimise(losses, self.weights, ("encoder", "critic"), self.optimizers)
        if self.updates % config.target_every == 0:
            soft_update(self.target_encoder.parameters(), self.encoder.parameters(), config.encoder_rate)
        metrics |= critic_metrics(q[0], target, z)
        return metrics | self.finish_update(latents, maps, env_step)

    def draw(self, obs: Tensor) -> Tensor:
        """What is random in the strong augmentation of observations."""
        if self.config.augmentation == "convolution":
            return draw_convolutions(obs, self.generator)
        return draw_images(obs, self.images, self.generator)

    def augment(self, drawn: Tensor, *seen: Tensor) -> Tensor:
        """The strong augmentation of a random view of observations."""
        if self.config.augmentation == "convolution":
            return convolution(view(*seen), drawn)
        return overlay(view(*seen), drawn, self.config.overlay_weight)


def stills(videos: str, count: int, size: tuple[int, int]) -> np.ndarray:
    """About `count` frames (N, 3, H, W), evenly from all training videos of a source."""
    from PIL import Image

    from cbm.envs.videos import open_source  # brings the whole suite along, which nothing else here needs

    source, height, width = open_source(videos), *size
    names = source.names("train")
    each = -(-count // len(names))
    images = []
    for name in names:
        clip = source.clip(name)
        for index in np.unique(np.linspace(0, len(clip) - 1, each).round().astype(int)):
            images.append(Image.fromarray(clip[int(index)]).resize((width, height), Image.Resampling.BILINEAR))
    return np.stack([np.asarray(image) for image in images]).transpose(0, 3, 1, 2).copy()
