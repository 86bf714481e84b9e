"""CBM: clustering with bisimulation metrics, for any encoder that yields latents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cbm.errors import CBMError
from cbm.learning.nets import Transition
from cbm.learning.ops import (
    cosine,
    deviation,
    distance_parts,
    entropy,
    info_nce,
    share_between,
    sinkhorn,
    soft_cross_entropy,
)
from cbm.schema.methods import ObjectiveConfig
from cbm.schema.ranges import Positive, Range, Weight, Width
from cbm.types import ALONE, Context, Losses, Metrics, Objective, Policy, PrototypeSpace


@dataclass(frozen=True)
class DynamicsConfig(ObjectiveConfig):
    """What every objective with a transition model P has. "Table" is the paper's "CBM list of hyperparameters"."""

    # In the preset `laptop`. The encoder does not wait for the critic here, so critic and actor can have most of the
    # updates, which cost little without images (docs/results/recipe.md).
    laptop_agent = MappingProxyType({"batch_episodes": 4, "alike_shifts": 0.5, "head_updates": 8})
    laptop_pace = 32

    temperature: Positive = 0.1
    """Softmax temperature tau (Table)."""
    transition_hidden: Width = 256
    """Width of the transition model (appendix, "Network Architecture")."""
    residual_transition: bool = False
    """P(z, a) = z + MLP(z, a). A latent resembles the next one even before anything is learned, so L_P has a gradient
    to follow from the first update. Without it a run may wait long for one, or for ever."""
    centred: bool = False
    """Latents are compared by their deviations from the batch mean. The latents of an episode share most of their
    direction (background, camera, colours), and so little is left between their cosines that learning starts slowly:
    on cheetah-run, not at all. SwAV's projection ends its hidden layer with BatchNorm, which does the same."""
    episode_means: bool = False
    """With `centred`: deviations from the mean of the transition's own episode in the batch. Background, camera and
    colours then do not tell the right next latent from those of other episodes. Needs few episodes in a batch
    (`agent.batch_episodes`)."""
    episode_weight: Weight = 0.0
    """Weight of one more loss: the share of the latents' variance that lies between the episodes of the batch. What an
    episode has to itself then leaves the latent, and is not only left out of comparisons. Needs few episodes, too."""
    steps_ahead: Annotated[int, Range(1, 100)] = 1
    """With m > 1, L_P also predicts the latent m agent steps ahead, by m applications of P. Stacks one step apart share
    all frames but one, and can be matched by looks alone. After as many steps as a stack has frames they share none."""

    def laptop(self) -> Self:
        return replace(
            self, centred=True, episode_means=True, episode_weight=4.0, residual_transition=True, steps_ahead=3
        )

    def transition(self, latent_dim: int, action_dim: int) -> Transition:
        return Transition(latent_dim, action_dim, self.transition_hidden, self.residual_transition)

    def centre(self, x: Tensor, episode: Tensor | None) -> Tensor:
        """What is compared of latents (B, D) whose transitions are from episodes (B,)."""
        return deviation(x, episode if self.episode_means else None) if self.centred else x

    @property
    def compares_episodes(self) -> bool:
        return self.episode_means or self.episode_weight > 0

    @property
    def weights(self) -> dict[str, float]:
        return {"dynamics": 1.0} | ({"episodes": self.episode_weight} if self.episode_weight else {})

    def losses(
        self, model: Transition, z: Tensor, action: Tensor, z_next: Tensor, context: Context
    ) -> tuple[Losses, Tensor]:
        """L_P and what else has `weights`, and how often P finds the right next latent."""
        episode, later = context
        if (self.compares_episodes and episode is None) or (self.steps_ahead > 1 and later is None):
            raise CBMError("episode_means, episode_weight and steps_ahead need the `context` of the transitions.")
        pairs = [(model(z, action), z_next)]
        if self.steps_ahead > 1 and later is not None:
            pairs.append((model.ahead(z, later.actions, later.steps), later.z))
        found = [info_nce(self.centre(a, episode), self.centre(b, episode), self.temperature) for a, b in pairs]
        losses = {"dynamics": torch.stack([loss for loss, _ in found]).sum()}
        if self.episode_weight and episode is not None:
            losses["episodes"] = share_between(z, episode)
        return losses, found[0][1]


