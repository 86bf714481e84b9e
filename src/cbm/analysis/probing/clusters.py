"""Which cluster an observation belongs to: that of the nearest prototype, or one of k-means if there are none."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from cbm.objectives.cbm import CBMConfig
from cbm.types import Agent, Carries, PrototypeSpace

PAPER_K = CBMConfig.prototypes  # for agents without prototypes
_PER_CLUSTER = 4  # k-means makes at most one cluster per this many observations


def prototype_space(agent: Agent) -> PrototypeSpace | None:
    """The prototypes of an agent; None if it has none."""
    if not isinstance(agent, Carries) or agent.objective is None:
        return None
    return agent.objective.prototype_space(agent.actor.mean)


@dataclass(frozen=True)
class Clusters:
    """A cluster for each of N observations."""

    labels: np.ndarray  # (N,)
    k: int  # how many there could be
    kind: str  # `prototypes` or `kmeans`
    p: np.ndarray | None = None  # the predicted assignment, (N, K), if there are prototypes

    def usage(self) -> np.ndarray:
        """Share of the observations in each cluster, (K,)."""
        return np.bincount(self.labels, minlength=self.k) / len(self.labels)

    def describe(self) -> str:
        return f"nearest of {self.k} prototypes" if self.kind == "prototypes" else f"k-means on latents, K = {self.k}"


def cluster(z: Tensor, space: PrototypeSpace | None) -> Clusters:
    """Clusters of latents z (N, D)."""
    if space is not None:
        labels = space.similarity(z).argmax(dim=1).numpy()
        return Clusters(labels, len(space.points), "prototypes", space.log_p(z).exp().numpy())
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    k = max(2, min(PAPER_K, len(z) // _PER_CLUSTER))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct latents than clusters: a collapse
        return Clusters(KMeans(k, n_init=3, random_state=0).fit_predict(z.numpy()), k, "kmeans")
