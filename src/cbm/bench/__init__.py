"""Speed and fidelity on this machine, ours against a plain reference in the same run (`cbm bench`)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from time import perf_counter

_HOLDS: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


@dataclass(frozen=True)
class Row:
    """One measured figure. `value` is compared with the bar: a ratio for speed, a difference for fidelity."""

    what: str
    task: str
    ours: float
    reference: float | None
    ratio: float | None
    bar: str  # "<op> <number>", such as ">= 4"
    value: float
    details: Mapping[str, float | None] | None = None  # what else was measured

    @property
    def holds(self) -> bool:
        op, bound = self.bar.split()
        return bool(_HOLDS[op](self.value, float(bound)))

    def to_json(self) -> dict[str, object]:
        row = asdict(self)
        if self.details is None:
            del row["details"]
        return row | {"holds": self.holds}


def speedup(what: str, task: str, ours: float, reference: float, bar: str) -> Row:
    """A row whose value is how many times faster we are than the reference; both are in seconds."""
    ratio = reference / ours
    return Row(what, task, ours, reference, ratio, bar, ratio)


def cost(
    what: str, task: str, ours: float, reference: float, bar: str, details: Mapping[str, float | None] | None = None
) -> Row:
    """A row whose bar is about how many times as large as the reference ours is."""
    ratio = ours / reference
    return Row(what, task, ours, reference, ratio, bar, ratio, details)


def alternate(*actions: Callable[[], object], rounds: int, warmup: int = 1) -> list[float]:
    """Median seconds of each action, taken in turns so that noise of the machine affects all of them equally."""
    times: list[list[float]] = [[] for _ in actions]
    for round_ in range(warmup + rounds):
        for action, seconds in zip(actions, times, strict=True):
            start = perf_counter()
            action()
            if round_ >= warmup:
                seconds.append(perf_counter() - start)
    return [sorted(seconds)[len(seconds) // 2] for seconds in times]
