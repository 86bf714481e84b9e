"""What the authors' two agents are built from: their actors, their CBM, their batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cbm.errors import CBMError
from cbm.learning.nets import DeterministicActor, GaussianActor, Transition
from cbm.learning.ops import cosine, info_nce, sinkhorn, soft_cross_entropy
from cbm.objectives.cbm import cluster_metrics
from cbm.replay import Replay, draw
from cbm.types import Batch, Losses, Metrics, Objective, Policy, PrototypeSpace

if TYPE_CHECKING:
    from cbm.agents.released.agents import ReleasedConfig

REWARDS = 3  # how many rewards the discounted sum has, which ends with r_t; and steps to the bootstrap of DrQ-v2


class SlowTanhActor(DeterministicActor):
    """DrQ-v2's, with tanh(0.1 x): its slope at x = 15, where that of tanh is 0 in 32 bits, is still 0.018."""

    def forward(self, z: Tensor) -> Tensor:
        return torch.tanh(0.1 * self.net(z))


class WiderGaussianActor(GaussianActor):
    """DrQ's, with 1e-4 added to its standard deviation."""

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = super().forward(z)
        return mean, (log_std.exp() + 1e-4).log()


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
        self, z: Tensor, action: Tensor, reward: Tensor, z_next: Tensor, policy: Policy
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


def sample_windows(
    replay: Replay, batch_size: int, generator: np.random.Generator, discount: float, ahead: int
) -> Batch:
    """Windows of whole frames, all of one background video: a stack that ends with frame t, and `REWARDS` steps more.

    `n_step_reward` is r_{t-2} + gamma r_{t-1} + gamma^2 r_t, which is two steps late. `boot_obs` is `ahead` steps after
    t. The video is that of a window drawn first: the label is privileged information.
    """
    first, last, label = replay.episodes()
    before = max(replay.stack, REWARDS) - 1  # frames ahead of t that must be there, for the stack and for the rewards
    count = np.maximum(last - REWARDS - first - before + 1, 0)
    if not count.any():
        raise CBMError(
            f"no episode in replay has the {before + 1 + REWARDS} frames that a window of this agent needs yet. Choose "
            f"more --training.seed_steps, or another agent if episodes are never that long."
        )
    count = np.where(label == label[draw(count, 1, generator)[0]], count, 0)
    episode, offset = draw(count, batch_size, generator)
    t = first[episode] + before + offset
    late = replay.records(t[:, None] + np.arange(2 - REWARDS, 2))["reward"] @ discount ** np.arange(REWARDS)
    step, boot = replay.records(t + 1), replay.records(t + ahead)
    next_obs = replay.observations(t + 1)
    return Batch(
        obs=replay.observations(t),
        action=torch.from_numpy(np.ascontiguousarray(step["action"])),
        reward=_column(step["reward"]),
        next_obs=next_obs,
        n_step_reward=_column(late),
        n_step_discount=_column(discount**ahead * ~boot["terminal"]),
        boot_obs=next_obs if ahead == 1 else replay.observations(t + ahead),
    )


def _column(values: np.ndarray) -> Tensor:
    return torch.from_numpy(values.astype(np.float32)[:, None])
