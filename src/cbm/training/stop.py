"""How a run ends early: a signal asks it to stop, or the disk is full."""

from __future__ import annotations

import errno
import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from cbm.errors import CBMError
from cbm.runs.directory import RunDir, saved_steps
from cbm.system.files import write_whole

_FULL = {errno.ENOSPC: "is full", errno.EDQUOT: "is over its quota", errno.EFBIG: "does not allow larger files"}


class DiskFull(CBMError):
    """The disk of the run directory is full."""


class Stop:
    """A flag that the loop reads between two steps; SIGINT and SIGTERM set it. A second Ctrl-C quits."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.reason: str | None = None  # set this to stop without a signal
        self._before: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return self.reason is not None

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():  # other threads cannot set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not None:  # a handler not set from Python could not be restored
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.signal is not None:
            raise KeyboardInterrupt
        self.signal, self.reason = number, signal.Signals(number).name


@contextmanager
def note_ending(run: RunDir, stop: Stop) -> Iterator[None]:
    """Write to the run directory why its process ended early. A killed process writes nothing."""
    run.ended.unlink(missing_ok=True)
    how, reason = "complete", ""
    try:
        yield
        if stop.reason is not None:
            how, reason = "stopped", stop.reason
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
    """Turn a write that failed for lack of space into a message with the directory and how to resume."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        saved = saved_steps(run.checkpoints)
        kept = f"The checkpoint at {saved[-1]:,} is intact." if saved else "There is no checkpoint yet."
        again = run.resume_command if run.config.exists() else "the same command again"
        raise DiskFull(
            f"the disk of {run.root} {_FULL[error.errno]} ({error.strerror}). {kept} Free some space, then: {again}"
        ) from error
