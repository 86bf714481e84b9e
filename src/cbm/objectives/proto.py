"""The objective of Proto-RL (Yarats et al., ICML 2021): the cluster of what comes next, predicted from what is."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cbm.errors import CBMError
from cbm.nets import initialise
from cbm.ops import entropy, sinkhorn, soft_cross_entropy, soft_update
from cbm.types import Losses, Metrics, Objective, Policy


@dataclass(frozen=True)
class ProtoConfig:
    """Defaults follow Proto-RL's authors."""

    prototypes: int = 512
    """K."""
    projection_dim: int = 128
    """Length of a projection, and of a prototype."""
    predictor_hidden: int = 512
    """Width of the two-layer predictor."""
    temperature: float = 0.1
    """tau, of the predicted and of the target assignment."""
    sinkhorn_iterations: int = 3
    standardise: bool = True
    """Latents are standardised over the batch before they are projected, as batch normalisation does in SwAV's head.
    Proto-RL's has none. Without it all latents become one where images differ little (undistracted cartpole)."""
    queue: int = 2048
    """Candidates that the intrinsic reward compares with."""
    neighbours: int = 3
    """k: the intrinsic reward is the distance to the k-th nearest candidate."""

    def __post_init__(self) -> None:
        if self.prototypes < 2:
            raise CBMError(f"Proto-RL needs at least 2 prototypes, not {self.prototypes}")
        if self.queue < self.prototypes:
            raise CBMError(
                f"Proto-RL's queue takes a candidate of each prototype, so it must be at least {self.prototypes} long, "
                f"not {self.queue}"
            )
        if not 1 <= self.neighbours <= self.queue:
            raise CBMError(f"Proto-RL's neighbours must lie between 1 and {self.queue}, not {self.neighbours}")


class Proto(Objective):
    """Projector, predictor, prototypes of length 1, and the queue of the intrinsic reward.

    It wants `z_next` from a slow copy of the encoder, so only an agent that has one (`proto`) carries it. `follow`
    moves its own slow copy, that of the projector.
    """

    queue: Tensor
    pointer: Tensor
    mean: Tensor
    variance: Tensor

    def __init__(
        self, config: ProtoConfig | None = None, *, latent_dim: int = 50, action_dim: int, reward_scale: float = 1.0
    ) -> None:
        super().__init__()
        self.config = config = ProtoConfig() if config is None else config
        self.weights = {"proto": 1.0}
        self.projector = nn.Linear(latent_dim, config.projection_dim)
        self.predictor = nn.Sequential(
            nn.Linear(config.projection_dim, config.predictor_hidden),
            nn.ReLU(),
            nn.Linear(config.predictor_hidden, config.projection_dim),
        )
        self.apply(initialise)
        self.target_projector = deepcopy(self.projector).requires_grad_(False)
        self.prototypes = nn.Parameter(torch.empty(config.prototypes, config.projection_dim))
        nn.init.orthogonal_(self.prototypes)
        self.register_buffer("mean", torch.zeros(latent_dim))
        self.register_buffer("variance", torch.ones(latent_dim))
        self.register_buffer("queue", torch.zeros(config.queue, config.projection_dim))
        self.register_buffer("pointer", torch.tensor(0))

    def losses(
        self, z: Tensor, action: Tensor, reward: Tensor, z_next: Tensor, policy: Policy
    ) -> tuple[Losses, Metrics]:
        """-mean_i sum_k q_ik log p_ik: p from the predicted projection of z, q by Sinkhorn from that of z_next.

        Actions, rewards and the policy are not used.
        """
        config = self.config
        with torch.no_grad():
            self.prototypes.copy_(F.normalize(self.prototypes, dim=1))
            self._follow_statistics(z)
        scores = F.normalize(self.predictor(self.projector(self._standardised(z))), dim=1) @ self.prototypes.T
        log_p = F.log_softmax(scores / config.temperature, dim=1)
        with torch.no_grad():
            scores_next = F.normalize(self.target_projector(self._standardised(z_next)), dim=1) @ self.prototypes.T
            q = sinkhorn(scores_next, config.temperature, config.sinkhorn_iterations)
        p = log_p.detach().exp()
        return {"proto": soft_cross_entropy(log_p, q)}, {
            "proto/p_entropy": entropy(p),
            "proto/q_entropy": entropy(q),
            "proto/prototypes_used": entropy(p.mean(dim=0, keepdim=True)).exp(),
            "proto/agreement": (p.argmax(dim=1) == q.argmax(dim=1)).float().mean(),
        }

    @torch.no_grad()
    def embed(self, z: Tensor) -> Tensor:
        """Projections of length 1 of latents z (B, D), by the statistics of past batches: each for itself, (B, P)."""
        if self.config.standardise:
            z = F.batch_norm(z, self.mean, self.variance)
        return F.normalize(self.projector(z), dim=1)

    def _standardised(self, z: Tensor) -> Tensor:
        return F.batch_norm(z, None, None, training=True) if self.config.standardise else z

    def _follow_statistics(self, z: Tensor) -> None:
        F.batch_norm(z, self.mean, self.variance, training=True)  # moves both by a tenth towards the batch's

    @torch.no_grad()
    def novelty(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """The intrinsic reward of latents z (B, D): how far their projections are from the candidates, (B, 1).

        Then each prototype draws one projection out of the batch, the likelier the more similar, for the queue.
        """
        x, prototypes = self.embed(z), F.normalize(self.prototypes, dim=1)
        distance = torch.cdist(x, self.queue).kthvalue(self.config.neighbours, dim=1, keepdim=True).values
        drawn = torch.multinomial(F.softmax(prototypes @ x.T, dim=1), 1, generator=generator).squeeze(1)
        slots = (self.pointer + torch.arange(len(drawn), device=z.device)) % len(self.queue)
        self.queue[slots] = x[drawn]
        self.pointer.add_(len(drawn)).remainder_(len(self.queue))
        return distance

    def follow(self, rate: float) -> None:
        """Move the slow projector towards the one that learns."""
        soft_update(self.target_projector.parameters(), self.projector.parameters(), rate)
