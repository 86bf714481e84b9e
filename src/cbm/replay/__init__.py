"""Replay: frames on disk (`storage.py`, `npy_file.py`), and samples from them (`sampling.py`)."""

from cbm.replay.sampling import Replay, column, draw
from cbm.replay.storage import DamagedReplay

__all__ = ["DamagedReplay", "Replay", "column", "draw"]
