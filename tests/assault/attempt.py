"""One attempt: `cbm` with some words, in a process of its own that can be killed, and what came of it.

The process is forked from one that has everything loaded, so that an attempt takes a fraction of a second.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import toy  # noqa: F401 - the task of all attempts

PATIENCE = 240.0  # seconds on a machine that others use too; an attempt takes one or two when it is alone


@dataclass(frozen=True)
class Outcome:
    """How a process ended: `status` as a shell has it, None for one that had to be killed because it hung."""

    status: int | None
    text: str
    seconds: float

    @property
    def complaint(self) -> str | None:
        """Why this may not be, whatever was attempted; None where it is well."""
        if self.status is None:
            return f"hung for {self.seconds:.0f} s"
        if "Traceback (most recent call last)" in self.text:
            return "a traceback"
        if self.status not in (0, 1, 2):
            return f"exit status {self.status}"
        if self.status and not self.text.strip():
            return "an error without a word"
        return None


class Process:
    """`cbm WORDS` in a fork."""

    def __init__(self, words: Sequence[object], folder: Path, before: Callable[[], None] | None = None) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `wait`
        self._start = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _become(list(map(str, words)), folder, self._output.fileno(), before)

    def poll(self) -> int | None:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return None if pid == 0 else os.waitstatus_to_exitcode(status)

    def kill(self, number: int = signal.SIGKILL) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self, patience: float = PATIENCE) -> Outcome:
        deadline = time.monotonic() + patience
        while (status := self.poll()) is None and time.monotonic() < deadline:
            time.sleep(0.005)
        if status is None:
            self.kill()
            os.waitpid(self.pid, 0)
        self._output.seek(0)
        text = self._output.read().decode(errors="replace")
        self._output.close()
        return Outcome(status, text, time.monotonic() - self._start)


def attempt(words: Sequence[object], folder: Path, patience: float = PATIENCE) -> Outcome:
    return Process(words, folder).wait(patience)


def _become(words: list[str], folder: Path, output: int, before: Callable[[], None] | None) -> None:
    status = 70
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - until the process ends
        sys.stderr = open(2, "w", errors="backslashreplace", closefd=False)  # noqa: SIM115 - as Python has it
        os.chdir(folder)
        if before is not None:
            before()
        from cbm.cli import main

        sys.argv = ["cbm", *words]
        status = main(words)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
