"""What glibc does with memory that was freed."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h
_GIGABYTE = 1 << 30


def keep_freed_memory() -> bool:
    """Have this process keep what it frees, for the next time it is asked for; whether that could be arranged.

    An update allocates and frees the same tensors over and over. By default glibc gives large ones back to the kernel
    at once, which maps and zeroes every page again: 60 MB per update of the preset `laptop`, a fifth of its time. The
    process stays as large as it once was. Other C libraries are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # musl has none
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _GIGABYTE)) and bool(mallopt(_TRIM_THRESHOLD, _GIGABYTE))
