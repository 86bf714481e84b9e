"""Returns on videos that the agent never saw, next to the paper's table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cbm.analysis.figures.style import plt, save, style, thousands
from cbm.analysis.published import published
from cbm.evaluation.evaluate import evaluate
from cbm.runs.read import Run

EPISODES = 50  # as in the paper


@dataclass(frozen=True)
class Generalization:
    """One run's returns on both sets of videos."""

    run: Run
    env_step: int
    returns: dict[str, list[float]]  # split -> episodes
    different_videos: int  # how many unseen videos were shown


def play_unseen(run: Run, episodes: int = EPISODES) -> Generalization:
    """Play `episodes` on unseen videos with the newest checkpoint; with 0, take those of the last evaluation.

    The returns on training videos are those of the last evaluation.
    """
    last = run.evals[-1]
    returns = {"train": list(last["train"].get("returns", [last["train"]["mean"]]))}
    env_step, own = last["env_step"], last["unseen"]
    if episodes:
        own = evaluate(run.path, episodes, "unseen")
        env_step = own["env_step"]
    returns["unseen"] = list(own.get("returns", [own["mean"]]))
    return Generalization(run, env_step, returns, len(set(own.get("backgrounds", []))))


def draw_generalization(tested: Sequence[Generalization], folder: Path) -> list[Path]:
    """One panel per task; ours with the spread over episodes (one run) or seeds (several), next to the paper's."""
    places: dict[tuple[str, str], dict[str, list[Generalization]]] = defaultdict(lambda: defaultdict(list))
    for each in tested:
        places[each.run.task, each.run.distraction][each.run.agent].append(each)
    tallest = max(len(methods) + len(published(*place)) for place, methods in places.items())
    figure, axes = plt.subplots(
        1, len(places), figsize=(6.4 * len(places), 0.55 * tallest + 1.6), squeeze=False, layout="constrained"
    )
    rows: list[list[object]] = []
    for axis, ((task, distraction), methods) in zip(axes[0], places.items(), strict=True):
        names = []
        for index, (agent, own) in enumerate(methods.items()):
            steps = "/".join(dict.fromkeys(thousands(each.env_step) for each in own))
            names.append(f"{agent}, ours\n{len(own)} seed{'s' * (len(own) > 1)}, {steps} steps")
            for split, aside, filled in (("train", -0.14, False), ("unseen", 0.14, True)):
                mean, std, over = spread([each.returns[split] for each in own])
                look = style(index)
                face = look.color if filled else "white"
                axis.errorbar(mean, index + aside, xerr=std, fmt=look.marker, color=look.color, mfc=face, ms=6, lw=1.2)
                count = sum(len(each.returns[split]) for each in own)
                videos = max(each.different_videos for each in own) if split == "unseen" else None
                rows.append(["ours", agent, task, distraction, split, mean, std, over, len(own), count, videos, steps])
        offset = len(names)
        for index, entry in enumerate(published(task, distraction)):
            face = "0.45" if entry.split == "unseen" else "white"
            axis.errorbar(entry.mean, offset + index, xerr=entry.std, fmt="s", color="0.45", mfc=face, ms=5, lw=1.2)
            source = "DCS authors" if "(DCS)" in entry.source else "paper"
            names.append(f"{entry.agent}, {source}\n5 seeds, 500K steps")
            numbers = [entry.split, entry.mean, entry.std, "seeds", 5, None, None, "500K"]
            rows.append(["paper", entry.agent, task, distraction, *numbers])
        axis.set_yticks(range(len(names)), names)
        axis.set_ylim(len(names) - 0.4, -0.6)
        axis.set_xlim(left=0)
        axis.set_xlabel("return; bars: standard deviation over seeds, over episodes if there is one seed")
        axis.set_title(f"{task}, {distraction}. Filled: unseen videos, hollow: training videos")
    header = ("source", "agent", "task", "distraction", "split", "mean", "std", "std_over", "seeds", "episodes")
    return save(figure, folder, "generalization", (*header, "different_videos", "env_steps"), rows)


def spread(returns: Sequence[Sequence[float]]) -> tuple[float, float, str]:
    """Mean, standard deviation (over runs, or over the episodes of a single one), and which of the two it is."""
    means = [float(np.mean(own)) for own in returns]
    if len(means) > 1:
        return float(np.mean(means)), float(np.std(means, ddof=1)), "seeds"
    return means[0], float(np.std(returns[0])), "episodes"
