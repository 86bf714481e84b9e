"""The generated clips as a video source: names, splits, seeds and the cache."""

from __future__ import annotations

import hashlib
from functools import partial

import numpy as np

from cbm.envs.videos.cache import cache_dir, cached_array
from cbm.envs.videos.clips import ArrayClip, Split, check_name, check_split

from .families import TRAINING_FAMILIES, UNSEEN_FAMILIES

VERSION = "builtin-v2"  # part of the seeds and of the cache's path: change it whenever any pixel changes
FRAMES, SIZE = 60, 256
TRAIN_PER_FAMILY, UNSEEN_PER_TRAINING_FAMILY, UNSEEN_PER_NEW_FAMILY = 5, 1, 6


def _number(family: str, numbers: range) -> list[str]:
    return [f"{family}-{number:02d}" for number in numbers]


def _interleave(columns: list[list[str]]) -> tuple[str, ...]:
    """First all the first ones, then all the second ones, ..."""
    longest = max(len(column) for column in columns)
    return tuple(column[i] for i in range(longest) for column in columns if i < len(column))


_FIRST_UNSEEN = TRAIN_PER_FAMILY + 1
NAMES: dict[Split, tuple[str, ...]] = {
    "train": _interleave([_number(family, range(1, _FIRST_UNSEEN)) for family in TRAINING_FAMILIES]),
    "unseen": _interleave(
        [_number(family, range(1, UNSEEN_PER_NEW_FAMILY + 1)) for family in UNSEEN_FAMILIES]
        + [
            _number(family, range(_FIRST_UNSEEN, _FIRST_UNSEEN + UNSEEN_PER_TRAINING_FAMILY))
            for family in TRAINING_FAMILIES
        ]
    ),
}


def generate(name: str, frames: int = FRAMES, size: int = SIZE) -> np.ndarray:
    """The clip `name`, uint8 (frames, size, size, 3): the same on every machine."""
    digest = hashlib.sha256(f"{VERSION} {name}".encode()).digest()
    rng = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
    family, _, number = name.rpartition("-")
    return (TRAINING_FAMILIES | UNSEEN_FAMILIES)[family](rng, int(number) - 1, frames, size)


class BuiltinSource:
    """60 training clips from twelve families; 30 unseen clips: new ones from those families, and from three others."""

    name = "builtin"

    def names(self, split: Split) -> tuple[str, ...]:
        check_split(split)
        return NAMES[split]

    def clip(self, name: str) -> ArrayClip:
        check_name(self.name, name, NAMES["train"] + NAMES["unseen"])
        file = cache_dir() / VERSION / f"{name}.npy"
        return ArrayClip(name, cached_array(file, partial(generate, name)))
