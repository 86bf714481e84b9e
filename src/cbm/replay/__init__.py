"""Replay: frames on disk (`storage.py`, `npy_file.py`), and what is drawn out of them (`sampling.py`)."""

from cbm.replay.sampling import Replay, draw
from cbm.replay.storage import DamagedReplay

__all__ = ["DamagedReplay", "Replay", "draw"]
