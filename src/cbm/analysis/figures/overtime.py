"""Figures over training: CH index, linear probes, assignments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cbm.analysis.figures.style import plt, save, style
from cbm.analysis.probing.subject import Subject, names
from cbm.runs.read import is_number

_FEW = 6  # names that fit into a legend inside the axes


def lines_of(subject: Subject) -> list[dict[str, Any]]:
    """The lines of analysis.jsonl, plus one for the newest checkpoint if it is not among them."""
    lines = [dict(line) for line in subject.run.analysis if line["env_step"] != subject.env_step]
    return sorted([*lines, {"env_step": subject.env_step, **subject.findings}], key=lambda line: line["env_step"])


def _series(lines: list[dict[str, Any]], key: str) -> tuple[np.ndarray, np.ndarray]:
    own = [(line["env_step"], line[key]) for line in lines if is_number(line.get(key))]
    return np.array([step for step, _ in own]) / 1000, np.array([value for _, value in own], float)


def _title(subjects: Sequence[Subject]) -> str:
    return "; ".join(dict.fromkeys(f"{each.run.task}, {each.run.distraction}" for each in subjects))


def _longest(subjects: Sequence[Subject]) -> float:
    """Where the axis of environment steps ends, in thousands."""
    return 1.04 * max(subject.env_step for subject in subjects) / 1000 or 1.0


def draw_ch_index(subjects: Sequence[Subject], folder: Path) -> list[Path]:
    """CH index of the physical states in the clusters of each agent, over training."""
    figure, axis = plt.subplots(figsize=(6.4, 3.8))
    keys = ("clusters", "k", "clusters_used", "observations", "ch_index", "ch_index_standardised")
    rows = []
    for index, (subject, name) in enumerate(zip(subjects, names(subjects), strict=True)):
        lines = lines_of(subject)
        label = f"{name}: {subject.clusters.describe()}, {len(subject.probe)} observations"
        axis.plot(*_series(lines, "ch_index"), label=label, **style(index).line())
        named = [subject.run.name, subject.run.agent, subject.run.task, subject.run.seed]
        rows += [[*named, line["env_step"], *map(line.get, keys)] for line in lines]
    axis.set(xlabel="environment steps (thousands)", ylabel="CH index of physical states")
    axis.set_xlim(0, _longest(subjects))
    axis.set_ylim(0, 1.1 * max((row[-2] for row in rows if row[-2] is not None), default=1.0))
    axis.set_title(f"{_title(subjects)}\nhigher is better")
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2))
    return save(figure, folder, "ch_index", ("run", "agent", "task", "seed", "env_step", *keys), rows)


_PROBES = (
    ("background_accuracy", "accuracy", "background from z (lower is better)"),
    ("state_r2", "$R^2$", "physical state from z (higher is better)"),
    ("distraction_ratio", "ratio of squared distances", "how far the background moves z (lower is better)"),
)


def draw_probes(subjects: Sequence[Subject], folder: Path) -> list[Path]:
    """What linear probes predict from the latents, over training. Without videos, there is no background to read."""
    shown = [each for each in _PROBES if any(subject.findings[each[0]] is not None for subject in subjects)]
    shown = shown or [each for each in _PROBES if each[0] == "state_r2"]
    figure, axes = plt.subplots(1, len(shown), figsize=(max(4.4 * len(shown), 5.2), 3.6), squeeze=False)
    for axis, (key, unit, title) in zip(axes[0], shown, strict=True):
        for index, (subject, name) in enumerate(zip(subjects, names(subjects), strict=True)):
            steps, values = _series(lines_of(subject), key)
            if len(steps):
                axis.plot(steps, values, label=name, **style(index).line())
        axis.set(xlabel="environment steps (thousands)", ylabel=unit, title=title)
        axis.set_xlim(0, _longest(subjects))
        if not axis.lines:
            axis.text(0.5, 0.5, "no physical state in these runs", ha="center", transform=axis.transAxes)
            axis.set_yticks([])
        elif key == "background_accuracy":
            for chance in sorted({each.findings["background_chance"] for each in subjects} - {None}):
                axis.axhline(chance, color="0.5", lw=1, label=f"chance ({chance:.0%})")
            axis.set_ylim(0, 1.03)
        elif key == "state_r2":
            axis.set_ylim(min(0.0, axis.get_ylim()[0]), 1.03)
        else:
            axis.set_ylim(0, max(1.03, axis.get_ylim()[1]))
    figure.suptitle(_title(subjects), fontsize=9)
    figure.tight_layout()
    entries = axes[0][0].get_legend_handles_labels()
    if len(entries[0]) > _FEW:
        axes[0][-1].legend(*entries, loc="center left", bbox_to_anchor=(1.02, 0.5))
    elif entries[0]:
        axes[0][0].legend(*entries, loc="best")
    keys = ("background_accuracy", "background_chance", "state_r2", "distraction_ratio", "same_cluster")
    table = [
        [subject.run.name, subject.run.agent, subject.run.seed, line["env_step"], *map(line.get, keys)]
        for subject in subjects
        for line in lines_of(subject)
    ]
    return save(figure, folder, "probes", ("run", "agent", "seed", "env_step", *keys), table)


def draw_assignments(subject: Subject, folder: Path) -> list[Path]:
    """Predicted against target assignments over training, and how often each prototype is the nearest one now."""
    metrics = [dict(line) for line in subject.run.metrics]
    entropies = (key for line in metrics for key in line if key.endswith("/p_entropy"))
    owner = next(entropies, "cbm/p_entropy").removesuffix("/p_entropy")  # the objective's name in its metrics
    figure, axes = plt.subplots(1, 4, figsize=(15.6, 3.4))
    keys = ("p_entropy", "q_entropy", "prototypes_used", "agreement")
    plain = {"marker": ""}
    for index, (key, label) in enumerate((("p_entropy", "predicted"), ("q_entropy", "target"))):
        axes[0].plot(*_series(metrics, f"{owner}/{key}"), label=label, **style(index).line() | plain)
    k = subject.clusters.k
    axes[0].axhline(np.log(k), color="0.5", lw=1, label=f"uniform: log {k}")
    axes[0].set(ylabel="nats", title="entropy of an assignment")
    axes[0].legend()
    axes[1].plot(*_series(metrics, f"{owner}/prototypes_used"), **style(0).line() | plain)
    axes[1].axhline(k, color="0.5", lw=1)
    axes[1].set(ylabel="prototypes", title=f"prototypes in use (effective number, of {k})", ylim=(0, 1.05 * k))
    axes[2].plot(*_series(metrics, f"{owner}/agreement"), **style(0).line() | plain)
    axes[2].set(ylabel="share of the batch", title="predicted and target agree on the likeliest", ylim=(0, 1.03))
    for axis in axes[:3]:
        axis.set_xlabel("environment steps (thousands)")
    usage, p = np.sort(subject.clusters.usage())[::-1], subject.clusters.p
    axes[3].bar(range(1, k + 1), usage, color="0.55", width=1.0, label="nearest")
    if p is not None:
        axes[3].plot(range(1, k + 1), np.sort(p.mean(axis=0))[::-1], label="mean prediction", **style(0).line() | plain)
    axes[3].axhline(1 / k, color="0.3", lw=1, ls=":", label="equal shares")
    axes[3].set(xlabel="prototypes, most used first", ylabel="share of observations", title="usage now, on the probe")
    axes[3].legend()
    figure.suptitle(f"assignments: {subject.title}", fontsize=9)
    figure.tight_layout()
    over_time = [
        ["training", line["env_step"], None, *(line.get(f"{owner}/{key}") for key in keys), None]
        for line in metrics
        if f"{owner}/p_entropy" in line
    ]
    now = [
        ["now", subject.env_step, index, None, None, None, None, float(share)]
        for index, share in enumerate(subject.clusters.usage())
    ]
    return save(figure, folder, "assignments", ("part", "env_step", "prototype", *keys, "share"), [*over_time, *now])
