"""Which cluster an observation belongs to: that of the nearest prototype, or one of k-means where there are none."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cbm.agents.released.parts import ReleasedCBM
from cbm.objectives.cbm import CBM, CBMConfig, log_assignment
from cbm.objectives.proto import Proto

PAPER_K = CBMConfig.prototypes  # for agents that have no prototypes of their own
_CROWD = 4  # k-means makes no more clusters than leave this many observations each


@dataclass(frozen=True)
class PrototypeSpace:
    """The prototypes (K, D) of an agent, among the latents that its `encode` returns."""

    points: Tensor
    log_p: Callable[[Tensor], Tensor]  # latents (N, D) -> log of the predicted assignment, (N, K)

    def similarity(self, z: Tensor) -> Tensor:
        """Cosine of each latent with each prototype, (N, K): what "nearest" means."""
        return F.normalize(z, dim=1) @ F.normalize(self.points, dim=1).T


@torch.no_grad()
def prototype_space(agent: Any) -> PrototypeSpace | None:
    """The prototypes of an agent; None where it has none."""
    objective = getattr(agent, "objective", None)
    if isinstance(objective, CBM):
        c = objective.prototypes.detach()
        return PrototypeSpace(c, lambda z: log_assignment(z, c, objective.config))
    if isinstance(objective, ReleasedCBM):  # z is compared with where the policy takes a prototype
        anchors = objective.anchors(agent.actor.mean)
        return PrototypeSpace(anchors, lambda z: objective.log_assignment(z, anchors))
    if isinstance(objective, Proto):
        points = F.normalize(objective.prototypes.detach(), dim=1)
        temperature = objective.config.temperature
        return PrototypeSpace(points, lambda z: F.log_softmax(z @ points.T / temperature, dim=1))
    return None


@dataclass(frozen=True)
class Clusters:
    """A cluster for each of N observations."""

    labels: np.ndarray  # (N,)
    k: int  # how many there could be
    kind: str  # `prototypes` or `kmeans`
    p: np.ndarray | None = None  # the predicted assignment, (N, K), where there are prototypes

    def usage(self) -> np.ndarray:
        """Share of the observations in each cluster, (K,)."""
        return np.bincount(self.labels, minlength=self.k) / len(self.labels)

    def describe(self) -> str:
        return f"nearest of {self.k} prototypes" if self.kind == "prototypes" else f"k-means on latents, K = {self.k}"


def cluster(z: Tensor, space: PrototypeSpace | None, k: int = PAPER_K) -> Clusters:
    """Clusters of latents z (N, D)."""
    if space is not None:
        labels = space.similarity(z).argmax(dim=1).numpy()
        return Clusters(labels, len(space.points), "prototypes", space.log_p(z).exp().numpy())
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    k = max(2, min(k, len(z) // _CROWD))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct latents than clusters: a collapse
        return Clusters(KMeans(k, n_init=3, random_state=0).fit_predict(z.numpy()), k, "kmeans")
