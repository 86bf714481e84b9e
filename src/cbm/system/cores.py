"""How many cores this process may use."""

from __future__ import annotations

import os


def cores() -> int:
    """A container or a scheduler can set this below what the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
