"""The paper's final returns, as reference beside ours: 500K environment steps, distraction `easy`, five seeds."""

from __future__ import annotations

from typing import NamedTuple

from cbm.tasks import PAPER_TASKS


class Published(NamedTuple):
    """Mean and standard deviation over seeds, and where they stand."""

    task: str
    agent: str
    split: str
    mean: float
    std: float
    source: str


_GENERALIZATION = 'table "Generalization performance of CBM": 30 unseen videos, 500K steps, 5 seeds'
_DRQ = 'table "Comparison between different implementations": DrQ of the CBM authors, 500K steps'
# In the order of PAPER_TASKS: ball_in_cup, cartpole, cheetah, finger, reacher, walker.
_TABLES: tuple[tuple[str, str, str, tuple[tuple[float, float], ...]], ...] = (
    ("drq+cbm", "unseen", _GENERALIZATION, ((705, 164), (529, 102), (243, 70), (856, 111), (336, 97), (30, 9))),
    ("drqv2+cbm", "unseen", _GENERALIZATION, ((673, 172), (485, 99), (373, 82), (823, 103), (410, 165), (629, 119))),
    ("drq", "train", _DRQ, ((99, 36), (360, 36), (203, 34), (545, 140), (144, 68), (44, 14))),
)
DISTRACTION = "easy"
PUBLISHED: tuple[Published, ...] = tuple(
    Published(task, agent, split, mean, std, source)
    for agent, split, source, cells in _TABLES
    for task, (mean, std) in zip(PAPER_TASKS, cells, strict=True)
)
