"""The paper's numbers, to compare with ours."""

from __future__ import annotations

from typing import NamedTuple

from cbm.envs.tasks import PAPER_TASKS


class Published(NamedTuple):
    """A return after 500K environment steps: mean and standard deviation over five seeds."""

    task: str
    agent: str
    distraction: str
    split: str  # of the videos
    mean: float
    std: float | None  # None if the paper gives none
    source: str


_UNSEEN = 'CBM paper, table "Generalization performance of CBM": 30 unseen videos'
_DRQ = 'CBM paper, table "Comparison between different implementations", row "DrQ (Our)"'
_DCS = 'CBM paper, table "Comparison between different implementations", row "DrQ (DCS)"'
# In the order of PAPER_TASKS.
_TABLES = (
    ("drq+cbm", "unseen", _UNSEEN, ((705, 164), (529, 102), (243, 70), (856, 111), (336, 97), (30, 9))),
    ("drqv2+cbm", "unseen", _UNSEEN, ((673, 172), (485, 99), (373, 82), (823, 103), (410, 165), (629, 119))),
    ("drq", "train", _DRQ, ((99, 36), (360, 36), (203, 34), (545, 140), (144, 68), (44, 14))),
    ("drq", "train", _DCS, ((138, 20), (334, 29), (4, 2), (378, 125), (113, 22), (28, 1))),
)

PUBLISHED: tuple[Published, ...] = tuple(
    Published(task, agent, "easy", split, float(mean), float(std), source)
    for agent, split, source, cells in _TABLES
    for task, (mean, std) in zip(PAPER_TASKS, cells, strict=True)
)


def published(task: str, distraction: str, split: str | None = None) -> list[Published]:
    """What the paper reports for a task, on one set of videos or on both."""
    return [
        entry
        for entry in PUBLISHED
        if (entry.task, entry.distraction) == (task, distraction) and split in (None, entry.split)
    ]
