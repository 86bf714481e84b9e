"""Ways a run ends early: a signal that asks it to stop, and a disk that is full."""

from __future__ import annotations

import errno
import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any

from cbm.errors import CBMError
from cbm.files import write_whole
from cbm.run_dir import RunDir, saved_steps

_FULL = {errno.ENOSPC: "is full", errno.EDQUOT: "is over its quota", errno.EFBIG: "takes no larger file"}


class DiskFull(CBMError):
    """The disk of the run directory takes no more."""


class Stop:
    """SIGINT and SIGTERM as a flag that the loop reads between two steps. A second Ctrl-C quits at once."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return self.signal is not None

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python refuses handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def note_ending(run: RunDir, stop: Stop) -> Iterator[None]:
    """Leave a word in the run directory about why its process ended early. A killed one leaves none."""
    run.ended.unlink(missing_ok=True)
    how, reason = "complete", ""
    try:
        yield
        if stop.signal is not None:
            how, reason = "stopped", signal.Signals(stop.signal).name
    except KeyboardInterrupt:
        how, reason = "stopped", "Ctrl-C, twice"
        raise
    except BaseException as error:
        how, reason = "failed", str(error) if isinstance(error, CBMError) else f"{type(error).__name__}: {error}"
        raise
    finally:
        with suppress(OSError):  # a full disk, which has been reported already
            write_whole(run.ended, (json.dumps({"how": how, "reason": reason}) + "\n").encode(), run.root)


@contextmanager
def explain_full_disk(run: RunDir) -> Iterator[None]:
    """A write that failed for lack of space, as a message with the directory and the way on."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        saved = saved_steps(run.checkpoints)
        kept = f"The checkpoint at {saved[-1]:,} is whole." if saved else "There is no checkpoint yet."
        again = run.resume_command if run.config.exists() else "the same command again"
        raise DiskFull(
            f"the disk of {run.root} {_FULL[error.errno]} ({error.strerror}). {kept} Free some space, then: {again}"
        ) from error
