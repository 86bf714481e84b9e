"""The paper's galleries: the observations nearest to each prototype."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cbm.analysis.figures.embedding import newest_frames
from cbm.analysis.figures.style import plt, save
from cbm.analysis.probing.measures import in_batches
from cbm.analysis.probing.subject import Subject
from cbm.config.build import one_thread
from cbm.errors import CBMError
from cbm.replay import Replay
from cbm.runs.directory import RunDir

FIRST, NEIGHBOURS = 4, 3  # prototypes, and observations of each, as in the paper's appendix
SAMPLE = 2000  # observations among which neighbours are searched
_GAP = 3  # pixels


def observations(subject: Subject) -> tuple[np.ndarray, str]:
    """Observations (N, C, H, W), and their source, which is the run's replay as in the paper.

    If replay was removed, the probe is used instead, with one background per moment.
    """
    directory = RunDir(subject.run.path).replay
    if subject.replay is not None and (directory / "replay.json").exists():
        try:
            replay = Replay.open(directory, subject.replay, writable=False)
            every = replay.indices()
            index = np.sort(np.random.default_rng(0).choice(every, min(SAMPLE, len(every)), replace=False))
            return replay.observations(index).numpy(), "replay"
        except (CBMError, OSError, ValueError):  # a running run has overwritten the oldest frames
            pass
    _, first = np.unique(subject.probe.moment, return_index=True)
    return subject.probe.obs[first], "probe"


def nearest(subject: Subject, count: int | None = FIRST) -> tuple[list[list[tuple[int, float]]], np.ndarray, str]:
    """For each prototype a list of (row, similarity); the observations that the rows refer to; and their source."""
    assert subject.space is not None
    obs, source = observations(subject)
    with one_thread():
        z = in_batches(subject.agent.encode, obs)
    similarity = subject.space.similarity(z).T[:count]  # (prototypes, N)
    best = similarity.topk(min(NEIGHBOURS, len(obs)), dim=1)
    rows = [list(zip(i.tolist(), s.tolist(), strict=True)) for i, s in zip(best.indices, best.values, strict=True)]
    return rows, obs, source


def draw_gallery(subject: Subject, folder: Path, everything: bool = False) -> list[Path]:
    """Draw the first four prototypes (or all), each as a row of three neighbours."""
    rows, obs, source = nearest(subject, None if everything else FIRST)
    frames = newest_frames(obs)
    columns = 8 if everything else 1
    height = -(-len(rows) // columns)
    cell = frames.shape[1] + _GAP
    block = NEIGHBOURS * cell + 5 * _GAP
    sheet = np.full((height * (cell + _GAP), columns * block, 3), 255, np.uint8)
    for index, found in enumerate(rows):
        top, left = index % height * (cell + _GAP), index // height * block + 3 * _GAP
        for place, (row, _) in enumerate(found):
            at = left + place * cell
            sheet[top : top + frames.shape[1], at : at + frames.shape[2]] = frames[row]
    scale = 0.012 if everything else 0.022
    figure, axis = plt.subplots(figsize=(sheet.shape[1] * scale + 1, sheet.shape[0] * scale + 0.6))
    axis.imshow(sheet, interpolation="nearest")
    axis.set_axis_off()
    for index in range(len(rows)):
        top, left = index % height * (cell + _GAP), index // height * block + 2 * _GAP
        text = f"{index}" if everything else f"prototype {index}"
        axis.text(left, top + cell / 2, text, ha="right", va="center", fontsize=5 if everything else 8)
    axis.set_title(f"nearest by cosine, {len(obs)} observations of the {source}\n{subject.title}", fontsize=8)
    table = [
        (prototype, rank, similarity, source, row)
        for prototype, found in enumerate(rows)
        for rank, (row, similarity) in enumerate(found, 1)
    ]
    header = ("prototype", "rank", "cosine", "source", "observation")
    return save(figure, folder, "gallery_all" if everything else "gallery", header, table)