@dataclass(frozen=True)
class CBMConfig(DynamicsConfig):
    """Defaults follow the paper. The authors' code is a separate agent (`cbm.agents.released`).

    Examples:
        >>> import cbm
        >>> config = cbm.CBMConfig(prototypes=64, epsilon=0.1)
        >>> config.prototypes, config.temperature
        (64, 0.1)
        >>> cbm.CBMConfig(prototypes=1)
        Traceback (most recent call last):
        cbm.schema.tree.BadSetting: prototypes must be 2 to 65,536, not 1.
    """

    prototypes: Annotated[int, Range(2, 65_536)] = 128
    """K (Table)."""
    epsilon: Positive = 0.05
    """Sinkhorn regularisation (Table)."""
    sinkhorn_iterations: Annotated[int, Range(1, 10_000)] = 3
    """From SwAV and Proto-RL, on which the paper builds; it gives no number."""
    reward_rate: Annotated[float, Range(0, 1, above=True)] = 0.01
    """beta, how fast prototype rewards follow the batch, Eq. 4 (Table)."""
    unit_latents: bool = True
    """Scale latents and prototypes to length 1 in the similarity z^T c and in the distance ||z' - c'||. The formulas do
    not say so, but the dynamics loss does, and SwAV, where z^T c comes from, normalises both. Without it a 50-d tanh
    latent has length 4 to 7: at tau = 0.1 the softmax is nearly one-hot, and a reward in [0, 1] hardly counts next to
    the latent distance. False uses the literal formulas."""
    reward_average: Literal["actual", "balanced"] = "actual"
    """Eq. 3 multiplies q_k^T r by K / B, since balanced codes sum to B / K ("balanced"). After a few Sinkhorn
    iterations the sums are 0.4 to 2 times that, and the reward is off by as much. "actual" divides by the sum itself,
    which is the same for balanced codes, and always an average."""
    cluster_weight: Weight = 1.0
    """Weight of L_CBM relative to L_P (appendix, algorithm: their sum)."""


def log_assignment(z: Tensor, c: Tensor, config: CBMConfig, episode: Tensor | None = None) -> Tensor:
    """log p_ik = log softmax_k(z_i^T c_k / tau), (B, K)."""
    if config.centred:
        z, c = deviation(z, episode), c - z.mean(dim=0)
    similarity = cosine(z, c) if config.unit_latents else z @ c.T
    return F.log_softmax(similarity / config.temperature, dim=1)


def average_rewards(q: Tensor, reward: Tensor, config: CBMConfig) -> Tensor:
    """Each prototype's reward in this batch, the average of r weighted by q_k, Eq. 3: (K,)."""
    batch, prototypes = q.shape
    share = q.sum(dim=0).clamp_min(1e-8) if config.reward_average == "actual" else batch / prototypes
    return (q.T @ reward) / share


@torch.no_grad()
def cluster_metrics(
    log_p: Tensor, q: Tensor, accuracy: Tensor, r_c: Tensor, reward_part: Tensor, latent_part: Tensor
) -> Metrics:
    """What can be said of assignments p and q (B, K), of prototype rewards, and of the terms of the distance."""
    p = log_p.exp()
    return {
        "cbm/p_entropy": entropy(p),
        "cbm/q_entropy": entropy(q),
        "cbm/prototypes_used": entropy(p.mean(dim=0, keepdim=True)).exp(),
        "cbm/agreement": (p.argmax(dim=1) == q.argmax(dim=1)).float().mean(),
        "cbm/dynamics_accuracy": accuracy,
        "cbm/prototype_reward_std": r_c.std(),
        "cbm/reward_distance": reward_part.mean(),
        "cbm/latent_distance": latent_part.mean(),
    }


