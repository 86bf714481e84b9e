"""DBC, deep bisimulation for control (Zhang et al., ICLR 2021): latents as far apart as behaviour is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cbm.learning.linear import Linear
from cbm.learning.nets import GaussianTransition, RandomState, initialise
from cbm.learning.ops import gaussian_loss
from cbm.schema.methods import ObjectiveConfig
from cbm.schema.ranges import Share, Weight, Width
from cbm.types import ALONE, Context, Losses, Metrics, Objective, Policy


@dataclass(frozen=True)
class DBCConfig(ObjectiveConfig):
    """Defaults follow the code of DBC's authors."""

    discount: Share = 0.99
    """gamma of the metric (DBC; also the agents' discount)."""
    hidden: Width = 512
    """Width of the latent model and of the reward model."""
    bisimulation_weight: Weight = 0.5
    """Weight relative to the losses of the two models."""
    distance: Literal["per-dimension", "norm"] = "per-dimension"
    """per-dimension: one distance per dimension of the latent, with smooth-L1 distances (code). norm: one per pair, as
    in DBC's paper: ||z_i - z_j||_1 against |r_i - r_j| + gamma W_2. With our latents and learning rate the latter
    collapses: an L1 norm over 50 dimensions starts many times too large."""


def distances(
    kind: str, z: Tensor, reward: Tensor, mean: Tensor, std: Tensor, other: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """||z_i - z_j||_1, |r_i - r_j| and W_2(N(mean_i, std_i^2), N(mean_j, std_j^2)) for j = other_i: (B, 1) each.

    Of the kind "per-dimension": those of every dimension for itself, with smooth-L1 in place of absolute values:
    (B, D), (B, 1), (B, D).
    """
    squares = (mean - mean[other]).square() + (std - std[other]).square()
    if kind == "norm":
        latent = (z - z[other]).abs().sum(dim=1, keepdim=True)
        return latent, (reward - reward[other]).abs(), squares.sum(dim=1, keepdim=True).sqrt()
    latent, reward_part = (F.smooth_l1_loss(x, x[other], reduction="none") for x in (z, reward))
    return latent, reward_part, squares.sqrt()


class DBC(Objective):
    """A Gaussian latent model, a reward model, and the bisimulation loss. The critic trains the encoder too."""

    blocks_critic = False

    def __init__(self, config: DBCConfig, *, latent_dim: int, action_dim: int, reward_scale: float = 1.0) -> None:
        super().__init__()
        self.config, self.reward_scale = config, reward_scale
        self.weights = {"bisimulation": config.bisimulation_weight, "transition": 1.0, "reward": 1.0}
        hidden = config.hidden
        self.transition = GaussianTransition(latent_dim, action_dim, hidden)
        self.reward_model = nn.Sequential(
            Linear(latent_dim, hidden), nn.LayerNorm(hidden), nn.ReLU(), Linear(hidden, 1)
        )
        self.reward_model.apply(initialise)
        self.random = RandomState()

    def losses(
        self, z: Tensor, action: Tensor, reward: Tensor, z_next: Tensor, policy: Policy, context: Context = ALONE
    ) -> tuple[Losses, Metrics]:
        """(||z_i - z_j||_1 - |r_i - r_j| - gamma W_2)^2, -log p(z'), and (r - R(z' ~ p))^2. The policy is not used."""
        reward, z_next = self.reward_scale * reward, z_next.detach()
        mean, std = self.transition(z, action)
        other = torch.arange(len(z), device=z.device).roll(1)  # the batch is random already, and nobody meets himself
        gaussians = mean.detach(), std.detach()
        latent, reward_part, wasserstein = distances(self.config.distance, z, reward, *gaussians, other)
        target = reward_part + self.config.discount * wasserstein
        predicted = self.reward_model(mean + std * self.random.normal(mean))
        losses = {
            "bisimulation": (latent - target).square().mean(),
            "transition": gaussian_loss(mean, std, z_next),
            "reward": F.mse_loss(predicted, reward),
        }
        return losses, {
            "dbc/latent_distance": latent.detach().mean(),
            "dbc/reward_distance": reward_part.mean(),
            "dbc/transition_distance": wasserstein.mean(),
            "dbc/transition_std": std.detach().mean(),
        }
