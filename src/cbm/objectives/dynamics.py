"""The transition model alone: CBM with K = 0, the paper's ablation "Impact of transition model"."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from torch import Tensor

from cbm.learning.nets import Transition
from cbm.learning.ops import info_nce
from cbm.schema.ranges import Positive, Width
from cbm.schema.tree import Checked
from cbm.types import Losses, Metrics, Objective, Policy


@dataclass(frozen=True)
class DynamicsConfig(Checked):
    """What every objective with L_P has. "Table" is the paper's "CBM list of hyperparameters"."""

    laptop_episodes: ClassVar[int] = 4  # `agent.batch_episodes` in the preset `laptop`

    temperature: Positive = 0.1
    """Softmax temperature tau (Table)."""
    transition_hidden: Width = 256
    """Width of the transition model (appendix, "Network Architecture")."""
    centred: bool = False
    """Latents are compared by their deviations from the batch mean. The latents of an episode share most of their
    direction (background, camera, colours), and so little is left between their cosines that learning starts slowly:
    on cheetah-run, not at all. SwAV's projection ends its hidden layer with BatchNorm, which does the same."""

    def laptop(self) -> Self:
        return replace(self, centred=True)


def dynamics_loss(predicted: Tensor, z_next: Tensor, config: DynamicsConfig) -> tuple[Tensor, Tensor]:
    """L_P for predictions and next latents (B, D) each, and how often the own next latent is the most similar one."""
    if config.centred:
        predicted, z_next = predicted - predicted.mean(dim=0), z_next - z_next.mean(dim=0)
    return info_nce(predicted, z_next, config.temperature)


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
        loss, accuracy = dynamics_loss(self.transition(z, action), z_next.detach(), self.config)
        return {"dynamics": loss}, {"dynamics/accuracy": accuracy}
