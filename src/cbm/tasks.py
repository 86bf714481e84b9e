"""The tasks of the suite in one table: every task of the six domains of the Distracting Control Suite."""

from __future__ import annotations

from dataclasses import dataclass

from cbm.errors import choose
from cbm.ranges import Steps, Weight
from cbm.settings import Checked


@dataclass(frozen=True)
class Noise(Checked):
    """DrQ-v2's exploration noise: linear from `start` to `end` over `steps` environment steps."""

    start: Weight
    """Standard deviation at the first step (Table)."""
    end: Weight
    """After the last (Table)."""
    steps: Steps
    """Environment steps between the two (Table)."""


@dataclass(frozen=True)
class Task:
    """One task of dm_control with the constants that the paper gives for it."""

    domain: str
    task: str
    action_repeat: int
    noise: Noise
    in_paper: bool = False

    @property
    def name(self) -> str:
        return f"{self.domain}-{self.task}"


# Action repeats: the paper's appendix, table "The action repeat hyperparameter for each task" (after PlaNet); a task
# that is not in the paper takes the repeat of its domain. Noise: the same appendix, "CBM list of hyperparameters".
_SHORT = Noise(1.0, 0.1, 100_000)
_LONG = Noise(1.0, 0.1, 500_000)
_ALL = (
    Task("ball_in_cup", "catch", 4, _SHORT, in_paper=True),
    Task("cartpole", "swingup", 8, _SHORT, in_paper=True),
    Task("cheetah", "run", 4, _LONG, in_paper=True),
    Task("finger", "spin", 2, _SHORT, in_paper=True),
    Task("reacher", "easy", 4, _LONG, in_paper=True),
    Task("walker", "walk", 2, _SHORT, in_paper=True),
    Task("cartpole", "balance", 8, _SHORT),
    Task("cartpole", "balance_sparse", 8, _SHORT),
    Task("cartpole", "swingup_sparse", 8, _SHORT),
    Task("cartpole", "two_poles", 8, _SHORT),
    Task("cartpole", "three_poles", 8, _SHORT),
    Task("finger", "turn_easy", 2, _SHORT),
    Task("finger", "turn_hard", 2, _SHORT),
    Task("reacher", "hard", 4, _LONG),
    Task("walker", "run", 2, _SHORT),
    Task("walker", "stand", 2, _SHORT),
)
TASKS: dict[str, Task] = {task.name: task for task in _ALL}
PAPER_TASKS: tuple[str, ...] = tuple(name for name, task in TASKS.items() if task.in_paper)


def get_task(name: str) -> Task:
    """The task called `name`, such as `cartpole-swingup`."""
    return choose("task", name, TASKS)
