"""A gridworld in pixels, small enough for the exact metric: does CBM's distance rank its states in the same order?

A white square moves on a 5x5 board, up, down, left or right; one time in ten it slips in another direction. A corner
gives reward 1 per step. The background, one of three patterns, has no effect: two pictures of one cell are bisimilar,
however different they look. An encoder, CBM's objective and a policy head (cloned from the optimal policy, on detached
latents) are trained on the transitions. The same networks are also trained with the dynamics loss alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from cbm.analysis.exact.bisimulation import MDP, bisimulation_metric, optimal_values
from cbm.analysis.figures.style import plt, save, style, write_csv
from cbm.learning.nets import DeterministicActor, Encoder
from cbm.learning.ops import distance_parts
from cbm.objectives.cbm import CBM, CBMConfig

SIDE, CELL, BACKGROUNDS, SLIP = 5, 5, 3, 0.1
MOVES = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])  # rows, columns; also the action that CBM sees
C = DISCOUNT = 0.9
BATCH = 128
METHODS = {"untrained": {}, "dynamics only": {"dynamics": 1.0}, "CBM": {"dynamics": 1.0, "cluster": 1.0}}


def make_mdp() -> MDP:
    """The board without its pictures: 25 cells, 4 moves, reward 1 in the last cell."""
    cells = SIDE * SIDE
    places = np.stack(np.divmod(np.arange(cells), SIDE), axis=1)  # (cells, 2)
    ends = np.clip(places + MOVES[:, None], 0, SIDE - 1) @ (SIDE, 1)  # (moves, cells)
    share = np.where(np.eye(len(MOVES)), 1.0 - SLIP, SLIP / (len(MOVES) - 1))  # of each move, when one is chosen
    transition = np.einsum("ab,bst->ast", share, np.eye(cells)[ends])
    reward = np.zeros((len(MOVES), cells))
    reward[:, -1] = 1.0
    return MDP(reward, transition)


def pictures(seed: int = 0) -> np.ndarray:
    """What each cell looks like in front of each background: uint8 (backgrounds, cells, 3, 25, 25)."""
    rng = np.random.default_rng(seed)
    side = SIDE * CELL
    coarse = rng.integers(0, 200, (BACKGROUNDS, 3, SIDE, SIDE)).repeat(CELL, axis=2).repeat(CELL, axis=3)
    behind = np.clip(coarse + rng.integers(-25, 25, (BACKGROUNDS, 3, side, side)), 0, 255)
    images = np.repeat(behind[:, None], SIDE * SIDE, axis=1).astype(np.uint8)
    for cell in range(SIDE * SIDE):
        row, column = (CELL * part for part in divmod(cell, SIDE))
        images[:, cell, :, row + 1 : row + CELL - 1, column + 1 : column + CELL - 1] = 255
    return images


@dataclass(frozen=True)
class LearnedModel:
    """Latents of all pictures after training, (backgrounds * cells, D), and those that the model predicts next."""

    z: torch.Tensor
    z_next: torch.Tensor

    def distance(self, reward: np.ndarray) -> np.ndarray:
        """CBM's |r - r'| + ||z' - z''|| between every two pictures, each in turn taking the place of a prototype."""
        r = torch.from_numpy(reward).float()
        reward_part, latent_part = distance_parts(r, self.z_next, r, self.z_next, CBMConfig.unit_latents)
        return (reward_part + latent_part).numpy()


def learn(mdp: MDP, weights: dict[str, float], seed: int, updates: int, one_background: bool = False) -> LearnedModel:
    """Train on random cells, with half of the moves optimal and half random. Without `weights` there is no training.

    With `one_background`, all pictures of a batch have the same one, for a figure of the guide.
    """
    images = torch.from_numpy(pictures())
    best = optimal_values(mdp, DISCOUNT)[1].argmax(axis=0)
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = Encoder(images.shape[2:], channels=16)
        actor = DeterministicActor(50, 2, hidden=64)
        cbm = CBM(CBMConfig(prototypes=32), action_dim=2)
    optimizer = torch.optim.Adam([*encoder.parameters(), *cbm.parameters(), *actor.parameters()], lr=5e-4)
    moves = torch.from_numpy(MOVES).float()
    for _ in range(updates if weights else 0):
        cell = rng.integers(SIDE * SIDE, size=BATCH)
        background = rng.integers(BACKGROUNDS, size=1 if one_background else BATCH)
        action = np.where(rng.random(BATCH) < 0.5, best[cell], rng.integers(len(MOVES), size=BATCH))
        after = [rng.choice(SIDE * SIDE, p=mdp.transition[a, s]) for a, s in zip(action, cell, strict=True)]
        reward = torch.from_numpy(mdp.reward[action, cell]).float()[:, None]
        z = encoder(images[background, cell])
        with torch.no_grad():
            z_next = encoder(images[background, after])
        losses, _ = cbm.losses(z, moves[action], reward, z_next, actor)
        clone = F.mse_loss(actor(z.detach()), 0.995 * moves[best[cell]])
        optimizer.zero_grad()
        torch.stack([clone, *(weight * losses[name] for name, weight in weights.items())]).sum().backward()
        optimizer.step()
    with torch.no_grad():
        z = encoder(images.flatten(0, 1))
        return LearnedModel(z, cbm.transition(z, actor(z)))


