"""The exact bisimulation metric of a finite MDP (Ferns et al.; the paper's definition in "Bisimulation Metrics").

    d(s, s') = max_a (1 - c) |r(s, a) - r(s', a)| + c W_1(P(. | s, a), P(. | s', a); d)

The right side is a contraction by c, so iterating it from d = 0 converges to the only solution. Each W_1 is an optimal
transport problem, solved exactly by POT's network simplex.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class MDP:
    """Rewards in [0, 1], (A, S), and transition probabilities (A, S, S), for A actions and S states."""

    reward: np.ndarray
    transition: np.ndarray

    def __post_init__(self) -> None:
        actions, states = self.reward.shape
        if self.transition.shape != (actions, states, states):
            raise ValueError(f"transitions are {self.transition.shape}, but rewards {self.reward.shape}")
        if not np.allclose(self.transition.sum(axis=2), 1.0) or (self.transition < 0).any():
            raise ValueError("the transition probabilities of a state must be positive and sum to 1")

    def under(self, policy: np.ndarray) -> MDP:
        """The MDP with a single action, that of a policy with probabilities (S, A)."""
        reward = np.einsum("sa,as->s", policy, self.reward)
        return MDP(reward[None], np.einsum("sa,ast->st", policy, self.transition)[None])


def wasserstein(p: np.ndarray, q: np.ndarray, d: np.ndarray) -> float:
    """W_1(p, q; d) of two distributions (S,) over states that are `d` (S, S) apart."""
    import ot

    a, b = np.flatnonzero(p), np.flatnonzero(q)
    cost = np.ascontiguousarray(d[np.ix_(a, b)])
    if len(a) == 1 or len(b) == 1:  # there is only one transport plan
        return float(p[a] @ cost @ q[b])
    return float(ot.emd2(p[a] / p[a].sum(), q[b] / q[b].sum(), cost))


def bisimulation_metric(mdp: MDP, c: float, tolerance: float = 1e-6) -> np.ndarray:
    """The metric (S, S), at most `tolerance` below the solution, which it approaches from below."""
    if not 0.0 <= c < 1.0:
        raise ValueError(f"c must lie in [0, 1), not {c}")
    actions, states = mdp.reward.shape
    rewards = (1.0 - c) * np.abs(mdp.reward[:, :, None] - mdp.reward[:, None, :])
    pairs = [(i, j) for i in range(states) for j in range(i + 1, states)]
    d = np.zeros((states, states))
    while True:
        new = np.zeros_like(d)
        for i, j in pairs:
            new[i, j] = new[j, i] = max(
                rewards[a, i, j] + c * wasserstein(mdp.transition[a, i], mdp.transition[a, j], d)
                for a in range(actions)
            )
        step, d = float(np.abs(new - d).max(initial=0.0)), new
        if step * c <= tolerance * (1.0 - c):
            return d


def optimal_values(mdp: MDP, discount: float, tolerance: float = 1e-9) -> tuple[np.ndarray, np.ndarray]:
    """V* (S,) by value iteration, and Q* (A, S)."""
    values = np.zeros(mdp.reward.shape[1])
    while True:
        q = mdp.reward + discount * mdp.transition @ values
        step, values = float(np.abs(q.max(axis=0) - values).max()), q.max(axis=0)
        if step * discount <= tolerance * (1.0 - discount):
            return values, q
