"""Scores across runs: interquartile means with stratified bootstrap intervals, profiles, probability of improvement.

After Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (NeurIPS 2021). Written in
numpy instead of using their package: rliable 1.2 draws from numpy's global generator whatever `random_state` says, so
its intervals differ from call to call; it needs the same number of seeds in every task; and it brings eight packages,
one of which fails with pandas 3. The tests compare these functions with it.

Scores of a method are a list with one array of returns per task, with one return per seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Scores = Sequence[np.ndarray]  # one per task: (seeds,)
Statistic = Callable[[list[np.ndarray]], np.ndarray]  # one per task, (..., seeds) -> (...), or several numbers

RESAMPLES = 2000


class Estimate(NamedTuple):
    """A number (or an array of them) with its 95 % interval; no interval if there is one run per task."""

    value: Any
    low: Any = None
    high: Any = None


def iqm(scores: list[np.ndarray]) -> np.ndarray:
    """Mean of the middle half of all runs of all tasks, (..., seeds) each -> (...)."""
    together = np.sort(np.concatenate(scores, axis=-1), axis=-1)
    cut = together.shape[-1] // 4
    return together[..., cut : together.shape[-1] - cut].mean(axis=-1)


def estimate(scores: Scores, statistic: Statistic = iqm, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """A statistic with the interval of a bootstrap that draws seeds within each task, with replacement."""
    tasks = [np.asarray(task, float) for task in scores]
    value = statistic(tasks)
    if max(map(len, tasks)) < 2:
        return Estimate(value)
    rng = np.random.default_rng(seed)
    drawn = [task[rng.integers(len(task), size=(resamples, len(task)))] for task in tasks]
    return Estimate(value, *np.quantile(statistic(drawn), [0.025, 0.975], axis=0))


def improvement(x: list[np.ndarray], y: list[np.ndarray]) -> np.ndarray:
    """P(X > Y) + P(X = Y) / 2 for a run of each on the same task, averaged over tasks, (..., seeds) each -> (...)."""
    shares = []
    for own, other in zip(x, y, strict=True):
        difference = own[..., :, None] - other[..., None, :]
        shares.append(((difference > 0) + 0.5 * (difference == 0)).mean(axis=(-1, -2)))
    return np.mean(shares, axis=0)


def probability_of_improvement(x: Scores, y: Scores) -> Estimate:
    """How likely a run of X beats a run of Y, with its interval."""
    return estimate([*x, *y], lambda both: improvement(both[: len(x)], both[len(x) :]))


def profile(scores: list[np.ndarray], thresholds: np.ndarray) -> np.ndarray:
    """Share of runs above each threshold, with equal weight for each task, (..., seeds) each -> (..., thresholds)."""
    return np.mean([(task[..., None] > thresholds).mean(axis=-2) for task in scores], axis=0)


def steps_to(env_steps: Sequence[int], returns: Sequence[float], level: float) -> int | None:
    """The first evaluation at which a run reached `level`; None if it never did."""
    return next((step for step, value in zip(env_steps, returns, strict=True) if value >= level), None)
