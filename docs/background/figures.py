"""The figures of the pages in this folder, drawn with the package's own code.

python docs/background/figures.py            # all of them, into docs/images/background; about two minutes
python docs/background/figures.py sinkhorn   # some of them
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from cbm import make_env
from cbm.analysis.exact.bisimulation import MDP, bisimulation_metric, optimal_values, wasserstein
from cbm.analysis.exact.gridworld import BACKGROUNDS, DISCOUNT, METHODS, SIDE, C, learn, make_mdp, pictures, rank
from cbm.analysis.figures.style import STYLES
from cbm.learning.ops import info_nce, sinkhorn

FOLDER = Path(__file__).parents[1] / "images" / "background"
NAVY, RED, GREEN, ORANGE = (style.color for style in STYLES[:4])
VIDEOS = ("skyline-01", "foliage-01", "crowd-01", "bricks-01")


def newest_frame(seed: int, video: str, actions: np.ndarray, task: str = "cartpole-swingup") -> np.ndarray:
    """What the agent sees after these actions, (H, W, 3)."""
    env = make_env(task, "background", video_names=(video,), size=84)
    try:
        obs, _ = env.reset(seed=seed)
        for action in actions:
            obs, *_ = env.step(action)
        return obs[-3:].transpose(1, 2, 0)
    finally:
        env.close()


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """Mean absolute difference of pixel values, of 255."""
    return float(np.abs(a.astype(int) - b.astype(int)).mean())


def show(axis: plt.Axes, image: np.ndarray, title: str = "") -> None:
    axis.imshow(image, interpolation="nearest")
    axis.set(xticks=[], yticks=[], title=title)
    axis.grid(False)
    for spine in axis.spines.values():
        spine.set_visible(False)


def problem() -> Figure:
    """Two states before two videos: which pictures are alike?"""
    states = {"state A": np.zeros((3, 1)), "state B": np.concatenate([np.full((9, 1), 1.0), np.full((9, 1), -1.0)])}
    seen = {(name, video): newest_frame(3, video, actions) for name, actions in states.items() for video in VIDEOS[:2]}
    figure, axes = plt.subplots(2, 2, figsize=(4.9, 4.6))
    for row, video in enumerate(VIDEOS[:2]):
        for column, name in enumerate(states):
            show(axes[row, column], seen[name, video], f"{name}, video {row + 1}")
    figure.subplots_adjust(wspace=0.75, hspace=0.75, left=0.02, right=0.98, top=0.93, bottom=0.02)
    across = [difference(seen["state A", v], seen["state B", v]) for v in VIDEOS[:2]]
    down = [difference(seen[name, VIDEOS[0]], seen[name, VIDEOS[1]]) for name in states]
    for row, value in enumerate(across):
        height = axes[row, 0].get_position().y0 + axes[row, 0].get_position().height / 2
        note(figure, 0.5, height, f"pixels differ by {value:.0f}\nanother state", NAVY)
    for column, value in enumerate(down):
        box = axes[0, column].get_position()
        note(figure, box.x0 + box.width / 2, 0.475, f"pixels differ by {value:.0f}\nthe same state", RED)
    return figure


def note(figure: Figure, x: float, y: float, text: str, color: str) -> None:
    figure.text(x, y, text, ha="center", va="center", fontsize=8.5, color=color, weight="bold")


def one_more(mdp: MDP, d: np.ndarray) -> np.ndarray:
    """One step of the iteration whose fixed point is the bisimulation metric."""
    new = np.zeros_like(d)
    for i in range(len(d)):
        for j in range(i):
            parts = [
                (1 - C) * abs(mdp.reward[a, i] - mdp.reward[a, j])
                + C * wasserstein(mdp.transition[a, i], mdp.transition[a, j], d)
                for a in range(len(mdp.reward))
            ]
            new[i, j] = new[j, i] = max(parts)
    return new


def iteration() -> Figure:
    """How far every cell is from the goal, after some steps of the iteration."""
    mdp, steps = make_mdp(), (1, 4, 8, 16)
    d, kept = np.zeros((SIDE * SIDE, SIDE * SIDE)), {}
    for step in range(1, max(steps) + 1):
        d = one_more(mdp, d)
        if step in steps:
            kept[f"after {step} step{'s' * (step > 1)}"] = d[-1]
    kept["the metric"] = bisimulation_metric(mdp, C, tolerance=1e-3)[-1]
    figure, axes = plt.subplots(1, len(kept), figsize=(2.1 * len(kept), 2.5), layout="constrained")
    for axis, (title, values) in zip(axes, kept.items(), strict=True):
        low, high = values[:-1].min(), values[:-1].max()
        axis.imshow(values.reshape(SIDE, SIDE), cmap="Blues", vmin=low - 0.01, vmax=high + 0.03)
        for cell, value in enumerate(values):
            row, column = divmod(cell, SIDE)
            goal = cell == SIDE * SIDE - 1
            dark = not goal and (value - low + 0.01) / (high - low + 0.04) > 0.6
            text = "goal" if goal else f"{value:.2f}"
            axis.text(column, row, text, ha="center", va="center", fontsize=6.5, color="w" if dark else "k")
        axis.set(xticks=[], yticks=[], title=title, frame_on=False)
        axis.grid(False)
    return figure


def proposition() -> Figure:
    """What the metric promises: states that are close have values that are close."""
    mdp = make_mdp()
    d = bisimulation_metric(mdp, C, tolerance=1e-3)
    values, _ = optimal_values(mdp, DISCOUNT)
    i, j = np.triu_indices(len(d), k=1)
    figure, axis = plt.subplots(figsize=(4.6, 3.1), layout="constrained")
    axis.plot(d[i, j], np.abs(values[i] - values[j]), "o", ms=3, color=NAVY, alpha=0.6, mew=0, label="two cells")
    ends = np.array([0, d.max()])
    axis.plot(ends, ends / (1 - C), "--", color=RED, label="bound d / (1 - c)")
    axis.set(xlabel="bisimulation distance d", ylabel="difference of optimal values", ylim=(0, None), xlim=(0, None))
    axis.legend()
    return figure


def latents(updates: int = 1500) -> Figure:
    """The gridworld's pictures in the latent space: before training, and after it with two kinds of batches."""
    torch.set_num_threads(1)
    mdp = make_mdp()
    values = np.tile(optimal_values(mdp, DISCOUNT)[0], BACKGROUNDS)
    exact = bisimulation_metric(mdp, C, tolerance=1e-3)
    reward = np.tile(mdp.reward[0], BACKGROUNDS)
    figure, axes = plt.subplots(1, 4, figsize=(11, 3.0), layout="constrained", width_ratios=(0.4, 1, 1, 1))
    frames = pictures()[:, SIDE * SIDE // 2]
    frames = np.pad(frames, ((0, 0), (0, 0), (0, 2), (0, 0)), constant_values=255).transpose(0, 2, 3, 1)
    show(axes[0], np.concatenate(frames), "one cell before\nthree backgrounds")
    weights = METHODS["CBM"]
    learned = {
        "before training": learn(mdp, weights, seed=0, updates=0),
        "batches from all backgrounds": learn(mdp, weights, 0, updates),
        "batches from one background each": learn(mdp, weights, 0, updates, one_background=True),
    }
    for axis, (title, result) in zip(axes[1:], learned.items(), strict=True):
        z = torch.nn.functional.normalize(result.z, dim=1).numpy()
        z = z - z.mean(axis=0)
        flat = z @ np.linalg.svd(z, full_matrices=False)[2][:2].T
        for background, marker in zip(range(BACKGROUNDS), "os^", strict=True):
            own = slice(background * SIDE * SIDE, (background + 1) * SIDE * SIDE)
            drawn = axis.scatter(
                *flat[own].T, c=values[own], marker=marker, s=26, cmap="viridis", vmin=values.min(), vmax=values.max(),
                edgecolors="k", linewidths=0.3, label=f"background {background + 1}",
            )  # fmt: skip
        found = rank(result.distance(reward), exact, exact)
        axis.set(title=f"{title}\nrank correlation with the exact metric {found.every:.2f}", xticks=[], yticks=[])
        print(f"{title}: {found}")
    axes[1].set(xlabel="first principal component of z", ylabel="second")
    axes[1].legend(loc="best")
    figure.colorbar(drawn, ax=axes, label="optimal value of the cell", pad=0.01)
    return figure


def example_distances(batch: int = 12, prototypes: int = 4) -> torch.Tensor:
    """Observations that crowd around the first of the prototypes, as they do when an agent stands still for long."""
    rng = np.random.default_rng(5)
    places = np.array([[0.0, 0.0], [0.7, 0.15], [0.15, 0.75], [0.8, 0.8]])[:prototypes]
    crowd = rng.normal(0, 0.22, (batch - 3, 2)) + 0.12
    others = places[1:4] + rng.normal(0, 0.16, (3, 2))
    points = np.concatenate([crowd, others])
    return 0.35 * torch.cdist(torch.from_numpy(points), torch.from_numpy(places)).float()


def assignments(axis: plt.Axes, q: torch.Tensor, title: str) -> None:
    """A matrix of codes, with what each prototype gets in all below it."""
    prototypes = q.shape[1]
    axis.imshow(q.numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axis.set(xticks=range(prototypes), xticklabels=[f"{total:.1f}" for total in q.sum(dim=0)], yticks=[], title=title)
    axis.tick_params(length=0)
    axis.grid(False)
    for spine in axis.spines.values():
        spine.set_visible(False)


def sinkhorn_steps() -> Figure:
    """Codes without balance, and how Sinkhorn brings it about."""
    distance, epsilon = example_distances(), 0.05
    shown = {
        "softmax alone": torch.softmax(-distance / epsilon, dim=1),
        "Sinkhorn, 1 iteration": sinkhorn(-distance, epsilon, 1),
        "3 iterations (ours)": sinkhorn(-distance, epsilon, 3),
        "100 iterations": sinkhorn(-distance, epsilon, 100),
    }
    figure, axes = plt.subplots(1, len(shown), figsize=(8.6, 3.1), layout="constrained")
    for axis, (title, q) in zip(axes, shown.items(), strict=True):
        assignments(axis, q, title)
    axes[0].set(ylabel="12 observations", xlabel="what each of 4 prototypes gets")
    return figure


def sinkhorn_epsilon() -> Figure:
    """The same codes with other values of epsilon."""
    distance = example_distances()
    figure, axes = plt.subplots(1, 3, figsize=(6.6, 3.1), layout="constrained")
    for axis, epsilon in zip(axes, (0.01, 0.05, 0.5), strict=True):
        assignments(axis, sinkhorn(-distance, epsilon, 100), f"ε = {epsilon}")
    axes[0].set(ylabel="12 observations")
    return figure


def batches() -> Figure:
    """A batch from many episodes and one from two; and what it pays to know the episode alone."""
    rng = np.random.default_rng(0)
    figure = plt.figure(figsize=(9.6, 2.7), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(2.2, 1))
    axes = left.subplots(2, 6)
    for row, (episodes, title) in enumerate(((6, "six episodes"), (2, "two episodes"))):
        for column in range(6):
            episode = column % episodes
            actions = rng.uniform(-1, 1, (int(rng.integers(2, 13)), 1))
            show(axes[row, column], newest_frame(10 + episode, VIDEOS[episode % len(VIDEOS)], actions))
        axes[row, 0].set_ylabel(title)
    left.suptitle("six pictures of a batch, taken from", fontsize=9)
    batch, axis = 64, right.subplots()
    counts = [1, 2, 4, 8, 16, 32, 64]
    found = []
    for count in counts:
        episode = torch.arange(batch) % count
        code = torch.nn.functional.one_hot(episode, batch).float()  # a latent that holds the episode and nothing else
        found.append(float(info_nce(code, code, temperature=0.1)[0]))
    axis.plot(counts, found, **STYLES[0].line())
    axis.axhline(np.log(batch), color=STYLES[7].color, linestyle=":", label="knowing nothing: log 64")
    axis.set(xscale="log", xticks=counts, xticklabels=counts, ylim=(0, None))
    axis.minorticks_off()
    axis.set(xlabel="episodes in a batch of 64", ylabel="dynamics loss")
    axis.set_title("a latent that knows its episode,\nand nothing about the state")
    axis.legend(loc="lower left")
    return figure


FIGURES = {
    "problem": problem,
    "iteration": iteration,
    "proposition": proposition,
    "latents": latents,
    "sinkhorn": sinkhorn_steps,
    "epsilon": sinkhorn_epsilon,
    "batches": batches,
}


def draw(names: list[str], folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in names:
        figure = FIGURES[name]()
        written.append(folder / f"{name}.png")
        figure.savefig(written[-1], metadata={"Software": None})
        plt.close(figure)
    return written


if __name__ == "__main__":
    unknown = set(sys.argv[1:]) - set(FIGURES)
    if unknown:
        sys.exit(f"no figure {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    for path in draw(sys.argv[1:] or list(FIGURES), FOLDER):
        print(path)