@dataclass(frozen=True)
class Ranking:
    """Spearman correlations with the exact metric."""

    every: float  # all pairs of pictures
    same: float  # pairs with the same background
    policy: float  # all pairs, with the metric of the optimal policy instead of the maximum over actions
    between: float  # distance between pictures of one cell, relative to that between any two: 0 is exact


def rank(approximate: np.ndarray, exact: np.ndarray, on_policy: np.ndarray) -> Ranking:
    """Compare the order of distances between pictures (B * S, B * S) with that between cells (S, S)."""
    from scipy.stats import spearmanr

    cells = len(exact)
    i, j = np.triu_indices(len(approximate), k=1)
    background = np.arange(len(approximate)) // cells
    alike = background[i] == background[j]
    ours, theirs, of_policy = approximate[i, j], exact[i % cells, j % cells], on_policy[i % cells, j % cells]
    twins = (i % cells == j % cells) & ~alike
    return Ranking(
        every=float(spearmanr(ours, theirs).statistic),
        same=float(spearmanr(ours[alike], theirs[alike]).statistic),
        policy=float(spearmanr(ours, of_policy).statistic),
        between=float(ours[twins].mean() / ours.mean()),
    )


def draw_bisimulation(
    folder: Path, seeds: int = 3, updates: int = 600, say: Callable[[str], None] = lambda text: None
) -> list[Path]:
    """Train, compare, and draw `bisimulation`; the correlations of every seed are in `bisimulation_ranks.csv`."""
    mdp = make_mdp()
    say(f"exact metric of {SIDE * SIDE} states, c = {C}")
    exact = bisimulation_metric(mdp, C, tolerance=1e-3)
    best = optimal_values(mdp, DISCOUNT)[1].argmax(axis=0)
    on_policy = bisimulation_metric(mdp.under(np.eye(len(MOVES))[best]), C, tolerance=1e-3)
    reward = np.tile(mdp.reward[0], BACKGROUNDS)
    ranks: dict[str, list[Ranking]] = {}
    shown: dict[str, np.ndarray] = {}
    for name, weights in METHODS.items():
        for seed in range(seeds):
            distance = learn(mdp, weights, seed, updates).distance(reward)
            shown.setdefault(name, distance)
            ranks.setdefault(name, []).append(rank(distance, exact, on_policy))
            say(f"{name}, seed {seed}: Spearman {ranks[name][-1].every:.3f}")
    header = ("method", "seed", "updates", "spearman", "spearman_same_background", "spearman_policy", "between_twins")
    rows = [
        (name, seed, updates if METHODS[name] else 0, *astuple(each))
        for name, found in ranks.items()
        for seed, each in enumerate(found)
    ]
    written = _draw(folder, exact, shown, ranks, updates)
    return [*written, write_csv(folder / "bisimulation_ranks.csv", header, rows)]


def _draw(
    folder: Path, exact: np.ndarray, shown: dict[str, np.ndarray], ranks: dict[str, list[Ranking]], updates: int
) -> list[Path]:
    cells = SIDE * SIDE
    widths = [0.45] + [1.0] * len(shown)
    figure, axes = plt.subplots(1, 1 + len(shown), figsize=(4.0 * len(shown) + 2, 3.9), width_ratios=widths)
    frames = np.pad(pictures()[:, cells // 2], ((0, 0), (0, 0), (0, 2), (0, 0)), constant_values=255)
    axes[0].imshow(np.concatenate(frames.transpose(0, 2, 3, 1)), interpolation="nearest")
    axes[0].set(xticks=[], yticks=[], frame_on=False, title="one state, three backgrounds")
    axes[0].grid(False)
    i, j = np.triu_indices(BACKGROUNDS * cells, k=1)
    alike = i // cells == j // cells
    theirs = exact[i % cells, j % cells]
    rows = []
    for axis, (name, distance) in zip(axes[1:], shown.items(), strict=True):
        ours = distance[i, j]
        for index, (own, label) in enumerate(((~alike, "different backgrounds"), (alike, "the same background"))):
            look = style(1 - index)
            axis.plot(theirs[own], ours[own], look.marker, color=look.color, ms=2, alpha=0.5, label=label, mew=0)
        found = ranks[name]
        every, same = np.mean([each.every for each in found]), np.mean([each.same for each in found])
        trained = "" if name == "untrained" else f", {updates} updates"
        axis.set_title(f"{name}{trained}\nSpearman {every:.2f}, within a background {same:.2f}")
        axis.set(xlabel="exact bisimulation distance", ylim=(0, None))
        rows += [
            (name, int(a), int(b), bool(equal), float(d), float(o))
            for a, b, equal, d, o in zip(i, j, alike, theirs, ours, strict=True)
        ]
    axes[1].set_ylabel(r"$|r - r'| + \|z' - z''\|$")
    axes[1].legend(loc="upper left", markerscale=3)
    count = len(next(iter(ranks.values())))
    figure.suptitle(
        f"{len(i)} pairs of {BACKGROUNDS * cells} pictures of a {SIDE}x{SIDE} gridworld, c = {C}. "
        f"Points: seed 0. Correlations: mean of {count} seed{'s' * (count > 1)}",
        fontsize=9,
    )
    figure.tight_layout()
    header = ("method", "picture", "other", "same_background", "exact", "approximate")
    return save(figure, folder, "bisimulation", header, rows)
