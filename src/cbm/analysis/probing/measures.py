"""What a representation knows about the physical state (which it should) and the background (which it should not)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cbm.analysis.probing.clusters import Clusters, cluster, prototype_space
from cbm.analysis.probing.probe import Probe
from cbm.config.build import one_thread
from cbm.types import Agent

_BATCH = 256
_FOLDS = 5  # of moments, for the background
_BLOCK = 8  # neighbouring moments stay together
_STILL = 1e-6  # a component of the state that varies less than this is ignored


def measure(agent: Agent, probe: Probe) -> dict[str, Any]:
    """The numbers of one analysis, as written to analysis.jsonl. A number that does not exist is None."""
    from threadpoolctl import threadpool_limits

    with one_thread(), threadpool_limits(1):  # sums in one order: the same bits on any number of cores
        z = in_batches(agent.encode, probe.obs)
        found: dict[str, Any] = {
            "observations": len(probe),
            "moments": len(np.unique(probe.moment)),
            "backgrounds": len(probe.backgrounds),
        }
        if not torch.isfinite(z).all():  # training is about to stop, and says why
            return found | dict.fromkeys(("ch_index", "background_accuracy", "state_r2"))
        clusters = cluster(z, prototype_space(agent))
        latents = z.numpy().astype(np.float64)
        return (
            found
            | _cluster_numbers(clusters, probe)
            | {
                "distraction_ratio": distraction_ratio(latents, probe.moment),
                "background_accuracy": background_accuracy(latents, probe),
                "background_chance": 1.0 / len(probe.backgrounds) if len(probe.backgrounds) > 1 else None,
                "state_r2": state_r2(latents, probe),
            }
        )


def in_batches(function: Callable[[np.ndarray], Tensor], obs: np.ndarray) -> Tensor:
    """`function` of observations (N, C, H, W), some at a time: (N, ...) on the CPU."""
    parts = np.array_split(obs, -(-len(obs) // _BATCH))
    return torch.cat([function(part).float().cpu() for part in parts])


def _cluster_numbers(clusters: Clusters, probe: Probe) -> dict[str, Any]:
    usage = clusters.usage()
    entropy = -np.sum(usage * np.log(usage, where=usage > 0, out=np.zeros_like(usage)))
    p = clusters.p
    soft = None if p is None else float(-(p * np.log(np.maximum(p, 1e-30))).sum(axis=1).mean())
    return {
        "clusters": clusters.kind,
        "k": clusters.k,
        "clusters_used": int((usage > 0).sum()),
        "usage_entropy": float(entropy),
        "p_entropy": soft,
        "ch_index": ch_index(probe.state, clusters.labels),
        "ch_index_standardised": ch_index(standardised(probe.state), clusters.labels),
        "same_cluster": same_cluster(clusters.labels, probe.moment),
        "same_cluster_chance": float(np.sum(usage**2)),
    }


def ch_index(state: np.ndarray, labels: np.ndarray) -> float | None:
    """The Calinski-Harabasz index of physical states (N, S) in clusters (N,); None if it is not defined.

    K in the formula is the number of clusters that are not empty.
    """
    from sklearn.metrics import calinski_harabasz_score

    if not state.shape[1] or not 2 <= len(np.unique(labels)) < len(labels):
        return None
    return float(calinski_harabasz_score(state, labels))


def standardised(state: np.ndarray) -> np.ndarray:
    """Each component of the state with mean 0 and standard deviation 1; constant ones are left out."""
    moving = state[:, state.std(axis=0) > _STILL]
    return (moving - moving.mean(axis=0)) / moving.std(axis=0)


def same_cluster(labels: np.ndarray, moment: np.ndarray) -> float | None:
    """How often two pictures of one physical moment with different backgrounds fall into the same cluster."""
    first, second = _pairs(moment)
    return float((labels[first] == labels[second]).mean()) if len(first) else None


def distraction_ratio(z: np.ndarray, moment: np.ndarray) -> float | None:
    """How far the background moves a latent: mean squared distance between pictures of one moment, divided by that
    between any two. At 0 the background does not matter; at 1 nothing else does."""
    first, second = _pairs(moment)
    spread = 2.0 * z.var(axis=0).sum()
    if not len(first) or spread == 0.0:
        return None
    return float(np.square(z[first] - z[second]).sum(axis=1).mean() / spread)


def _pairs(moment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of different observations of one moment, moment by moment."""
    order = np.argsort(moment, kind="stable")
    first, second = np.triu(moment[order, None] == moment[order], k=1).nonzero()
    return order[first], order[second]


def background_accuracy(z: np.ndarray, probe: Probe) -> float | None:
    """Accuracy of a logistic regression from latents to the background, on moments that it was not fitted to.

    Every background occurs with every moment, so the state does not help and chance is 1 / backgrounds. The held-out
    moments are from the same episodes, so the probe has seen the very same video frames: this favours the probe.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    fold = np.unique(probe.moment, return_inverse=True)[1] // _BLOCK % _FOLDS
    if len(probe.backgrounds) < 2 or not fold.any():
        return None
    labels = probe.background.astype(str)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        predicted = _predict(LogisticRegression(C=1.0, max_iter=300), z, labels, fold)
    return float((predicted == labels).mean())


def state_r2(z: np.ndarray, probe: Probe) -> float | None:
    """R^2 of a ridge regression from latents to the physical state, on episodes that it was not fitted to.

    The mean over the components of the state. Each fold holds out one episode of random actions and one of the agent.
    """
    from sklearn.linear_model import Ridge

    state = standardised(probe.state) if probe.state.shape[1] else probe.state
    episodes = np.unique(probe.episode)
    fold = np.searchsorted(episodes, probe.episode) % max(1, len(episodes) // 2)
    if not state.shape[1] or len(np.unique(fold)) < 2:
        return None
    predicted = _predict(Ridge(alpha=10.0), z, state, fold).reshape(state.shape)
    error = np.square(state - predicted).sum(axis=0) / np.square(state - state.mean(axis=0)).sum(axis=0)
    return float(1.0 - error.mean())


def _predict(model: Any, z: np.ndarray, target: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """The target in each fold, predicted by the model fitted to standardised latents of the other folds."""
    from sklearn.model_selection import PredefinedSplit, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return cross_val_predict(make_pipeline(StandardScaler(), model), z, target, cv=PredefinedSplit(fold))
