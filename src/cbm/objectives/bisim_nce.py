"""The paper's ablation "Comparison with contrastive objectives": the bisimulation metric of CBM without clusters."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cbm.learning.ops import distance_parts, info_nce
from cbm.objectives.cbm import DynamicsConfig
from cbm.schema.ranges import Weight
from cbm.types import ALONE, Context, Losses, Metrics, Objective, Policy


@dataclass(frozen=True)
class BisimNCEConfig(DynamicsConfig):
    """As in `CBMConfig`: the paper keeps "all hyperparameters fixed"."""

    unit_latents: bool = True
    """Next latents have length 1 in the distance, as in `CBMConfig`."""
    contrast_weight: Weight = 1.0
    """Weight of the contrastive loss relative to L_P, as for L_CBM."""


def nearest(distance: Tensor) -> Tensor:
    """The nearest other element of each one, for distances (B, B): (B,)."""
    itself = torch.eye(len(distance), dtype=torch.bool, device=distance.device)
    return distance.masked_fill(itself, torch.inf).argmin(dim=1)


class BisimNCE(Objective):
    """Each latent finds, among the others of the batch, the one that behaves most alike."""

    def __init__(self, config: BisimNCEConfig, *, latent_dim: int, action_dim: int, reward_scale: float = 1.0) -> None:
        super().__init__()
        self.config, self.reward_scale = config, reward_scale
        self.steps_ahead = config.steps_ahead
        self.weights = config.weights | {"contrast": config.contrast_weight}
        self.transition = config.transition(latent_dim, action_dim)

    def losses(
        self, z: Tensor, action: Tensor, reward: Tensor, z_next: Tensor, policy: Policy, context: Context = ALONE
    ) -> tuple[Losses, Metrics]:
        """L_P, and InfoNCE with argmin_{j != i} |r_i - r_j| + ||z_i' - z_j'|| as the positive of z_i."""
        config, z_next, reward = self.config, z_next.detach(), self.reward_scale * reward.squeeze(1)
        losses, accuracy = config.losses(self.transition, z, action, z_next, context)
        z, z_next = config.centre(z, context.episode), config.centre(z_next, context.episode)
        reward_part, latent_part = distance_parts(reward, z_next, reward, z_next, config.unit_latents)
        d = reward_part + latent_part  # (B, B)
        positive = nearest(d)
        losses["contrast"], found = info_nce(z, z, config.temperature, positive)
        return losses, {
            "bisim-nce/accuracy": found,
            "bisim-nce/dynamics_accuracy": accuracy,
            "bisim-nce/positive_distance": d.gather(1, positive[:, None]).mean(),
            "bisim-nce/distance": d.sum() / (len(d) * (len(d) - 1)),
        }
