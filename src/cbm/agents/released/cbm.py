"""CBM as the authors' code has it: its transition model, and its losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cbm.learning.nets import Transition
from cbm.learning.ops import cosine, info_nce, sinkhorn, soft_cross_entropy
from cbm.objectives.cbm import cluster_metrics
from cbm.types import ALONE, Context, Losses, Metrics, Objective, Policy, PrototypeSpace

if TYPE_CHECKING:
    from cbm.agents.released.agents import ReleasedConfig


class NormalisedTransition(Transition):
    """P, which ends as the encoder does: LayerNorm and tanh bring what it predicts to where latents lie."""

    def __init__(self, latent_dim: int, action_dim: int, hidden: int = 256) -> None:
        super().__init__(latent_dim, action_dim, hidden)
        self.norm = nn.LayerNorm(latent_dim)

    def forward(self, z: Tensor, action: Tensor) -> Tensor:
        return self.finish(self.raw(z, action))

    def raw(self, z: Tensor, action: Tensor) -> Tensor:
        """Its output before they do."""
        return super().forward(z, action)

    def finish(self, raw: Tensor) -> Tensor:
        return torch.tanh(self.norm(raw))


class ReleasedCBM(Objective):
    """CBM in the authors' code. `losses` has the meaning that every objective gives it."""

    r_c: Tensor
    started: Tensor

    def __init__(self, config: ReleasedConfig, action_dim: int, reward_scale: float) -> None:
        super().__init__()
        self.config, self.reward_scale = config, reward_scale
        # Their surrogate of the cluster loss has the gradient of the cross-entropy without the factor 1 / tau.
        self.weights = {"dynamics": 1.0, "cluster": config.tau}
        bound = config.feature_dim**-0.5
        self.prototypes = nn.Parameter(torch.empty(config.prototypes, config.feature_dim).uniform_(-bound, bound))
        self.transition = NormalisedTransition(config.feature_dim, action_dim, config.transition_hidden)
        self.register_buffer("r_c", torch.zeros(config.prototypes))
        self.register_buffer("started", torch.tensor(False))

    def losses(
        self, z: Tensor, action: Tensor, reward: Tensor, z_next: Tensor, policy: Policy, context: Context = ALONE
    ) -> tuple[Losses, Metrics]:
        """z is compared with what P makes of a prototype, before its LayerNorm; z_next with the same after it."""
        config, reward, z_next = self.config, self.reward_scale * reward.squeeze(1), z_next.detach()
        raw = self.anchors(policy)
        with torch.no_grad():
            reward_part = (reward[:, None] - self.r_c).square().clamp(max=2.0)
            latent_part = 1.0 - cosine(z_next, self.transition.finish(raw))
            q = sinkhorn(-(reward_part + latent_part), config.epsilon, config.sinkhorn_iterations)
            if self.training:
                average = q.T @ reward / (len(q) / config.prototypes)  # by what balanced codes would sum to
                self.r_c.lerp_(average, torch.where(self.started, config.reward_rate, 1.0))
                self.started.fill_(True)
        log_p = self.log_assignment(z, raw)
        dynamics, accuracy = info_nce(self.transition(z, action), z_next, config.tau)
        losses = {"dynamics": dynamics, "cluster": soft_cross_entropy(log_p, q)}
        return losses, cluster_metrics(log_p, q, accuracy, self.r_c, reward_part, latent_part)

    def anchors(self, policy: Policy) -> Tensor:
        """Where z should lie to belong to each prototype, (K, D)."""
        with torch.no_grad():
            action = policy(self.prototypes)
        return self.transition.raw(self.prototypes, action)

    def prototype_space(self, policy: Policy) -> PrototypeSpace:
        with torch.no_grad():
            anchors = self.anchors(policy)
        return PrototypeSpace(anchors, lambda z: self.log_assignment(z, anchors))

    def log_assignment(self, z: Tensor, anchors: Tensor) -> Tensor:
        """log p (B, K)."""
        return F.log_softmax(cosine(z, anchors) / self.config.tau, dim=1)
