"""SimSR (Zang, Li and Wang, AAAI 2022): cosine distances of latents, as far apart as sampled behaviour is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cbm.learning.nets import GaussianTransition, RandomState
from cbm.learning.ops import cosine, gaussian_loss
from cbm.schema.methods import ObjectiveConfig
from cbm.schema.ranges import Range, Share, Width
from cbm.types import ALONE, Context, Losses, Metrics, Objective, Policy


@dataclass(frozen=True)
class SimSRConfig(ObjectiveConfig):
    """Defaults follow SimSR's authors."""

    discount: Share = 0.99
    """gamma of the metric (SimSR; also the agents' discount)."""
    models: Annotated[int, Range(1, 1_000)] = 5
    """Latent models in the ensemble; one of them is drawn for each batch (code)."""
    hidden: Width = 512
    """Width of the latent models (code)."""


class SimSR(Objective):
    """An ensemble of Gaussian models of unit latents, and the bisimulation loss. The critic trains the encoder too."""

    blocks_critic = False

    def __init__(self, config: SimSRConfig, *, latent_dim: int, action_dim: int, reward_scale: float = 1.0) -> None:
        super().__init__()
        self.config, self.reward_scale = config, reward_scale
        self.weights = {"bisimulation": 1.0, "transition": 1.0}
        self.transitions = nn.ModuleList(
            GaussianTransition(latent_dim, action_dim, config.hidden) for _ in range(config.models)
        )
        self.random = RandomState()

    def losses(
        self, z: Tensor, action: Tensor, reward: Tensor, z_next: Tensor, policy: Policy, context: Context = ALONE
    ) -> tuple[Losses, Metrics]:
        """Huber(1 - cos(z_i, z_j), |r_i - r_j| + gamma (1 - cos(z_i', z_j'))) over all pairs, z' ~ one of the models;
        and -log p(z') of all models. The policy is not used."""
        reward = self.reward_scale * reward
        z, z_next = F.normalize(z, dim=1), F.normalize(z_next.detach(), dim=1)
        predictions = [model(z, action) for model in self.transitions]
        mean, std = (part.detach() for part in predictions[self.random.below(len(predictions))])
        sampled = mean + std * self.random.normal(mean)
        reward_part, next_part = (reward - reward.T).abs(), 1.0 - cosine(sampled, sampled)  # (B, B) each
        distance = 1.0 - z @ z.T
        transition = torch.stack([gaussian_loss(mean, std, z_next) for mean, std in predictions]).mean()
        losses = {
            "bisimulation": F.huber_loss(distance, reward_part + self.config.discount * next_part),
            "transition": transition,
        }
        return losses, {
            "simsr/latent_distance": distance.detach().mean(),
            "simsr/reward_distance": reward_part.mean(),
            "simsr/next_distance": next_part.mean(),
            "simsr/transition_std": std.mean(),
        }
