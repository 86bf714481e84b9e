"""Tests use networks too small for threads, and two of them run at once."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before PyTorch is imported, here and in the processes that tests start
