"""The transition model alone: CBM with K = 0, the paper's ablation "Impact of transition model"."""

from __future__ import annotations

from torch import Tensor

from cbm.objectives.cbm import DynamicsConfig
from cbm.types import ALONE, Context, Losses, Metrics, Objective, Policy


class Dynamics(Objective):
    """One-step contrastive predictive coding in the latent space."""

    def __init__(self, config: DynamicsConfig, *, latent_dim: int, action_dim: int, reward_scale: float = 1.0) -> None:
        super().__init__()
        self.config, self.weights = config, config.weights
        self.steps_ahead = config.steps_ahead
        self.transition = config.transition(latent_dim, action_dim)

    def losses(
        self, z: Tensor, action: Tensor, reward: Tensor, z_next: Tensor, policy: Policy, context: Context = ALONE
    ) -> tuple[Losses, Metrics]:
        """L_P; the reward and the policy play no part in it."""
        losses, accuracy = self.config.losses(self.transition, z, action, z_next.detach(), context)
        return losses, {"dynamics/accuracy": accuracy}
