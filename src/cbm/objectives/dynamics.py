"""The transition model alone: CBM with K = 0, the paper's ablation "Impact of transition model"."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cbm.nets import Transition
from cbm.ops import info_nce
from cbm.ranges import Positive, Width
from cbm.settings import Checked
from cbm.types import Losses, Metrics, Objective, Policy


@dataclass(frozen=True)
class DynamicsConfig(Checked):
    """As in `CBMConfig`: the paper keeps all other settings fixed."""

    temperature: Positive = 0.1
    """tau (Table "CBM list of hyperparameters")."""
    transition_hidden: Width = 256
    """Width of the transition model (appendix, "Network Architecture")."""


class Dynamics(Objective):
    """One-step contrastive predictive coding in the latent space."""

    def __init__(
        self, config: DynamicsConfig | None = None, *, latent_dim: int = 50, action_dim: int, reward_scale: float = 1.0
    ) -> None:
        super().__init__()
        self.config = DynamicsConfig() if config is None else config
        self.weights = {"dynamics": 1.0}
        self.transition = Transition(latent_dim, action_dim, self.config.transition_hidden)

    def losses(
        self, z: Tensor, action: Tensor, reward: Tensor, z_next: Tensor, policy: Policy
    ) -> tuple[Losses, Metrics]:
        """L_P; the reward and the policy play no part in it."""
        loss, accuracy = info_nce(self.transition(z, action), z_next.detach(), self.config.temperature)
        return {"dynamics": loss}, {"dynamics/accuracy": accuracy}
