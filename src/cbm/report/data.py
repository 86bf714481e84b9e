"""A run as numbers for the page: curves, metrics, analyses and settings. Rounded, and averaged where dense."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from cbm import __version__
from cbm.analysis.published import PUBLISHED
from cbm.runs.read import Line, Problem, Run, is_number
from cbm.schema.tree import flatten

POINTS = 100  # per training metric, over the whole length of a run
_COUNTERS = frozenset({"env_step", "agent_step", "updates", "episode", "episode_length"})

# What the page says about a measure that it knows; others are shown under their own names.
MEASURES: dict[str, tuple[str, str]] = {
    "ch_index": (
        "CH index of physical states",
        "Calinski-Harabasz index of physical states in the agent's clusters. High if each cluster is one behaviour.",
    ),
    "ch_index_standardised": (
        "CH index, standardised states",
        "The same, with every component of the state scaled to unit variance.",
    ),
    "background_accuracy": (
        "background read from z",
        "Held-out accuracy of a linear probe that guesses the background from the latent. At chance, none is left.",
    ),
    "state_r2": (
        "physical state read from z (R²)",
        "Held-out R² of a linear probe that predicts the physical state from the latent. At 1, all of it is there.",
    ),
    "distraction_ratio": (
        "distraction ratio",
        "How far a change of background moves the latent, relative to distances between states. 0: not at all.",
    ),
    "same_cluster": (
        "same cluster in front of another background",
        "How often two pictures of one moment with different backgrounds fall into the same cluster.",
    ),
    "clusters_used": ("clusters in use", "Clusters with at least one observation of the probe."),
    "usage_entropy": ("entropy of cluster usage (nats)", "Entropy of the clusters' shares of observations."),
    "p_entropy": ("entropy of the predicted assignment (nats)", "Mean over observations."),
    "episode_return": ("return of training episodes", "With exploration; mean over the episodes of an interval."),
    "loss/critic": ("critic loss", "Temporal-difference error, summed over the two critics."),
    "loss/actor": ("actor loss", ""),
    "loss/dynamics": ("dynamics loss", "Contrastive loss of the transition model, L_P."),
    "loss/cluster": ("cluster loss", "Cross entropy of predicted and target assignments, L_CBM."),
    "z/std": ("spread of latents", "Standard deviation of a latent coordinate over the batch. Near 0 means collapse."),
    "cbm/prototypes_used": ("prototypes in use", "exp of the entropy of the mean assignment."),
    "cbm/agreement": (
        "predicted = target assignment",
        "Share of the batch whose nearest prototype is the same in both.",
    ),
    "cbm/p_entropy": ("entropy of predicted assignment (nats)", ""),
    "cbm/q_entropy": ("entropy of target assignment (nats)", ""),
}
_REFERENCES = {"background_accuracy": "background_chance", "same_cluster": "same_cluster_chance"}  # drawn next to it


def page_data(title: str, runs: Sequence[dict[str, Any]], problems: Iterable[Problem], live: bool) -> dict[str, Any]:
    """Everything that the page shows; `runs` come from `run_data`, with labels and media."""
    return {
        "title": title,
        "version": __version__,
        "made": None if live else datetime.now(UTC).isoformat(timespec="seconds"),  # live data change with the runs
        "live": live,
        "runs": runs,
        "problems": [{"path": str(problem.path), "what": problem.what} for problem in problems],
        "measures": {name: {"label": label, "help": text} for name, (label, text) in MEASURES.items()},
        "references": _REFERENCES,
        "published": [entry._asdict() for entry in PUBLISHED],
    }


def run_data(run: Run) -> dict[str, Any]:
    """One run, without its labels and its media."""
    width = max(1, math.ceil(run.total_steps / POINTS))
    return {
        "id": run_id(run),
        "name": run.name,
        "path": str(run.path),
        "agent": run.agent,
        "task": run.task,
        "seed": run.seed,
        "step": run.env_step,
        "total": run.total_steps,
        "state": run.status.state,
        "reason": run.status.reason,
        "returns": {split: _returns(run, split) for split in run.splits},
        "random": _mean(run.random_returns),
        "series": [
            *_series(run.analysis, None),
            *_series([line for line in run.metrics if "updates" in line], width),
            *_series([line for line in run.metrics if "episode_return" in line], width),
        ],
        "clusters": next((f"{line['clusters']}" for line in run.analysis if "clusters" in line), None),
        "config": flatten(run.config),
        "provenance": flatten(run.provenance),
    }


def run_id(run: Run) -> str:
    """A name for a run that stays the same as long as its directory is not moved."""
    return hashlib.sha256(str(run.path.resolve()).encode()).hexdigest()[:12]


def final_return(run: Mapping[str, Any]) -> float:
    """The last mean return, on unseen videos if any were played; minus infinity before the first evaluation."""
    found = run["returns"].get("unseen") or run["returns"].get("train")
    return found["mean"][-1] if found else -math.inf


def _returns(run: Run, split: str) -> dict[str, list[Any]]:
    steps, means = run.curve(split)
    return {"steps": steps, "mean": [rounded(mean) for mean in means]}


def _series(lines: Sequence[Line], width: int | None) -> list[dict[str, Any]]:
    """Every number in the lines over environment steps; with `width`, means over intervals of that many steps.

    Intervals always start at step 0, so runs of equal length have their points at the same steps.
    """
    bins: dict[int, list[Line]] = defaultdict(list)
    for line in lines:
        step = line["env_step"]
        bins[step if width is None else math.ceil(step / width) * width].append(line)
    names = {key: None for line in lines for key, value in line.items() if key not in _COUNTERS and is_number(value)}
    if not names:
        return []
    steps = sorted(bins)
    values = {
        name: [rounded(_mean([line[name] for line in bins[step] if is_number(line.get(name))])) for step in steps]
        for name in names
    }
    return [{"steps": steps, "values": values}]


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def rounded(value: object, digits: int = 5) -> float | int | None:
    """`digits` significant digits: five are more than a screen shows. None if it is not a number."""
    if not is_number(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
