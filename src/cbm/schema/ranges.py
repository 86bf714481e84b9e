"""Which values a setting may have: stated once, as part of the setting's type, wherever a value comes from.

    lr: Positive = 1e-3
    conv_strides: Annotated[tuple[Count, ...], Length(1, 12)] = (2, 1, 1, 1)

`cbm.schema.tree` checks it, on the command line, in config.json and in Python.
"""

from __future__ import annotations

import re
from collections.abc import Sized
from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, without `low` itself if `above`. NaN is in no range."""

    low: float
    high: float = float("inf")
    above: bool = False

    def holds(self, value: float) -> bool:
        below = self.low < value if self.above else self.low <= value
        return below and value <= self.high and value < float("inf")

    def __str__(self) -> str:
        if self.high == float("inf"):
            return f"{'above' if self.above else 'at least'} {_number(self.low)}"
        if self.above:
            return f"above {_number(self.low)} and at most {_number(self.high)}"
        return f"{_number(self.low)} to {_number(self.high)}"


@dataclass(frozen=True)
class Length:
    """Lists of `low` to `high` values."""

    low: int
    high: int

    def holds(self, value: Sized) -> bool:
        return self.low <= len(value) <= self.high

    def __str__(self) -> str:
        return f"a list of {self.low} to {self.high} values"


@dataclass(frozen=True)
class Form:
    """Strings that match `pattern`, which `words` describes."""

    pattern: str
    words: str

    def holds(self, value: str) -> bool:
        return re.fullmatch(self.pattern, value) is not None

    def __str__(self) -> str:
        return self.words


def _number(value: float) -> str:
    """A number as people write it: 0.1, 500,000, 1e12."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{value:,}" if abs(value) <= 1e9 else f"{value:.3g}".replace("e+", "e")


Count = Annotated[int, Range(1, 1_000_000)]
CountOrZero = Annotated[int, Range(0, 1_000_000)]
Width = Annotated[int, Range(1, 16_384)]  # of a layer: beyond it, memory would be the limit
Steps = Annotated[int, Range(1, 10**12)]  # environment steps
StepsOrZero = Annotated[int, Range(0, 10**12)]
Positive = Annotated[float, Range(0, above=True)]
Weight = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 1)]
