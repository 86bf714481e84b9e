"""t-SNE of encodings and prototypes, coloured by the agent's value estimate and by background."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from cbm.analysis.figures.style import plt, save, style
from cbm.analysis.probing.subject import Subject
from cbm.config.build import one_thread
from cbm.envs.rendering.pictures import picture_grid
from cbm.system.files import write_whole

OBSERVATIONS = 400  # about this many are embedded, always whole moments
THUMBNAIL = 48


def embed(subject: Subject) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which of the probe's observations were embedded (n,), their places (n, 2), and those of the prototypes (K, 2)."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    chosen = choose(subject.probe.moment, OBSERVATIONS)
    z, space = subject.z[torch.from_numpy(chosen)], subject.space
    points = z if space is None else torch.cat([F.normalize(z, dim=1), F.normalize(space.points, dim=1)])
    with one_thread(), threadpool_limits(1):
        perplexity = min(30.0, (len(points) - 1) / 3)
        model = TSNE(init="pca", perplexity=perplexity, random_state=0)
        placed = model.fit_transform(points.numpy().astype(np.float64))
    return chosen, placed[: len(chosen)], placed[len(chosen) :]


def choose(moment: np.ndarray, count: int) -> np.ndarray:
    """Some of the observations: either all or none of each moment."""
    moments = np.unique(moment)
    most = max(1, count * len(moments) // len(moment))
    drawn = np.random.default_rng(0).permutation(moments)[:most]
    return np.flatnonzero(np.isin(moment, drawn))


def draw_tsne(subject: Subject, folder: Path) -> list[Path]:
    """Draw `tsne` in two panels, and `tsne_frames.png`, a sheet with the frame of each observation."""
    chosen, xy, prototypes = embed(subject)
    probe = subject.probe.take(chosen)
    value = subject.value[chosen]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 5.0))
    shown = left.scatter(*xy.T, c=value, s=14, cmap="viridis", linewidths=0)
    figure.colorbar(shown, ax=left, label="value that the agent gives to the state", shrink=0.8)
    kinds, title = probe.background, "by background"
    if len(probe.backgrounds) < 2:
        kinds, title = np.where(probe.by_agent, "agent", "random actions").astype(object), "by who got there"
    for index, name in enumerate(sorted(set(kinds))):
        own, look = kinds == name, style(index)
        right.scatter(*xy[own].T, s=16, color=look.color, marker=look.marker, label=name, linewidths=0, alpha=0.8)
    for axis in (left, right):
        if len(prototypes):
            size = min(26.0, 3300.0 / len(prototypes))  # Proto-RL's 512 would hide the encodings
            axis.scatter(
                *prototypes.T, s=size, c="red", marker="*", edgecolors="black", linewidths=size / 65, label="prototype"
            )
        axis.set(xticks=[], yticks=[])
        axis.grid(False)
    left.set_title("by value")
    right.set_title(f"{title}{_in_numbers(subject.findings)}")
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=5)
    figure.suptitle(f"t-SNE of {len(chosen)} encodings: {subject.title}", fontsize=10)
    figure.tight_layout()
    header = ("kind", "x", "y", "value", "background", "step", "frame", "episode", "to_go", "by")
    actors = np.where(probe.by_agent, "agent", "random actions")
    columns = (xy[:, 0], xy[:, 1], value, probe.background, probe.step, np.arange(len(chosen)), probe.episode)
    cells = zip(*(column.tolist() for column in (*columns, probe.to_go, actors)), strict=True)
    rows: list[tuple[object, ...]] = [("observation", *row) for row in cells]
    rows += [("prototype", *map(float, point), *[None] * 7) for point in prototypes]
    written = save(figure, folder, "tsne", header, rows)
    return written + write_sheet(newest_frames(probe.obs), folder / "tsne_frames.png")


def newest_frames(obs: np.ndarray) -> np.ndarray:
    """The newest frame of stacked observations (N, C, H, W), as pictures (N, H, W, 3)."""
    return obs[:, -3:].transpose(0, 2, 3, 1)


def write_sheet(frames: np.ndarray, path: Path, side: int = THUMBNAIL, columns: int = 20) -> list[Path]:
    """Small pictures row by row on one sheet, and a .json that describes the layout."""
    sheet = picture_grid(list(frames), columns, (side, side), Image.Resampling.BOX)
    output = io.BytesIO()
    sheet.save(output, "PNG", optimize=True)
    write_whole(path, output.getvalue(), path.parent)
    layout = {"width": side, "height": side, "columns": min(columns, len(frames)), "count": len(frames)}
    write_whole(path.with_suffix(".json"), (json.dumps(layout) + "\n").encode(), path.parent)
    return [path, path.with_suffix(".json")]


def _in_numbers(findings: dict[str, Any]) -> str:
    """What the figure should show, as numbers."""
    parts = []
    if findings.get("background_accuracy") is not None:
        accuracy, chance = findings["background_accuracy"], findings["background_chance"]
        parts.append(f"background from z: {accuracy:.0%} right (chance {chance:.0%})")
    if findings.get("state_r2") is not None:
        parts.append(f"state from z: $R^2$ = {findings['state_r2']:.2f}")
    return "\n" + "; ".join(parts) if parts else ""
