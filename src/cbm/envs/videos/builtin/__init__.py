"""Clips that are generated, not downloaded: names, splits, seeds and the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import partial

import numpy as np

from cbm.envs.videos.cache import cache_dir, cached_array
from cbm.envs.videos.clips import Clip, Split, check_name, check_split

from .city import bokeh, road, skyline
from .landscape import balloons, clouds, foliage, mountains
from .paint import film
from .surfaces import bricks, cloth, marble
from .things import crowd, shelf, solids
from .water import caustics, fish

VERSION = "builtin-v2"  # part of the seeds and of the cache's path: change it whenever any pixel changes
FRAMES, SIZE = 60, 256
# A new family of scenes is one function (rng, look, size) that yields its pictures, and its name here. Training takes
# them in this order, so the first eight clips differ.
TRAINING_FAMILIES = {
    family.__name__: family
    for family in (skyline, foliage, caustics, crowd, bricks, mountains, solids, bokeh, cloth, road, marble, clouds)
}
UNSEEN_FAMILIES = {family.__name__: family for family in (fish, shelf, balloons)}


def _clips(families: Iterable[str], numbers: Iterable[int]) -> tuple[str, ...]:
    """First the first clip of each family, then the second ones, ..."""
    return tuple(f"{family}-{number:02d}" for number in numbers for family in families)


NAMES: dict[Split, tuple[str, ...]] = {
    "train": _clips(TRAINING_FAMILIES, range(1, 6)),
    "unseen": _clips(UNSEEN_FAMILIES, [1]) + _clips(TRAINING_FAMILIES, [6]) + _clips(UNSEEN_FAMILIES, range(2, 7)),
}


def generate(name: str, frames: int = FRAMES, size: int = SIZE) -> np.ndarray:
    """The clip `name`, uint8 (frames, size, size, 3): the same on every machine."""
    digest = hashlib.sha256(f"{VERSION} {name}".encode()).digest()
    rng = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
    family, _, number = name.rpartition("-")
    return film((TRAINING_FAMILIES | UNSEEN_FAMILIES)[family](rng, int(number) - 1, size), frames, size)


class BuiltinSource:
    """60 training clips from twelve families; 30 unseen clips: new ones from those families, and from three others."""

    name = "builtin"

    def names(self, split: Split) -> tuple[str, ...]:
        check_split(split)
        return NAMES[split]

    def clip(self, name: str) -> Clip:
        check_name(self.name, name, NAMES["train"] + NAMES["unseen"])
        file = cache_dir() / VERSION / f"{name}.npy"
        return Clip(name, cached_array(file, partial(generate, name)))
