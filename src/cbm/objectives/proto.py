"""The objective of Proto-RL (Yarats et al., ICML 2021): the cluster of what comes next, predicted from what is."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cbm.errors import CBMError
from cbm.learning.linear import Linear
from cbm.learning.nets import initialise
from cbm.learning.ops import entropy, sinkhorn, soft_cross_entropy, soft_update
from cbm.schema.ranges import Count, Positive, Range, Width
from cbm.schema.tree import Checked
from cbm.types import ALONE, Context, Losses, Metrics, Objective, Policy, PrototypeSpace


@dataclass(frozen=True)
class ProtoConfig(Checked):
    """Defaults follow Proto-RL's authors."""

    prototypes: Annotated[int, Range(2, 65_536)] = 512
    """K."""
    projection_dim: Width = 128
    """Length of a projection, and of a prototype."""
    predictor_hidden: Width = 512
    """Width of the two-layer predictor."""
    temperature: Positive = 0.1
    """tau, of the predicted and of the target assignment."""
    sinkhorn_iterations: Annotated[int, Range(1, 10_000)] = 3
    """Proto-RL."""
    bottleneck: Annotated[int, Range(0, 16_384)] = 0
    """Width of a layer before the projection (FC, LayerNorm and tanh, like the end of the paper's encoder); 0 projects
    feature maps directly (Proto-RL)."""
    standardise: bool = False
    """Whether the input of the projection is standardised over the batch, as in SwAV's projector. Proto-RL's is not."""
    own_candidates: bool = True
    """Whether the batch's own candidates are in the queue before the intrinsic reward is measured (Proto-RL)."""
    queue: Count = 2048
    """Candidates that the intrinsic reward compares with."""
    neighbours: Count = 3
    """k: the intrinsic reward is the distance to the k-th nearest candidate."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.queue < self.prototypes:
            raise CBMError(
                f"Proto-RL's queue takes a candidate of each prototype, so it must be at least {self.prototypes} long, "
                f"not {self.queue}"
            )
        if self.neighbours > self.queue:
            raise CBMError(f"Proto-RL's neighbours must lie between 1 and {self.queue}, not {self.neighbours}")

    def laptop(self) -> ProtoConfig:
        """Against collapse where images differ little, and for batches with fewer observations than prototypes."""
        return replace(self, bottleneck=50, standardise=True, own_candidates=False)


class Projector(nn.Module):
    """Features (B, F) -> projections (B, P)."""

    def __init__(self, inputs: int, config: ProtoConfig) -> None:
        super().__init__()
        size = config.bottleneck or inputs
        inner = [Linear(inputs, size), nn.LayerNorm(size), nn.Tanh()] if config.bottleneck else []
        self.inner = nn.Sequential(*inner)
        self.norm = nn.BatchNorm1d(size, affine=False) if config.standardise else None
        self.outer = Linear(size, config.projection_dim)

    def forward(self, maps: Tensor, steady: bool = False) -> Tensor:
        """If standardised, then over this batch; or, `steady`, by what past batches were like, each for itself."""
        x = self.inner(maps)
        if self.norm is not None:
            x = F.batch_norm(x, self.norm.running_mean, self.norm.running_var) if steady else self.norm(x)
        projection: Tensor = self.outer(x)
        return projection


class Proto(Objective):
    """Projector, predictor, prototypes of length 1, and the queue of the intrinsic reward.

    It works on the maps of convolutions and wants the next ones from a slow copy of these, so only an agent that has
    them (`proto`) carries it. `follow` moves its own slow copy, that of the projector.
    """

    queue: Tensor
    pointer: Tensor

    def __init__(self, config: ProtoConfig, inputs: int) -> None:
        super().__init__()
        self.config, self.weights = config, {"proto": 1.0}
        self.projector = Projector(inputs, config)
        self.predictor = nn.Sequential(
            Linear(config.projection_dim, config.predictor_hidden),
            nn.ReLU(),
            Linear(config.predictor_hidden, config.projection_dim),
        )
        self.apply(initialise)
        self.target_projector = deepcopy(self.projector).requires_grad_(False)
        self.prototypes = nn.Parameter(torch.empty(config.prototypes, config.projection_dim))
        nn.init.orthogonal_(self.prototypes)
        self.register_buffer("queue", torch.zeros(config.queue, config.projection_dim))
        self.register_buffer("pointer", torch.tensor(0))

    def losses(
        self, z: Tensor, action: Tensor, reward: Tensor, z_next: Tensor, policy: Policy, context: Context = ALONE
    ) -> tuple[Losses, Metrics]:
        """-mean_i sum_k q_ik log p_ik: p from the predicted projection of z, q by Sinkhorn from that of z_next.

        `z` and `z_next` are feature maps (B, F). Actions, rewards and the policy are not used.
        """
        config = self.config
        with torch.no_grad():
            self.prototypes.copy_(F.normalize(self.prototypes, dim=1))
        scores = F.normalize(self.predictor(self.projector(z)), dim=1) @ self.prototypes.T
        log_p = F.log_softmax(scores / config.temperature, dim=1)
        with torch.no_grad():
            scores_next = F.normalize(self.target_projector(z_next), dim=1) @ self.prototypes.T
            q = sinkhorn(scores_next, config.temperature, config.sinkhorn_iterations)
        p = log_p.detach().exp()
        return {"proto": soft_cross_entropy(log_p, q)}, {
            "proto/p_entropy": entropy(p),
            "proto/q_entropy": entropy(q),
            "proto/prototypes_used": entropy(p.mean(dim=0, keepdim=True)).exp(),
            "proto/agreement": (p.argmax(dim=1) == q.argmax(dim=1)).float().mean(),
        }

    def prototype_space(self, policy: Policy) -> PrototypeSpace:
        """Among the projections of `embed`."""
        points = F.normalize(self.prototypes.detach(), dim=1)
        return PrototypeSpace(points, lambda z: F.log_softmax(z @ points.T / self.config.temperature, dim=1))

    @torch.no_grad()
    def embed(self, maps: Tensor) -> Tensor:
        """Projections of length 1, (B, P)."""
        return F.normalize(self.projector(maps, steady=True), dim=1)

    @torch.no_grad()
    def novelty(self, maps: Tensor, generator: torch.Generator) -> Tensor:
        """The intrinsic reward of feature maps (B, F): how far their projections are from the candidates, (B, 1).

        Each prototype draws one projection from the batch as its new candidate; similar ones are likelier.
        """
        x = self.embed(maps)
        if self.config.own_candidates:
            self._enqueue(x, generator)
        distance = torch.cdist(x, self.queue).kthvalue(self.config.neighbours, dim=1, keepdim=True).values
        if not self.config.own_candidates:
            self._enqueue(x, generator)
        return distance

    def _enqueue(self, x: Tensor, generator: torch.Generator) -> None:
        prototypes = F.normalize(self.prototypes, dim=1)
        likely = F.softmax(prototypes @ x.T, dim=1)
        # One of each row, with these probabilities. torch.multinomial would wait for a GPU to check that they are such.
        waiting = -torch.rand(likely.shape, generator=generator, device=x.device).log()  # exponential
        drawn = (likely / waiting).argmax(dim=1)
        slots = (self.pointer + torch.arange(len(drawn), device=x.device)) % len(self.queue)
        self.queue[slots] = x[drawn]
        self.pointer.add_(len(drawn)).remainder_(len(self.queue))

    def follow(self, rate: float) -> None:
        """Move the slow projector towards the one that learns."""
        soft_update(self.target_projector.parameters(), self.projector.parameters(), rate)
