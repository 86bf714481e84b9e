"""Tests use networks too small for threads, and two of them run at once. Some press Ctrl-C."""

from __future__ import annotations

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before PyTorch is imported, here and in the processes that tests start
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs them in the background has it ignored
