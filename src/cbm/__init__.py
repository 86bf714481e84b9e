"""CBM-RL: reinforcement learning from pixels under visual distraction."""

from __future__ import annotations

__version__ = "0.1.0"
