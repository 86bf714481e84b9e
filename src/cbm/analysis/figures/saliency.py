"""Where the encoder looks: how far the latent moves when a place of the picture is blurred.

After Greydanus et al., "Visualizing and Understanding Atari Agents" (ICML 2018). At each place of a grid, the picture
is mixed with a blurred copy of itself under a Gaussian window, in all stacked frames at once. The squared distance
between the two latents says how much that place matters. Only `encode` is needed, so this works for every agent. Maps
are normalised to sum to 1, because latents of different agents have different scales.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
import torch
import torch.nn.functional as F
from scipy.ndimage import distance_transform_edt, gaussian_filter

from cbm.analysis.figures.embedding import newest_frames
from cbm.analysis.figures.style import plt, save
from cbm.analysis.probing.measures import in_batches
from cbm.analysis.probing.probe import Probe
from cbm.analysis.probing.subject import Subject, names
from cbm.config.build import one_thread

STRIDE = 4  # pixels between two places
WIDTH = 3.0  # of the window, and of the blur inside it, in pixels
MOMENTS = 4
UNTOUCHED = 12  # of 255: a pixel that changes less than this between videos is not background


def saliency(encode: Callable[[np.ndarray], torch.Tensor], obs: np.ndarray) -> np.ndarray:
    """A map (H, W) that sums to 1 for an observation uint8 (C, H, W); all zeros if nothing matters."""
    _, height, width = obs.shape
    blurred = gaussian_filter(obs.astype(np.float32), (0, WIDTH, WIDTH))
    rows, columns = (np.arange(STRIDE // 2, side, STRIDE) for side in (height, width))
    y, x = np.mgrid[:height, :width]
    changed = []
    for row in rows:
        for column in columns:
            window = np.exp(-((y - row) ** 2 + (x - column) ** 2) / (2 * WIDTH**2))
            changed.append((obs + (blurred - obs) * window).round().astype(np.uint8))
    z = in_batches(encode, np.stack([obs, *changed]))
    distance = (z[1:] - z[:1]).square().sum(dim=1).reshape(1, 1, len(rows), len(columns))
    smooth = F.interpolate(distance, (height, width), mode="bilinear", align_corners=False)[0, 0].numpy()
    total = float(smooth.sum())
    return smooth / total if total > 0 else np.zeros_like(smooth)


def untouched(probe: Probe, moment: int) -> np.ndarray | None:
    """The pixels (H, W) of a moment that no background changes (robot and opaque ground), with a margin of `WIDTH`.

    A map is no sharper than its window, so a thin pole would get little of its own saliency without the margin.
    """
    pictures = probe.obs[probe.moment == moment][:, -3:].astype(int)
    if len(pictures) < 2:
        return None
    still = (pictures.max(axis=0) - pictures.min(axis=0)).max(axis=0) < UNTOUCHED
    return distance_transform_edt(~still) <= WIDTH if still.any() else still


def choose_moments(probe: Probe) -> list[int]:
    """Evenly spread moments of the episodes that the agent played."""
    moments = np.unique(probe.moment[probe.by_agent])
    return [int(moments[i]) for i in np.linspace(0, len(moments) - 1, MOMENTS + 2).round().astype(int)[1:-1]]


def draw_saliency(subjects: Sequence[Subject], folder: Path) -> list[Path]:
    """Distracted frames, and next to each where the encoders look. All are shown the frames of the run with the most
    backgrounds."""
    host = max(subjects, key=lambda subject: len(subject.probe.backgrounds))  # the first, if several have as many
    probe = host.probe
    moments = choose_moments(probe)
    figure, axes = plt.subplots(
        len(moments), 1 + len(subjects), figsize=(2.3 * (1 + len(subjects)), 2.25 * len(moments) + 0.7), squeeze=False
    )
    rows, areas, shares = [], [], np.full((len(moments), len(subjects)), np.nan)
    for index, moment in enumerate(moments):
        seen = np.flatnonzero(probe.moment == moment)
        seen = seen[np.argsort(probe.background[seen].astype(str))]
        at = seen[index % len(seen)]  # another background in each row
        frame, still = newest_frames(probe.obs[at][None])[0], untouched(probe, moment)
        area = None if still is None else float(still.mean())
        areas += [] if area is None else [area]
        _show(axes[index][0], frame, None)
        axes[index][0].set_ylabel(f"{probe.background[at]}, step {probe.step[at]}", fontsize=7)
        for column, subject in enumerate(subjects):
            with one_thread():
                found = saliency(subject.agent.encode, probe.obs[at])
            share = None if still is None else float(found[still].sum())
            shares[index, column] = np.nan if share is None else share
            _show(axes[index][1 + column], np.sqrt(found), still)
            rows.append([subject.run.name, subject.run.agent, moment, probe.background[at], share, area])
    axes[0][0].set_title("what is seen", fontsize=8)
    for column, name in enumerate(names(subjects)):
        text = fill(name, 28)
        if not np.isnan(shares).all():
            text += f"\n{np.nanmean(shares[:, column]):.0%} of it within the outline"
        axes[0][1 + column].set_title(text, fontsize=8)
    note = "Brighter: the latent moves more when that place is blurred"
    if areas:
        note += f"\nOutline: what the video does not change, {np.mean(areas):.0%} of the area"
    figure.suptitle(f"{note}\nframes: {host.title}", fontsize=8)
    figure.tight_layout()
    header = ("run", "agent", "moment", "background", "share_in_outline", "area_of_outline")
    return save(figure, folder, "saliency", header, rows)


def _show(axis: plt.Axes, picture: np.ndarray, outline: np.ndarray | None) -> None:
    axis.imshow(picture, cmap=None if picture.ndim == 3 else "inferno", interpolation="nearest")
    if outline is not None and outline.any() and not outline.all():
        axis.contour(outline, levels=[0.5], colors="white", linewidths=0.7)
    axis.set(xticks=[], yticks=[], frame_on=False)
    axis.grid(False)
