"""Every family of generated clips: one function per family of scenes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .city import bokeh, road, skyline
from .landscape import balloons, clouds, mountains
from .plants import foliage
from .surfaces import bricks, cloth, marble
from .things import crowd, shelf, solids
from .water import caustics, fish

Generator = Callable[[np.random.Generator, int, int, int], np.ndarray]  # rng, look, frames, size -> (T, H, W, 3)

# A new family is one function and one line here. Training takes them in this order, so the first eight differ.
TRAINING_FAMILIES: dict[str, Generator] = {
    "skyline": skyline,
    "foliage": foliage,
    "caustics": caustics,
    "crowd": crowd,
    "bricks": bricks,
    "mountains": mountains,
    "solids": solids,
    "bokeh": bokeh,
    "cloth": cloth,
    "road": road,
    "marble": marble,
    "clouds": clouds,
}
UNSEEN_FAMILIES: dict[str, Generator] = {"fish": fish, "shelf": shelf, "balloons": balloons}