class CBM(Objective):
    """Prototypes c, their rewards r_c and the transition model P, with the losses that train them and the encoder.

    Give `losses` the latents of a batch of transitions; add what it returns, times `weights`, to your own losses, and
    put `parameters()` and the encoder's into your optimizer. `reward_scale` brings rewards to [0, 1], where the paper
    has them: 1 / action repeat for dm_control.

    Examples:
        >>> import cbm, torch
        >>> objective = cbm.CBM(cbm.CBMConfig(prototypes=16), latent_dim=8, action_dim=2)
        >>> z, z_next = torch.randn(32, 8, requires_grad=True), torch.randn(32, 8)  # latents, by your encoder
        >>> action, reward = torch.zeros(32, 2), torch.rand(32, 1)
        >>> losses, metrics = objective.losses(z, action, reward, z_next, policy=lambda z: torch.tanh(z[:, :2]))
        >>> sum(objective.weights[name] * loss for name, loss in losses.items()).backward()
        >>> z.grad.shape
        torch.Size([32, 8])
    """

    r_c: Tensor
    started: Tensor

    def __init__(
        self, config: CBMConfig | None = None, *, latent_dim: int = 50, action_dim: int, reward_scale: float = 1.0
    ) -> None:
        super().__init__()
        self.config = CBMConfig() if config is None else config
        self.steps_ahead = self.config.steps_ahead
        self.reward_scale = reward_scale
        self.weights = self.config.weights | {"cluster": self.config.cluster_weight}
        # "A prototype can be seen as a point in the latent space", so it starts as one: tanh of a normalised vector.
        self.prototypes = nn.Parameter(torch.tanh(torch.randn(self.config.prototypes, latent_dim)))
        self.transition = self.config.transition(latent_dim, action_dim)
        self.register_buffer("r_c", torch.zeros(self.config.prototypes))
        self.register_buffer("started", torch.tensor(False))

    def losses(
        self, z: Tensor, action: Tensor, reward: Tensor, z_next: Tensor, policy: Policy, context: Context = ALONE
    ) -> tuple[Losses, Metrics]:
        """L_P and L_CBM for latents z (B, D), actions (B, A), rewards (B, 1) and next latents (B, D).

        `policy` maps latents to actions. No gradient reaches it, nor `z_next`. In training mode r_c follows the batch.
        `episode_means` needs the episodes in `context`, and `steps_ahead` what comes later.
        """
        config, c, episode = self.config, self.prototypes, context.episode
        reward, z_next = self.reward_scale * reward.squeeze(1), z_next.detach()
        with torch.no_grad():
            if self.training:
                self._start_rewards(reward)
            c_next = self.transition(c, policy(c))
            if config.centred:
                c_next = c_next - z_next.mean(dim=0)
            parts = distance_parts(reward, config.centre(z_next, episode), self.r_c, c_next, config.unit_latents)
            q = sinkhorn(-(parts[0] + parts[1]), config.epsilon, config.sinkhorn_iterations)  # Eq. 2
            if self.training:
                self.r_c.lerp_(average_rewards(q, reward, config), config.reward_rate)  # Eq. 4
        log_p = log_assignment(z, c, config, episode if config.episode_means else None)
        losses, accuracy = config.losses(self.transition, z, action, z_next, context)
        losses["cluster"] = soft_cross_entropy(log_p, q)
        return losses, cluster_metrics(log_p, q, accuracy, self.r_c, *parts)

    def prototype_space(self, policy: Policy) -> PrototypeSpace:
        c = self.prototypes.detach()
        return PrototypeSpace(c, lambda z: log_assignment(z, c, self.config), self.config.centred)

    def _start_rewards(self, reward: Tensor) -> None:
        """Rewards from replay. Without `if`, which would wait for a GPU to say whether they have started."""
        draws = torch.arange(len(self.r_c), device=reward.device) % len(reward)  # the batch is random already
        self.r_c.copy_(torch.where(self.started, self.r_c, reward[draws]))
        self.started.fill_(True)
