"""Learning curves: evaluation returns over environment steps, runs of one setting drawn together."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from cbm.errors import CBMError
from cbm.logs import read_lines
from cbm.run_dir import open_existing

STYLES = ("-", "--", "-.", ":")  # told apart in grey, too


@dataclass(frozen=True)
class Curve:
    """One run: its setting, and the mean return of each evaluation."""

    run: Path
    setting: str  # what runs must have in common to be averaged
    seed: int
    env_steps: np.ndarray  # (E,)
    returns: dict[str, np.ndarray]  # split of the videos -> (E,)
    random_returns: np.ndarray  # episodes of the seed steps, which are played by uniformly random actions


def read_curve(directory: Path) -> Curve:
    """The curve of a run directory, finished or not."""
    run = open_existing(directory)
    config = json.loads(run.config.read_text())
    evals = read_lines(run.evals)
    if not evals:
        raise CBMError(f"{directory} has no evaluation yet.")
    env = config["env"]
    task = env["task"] if env["env_id"] is None else env["env_id"]
    seed_steps = config["training"]["seed_steps"]
    episodes = [line for line in read_lines(run.metrics) if "episode_return" in line]
    return Curve(
        run=directory,
        setting=f"{config['agent_name']}, {task}, {env['distraction']}, {config['preset']}",
        seed=config["seed"],
        env_steps=np.array([line["env_step"] for line in evals]),
        returns={
            split: np.array([line[split]["mean"] for line in evals])
            for split in ("train", "unseen")
            if split in evals[0]
        },
        random_returns=np.array([line["episode_return"] for line in episodes if line["env_step"] <= seed_steps]),
    )


def draw_curves(curves: list[Curve], path: Path) -> list[Path]:
    """Draw them, a colour per setting and a panel per set of videos; the numbers go to a .csv beside it.

    Thin lines are seeds, the thick one is their mean, where all of them have been evaluated.
    """
    if not curves:
        raise CBMError("no runs to draw.")
    splits = [split for split in ("train", "unseen") if any(split in curve.returns for curve in curves)]
    settings = sorted({curve.setting for curve in curves})
    figure, axes = plt.subplots(1, len(splits), figsize=(5.2 * len(splits), 3.6), sharey=True, squeeze=False)
    for axis, split in zip(axes[0], splits, strict=True):
        for index, setting in enumerate(settings):
            group = [curve for curve in curves if curve.setting == setting and split in curve.returns]
            colour, style = f"C{index}", STYLES[index % len(STYLES)]
            for curve in group:
                axis.plot(curve.env_steps / 1000, curve.returns[split], color=colour, alpha=0.35, lw=0.8, ls=style)
            steps, mean = mean_curve(group, split)
            axis.plot(steps / 1000, mean, color=colour, lw=2, ls=style, label=f"{setting} (n={len(group)})")
        chance = np.concatenate([curve.random_returns for curve in curves])
        if len(chance):
            axis.axhline(chance.mean(), color="0.5", lw=1, label=f"random actions ({len(chance)} episodes)")
        axis.set_title(f"{split} videos" if len(splits) > 1 else "evaluation")
        axis.set_xlabel("environment steps (thousands)")
        axis.set_ylim(bottom=0, top=1.1 * axis.get_ylim()[1])
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("mean return of an evaluation")
    axes[0][0].legend(fontsize=7, loc="lower right")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    numbers = path.with_suffix(".csv")
    _write_csv(curves, numbers)
    return [path, numbers]


def mean_curve(group: list[Curve], split: str) -> tuple[np.ndarray, np.ndarray]:
    """The mean over runs at the steps that all of them have reached."""
    if not group:
        return np.empty(0), np.empty(0)
    values: dict[int, list[float]] = defaultdict(list)
    for curve in group:
        for step, value in zip(curve.env_steps.tolist(), curve.returns[split].tolist(), strict=True):
            values[step].append(value)
    steps = sorted(step for step, found in values.items() if len(found) == len(group))
    return np.array(steps), np.array([np.mean(values[step]) for step in steps])


def _write_csv(curves: list[Curve], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["run", "setting", "seed", "split", "env_step", "return"])
        for curve in curves:
            for split, returns in curve.returns.items():
                for step, value in zip(curve.env_steps.tolist(), returns.tolist(), strict=True):
                    writer.writerow([curve.run.name, curve.setting, curve.seed, split, step, f"{value:.3f}"])
