"""An objective of your own: latents that predict the reward, and nothing that does not help with that.

pip install docs/examples/reward_objective
cbm train --task cartpole-swingup --agent drqv2+reward --distraction easy --preset laptop
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from cbm.learning.linear import MLP
from cbm.objectives import ObjectiveConfig, ObjectiveEntry
from cbm.types import ALONE, Context, Losses, Metrics, Objective, Policy


@dataclass(frozen=True)
class RewardConfig(ObjectiveConfig):
    """Each of these becomes an option: `--objective.hidden 512`."""

    hidden: int = 256
    """Width of the head."""


class Reward(Objective):
    """L = mean (f(z, a) - r)^2."""

    def __init__(self, config: RewardConfig, *, latent_dim: int, action_dim: int, reward_scale: float) -> None:
        super().__init__()
        self.weights = {"reward": 1.0}
        self.reward_scale = reward_scale
        self.head = MLP(latent_dim + action_dim, config.hidden, 1)

    def losses(
        self, z: Tensor, action: Tensor, reward: Tensor, z_next: Tensor, policy: Policy, context: Context = ALONE
    ) -> tuple[Losses, Metrics]:
        """The gradient goes through z into the encoder."""
        reward = self.reward_scale * reward
        loss = F.mse_loss(self.head(torch.cat([z, action], dim=-1)), reward)
        return {"reward": loss}, {"reward/explained": (1.0 - loss / reward.var().clamp(min=1e-6)).detach()}


ENTRY = ObjectiveEntry(RewardConfig, Reward)
