"""Where a run keeps its files, and the lock that keeps a second process out."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

from cbm.errors import CBMError
from cbm.runs.trust import trust_options
from cbm.system.files import list_folder, open_file


class RunInUse(CBMError):
    """Another process holds the run directory."""


class RunDir:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.config = root / "config.json"
        self.entry = root / "entry.json"  # only in an entry of the zoo: what it vouches for
        self.metrics = root / "metrics.jsonl"
        self.evals = root / "evals.jsonl"
        self.analysis = root / "analysis.jsonl"
        self.timings = root / "timings.jsonl"
        self.ended = root / "ended.json"  # how the last process of this run ended, unless it was killed
        self.checkpoints = root / "checkpoint"
        self.replay = root / "replay"
        self.films = root / "videos"
        self.figures = root / "figures"
        self.tb = root / "tb"

    @property
    def resume_command(self) -> str:
        return f"cbm train --resume {self.root}{trust_options()}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the directory. The system releases the lock with the process, so a crash never leaves it locked."""
        self.root.mkdir(parents=True, exist_ok=True)
        handle = open_file(self.root / ".lock", self.root, os.O_RDWR | os.O_CREAT)
        try:
            if not _take(handle, patience=0.3):
                raise RunInUse(
                    f"{self.root} is in use by process {_pid(handle)}. Wait for it, stop it, or choose another --out."
                )
            os.ftruncate(handle, 0)
            os.write(handle, str(os.getpid()).encode())
            yield
        finally:
            os.close(handle)

    def owner(self) -> str | None:
        """The id of the process that is training here; None if there is none."""
        try:
            handle = open_file(self.root / ".lock", self.root)
        except OSError:
            return None
        try:
            return None if _take(handle, patience=0.005) else _pid(handle)
        except OSError:  # a file system without locks
            return None
        finally:
            os.close(handle)


def _take(handle: int, patience: float) -> bool:
    """Lock a file. A process that only looks (`owner`) holds the lock for microseconds, so try more than once."""
    deadline = time.monotonic() + patience
    while not (taken := lock_descriptor(handle, blocking=False)) and time.monotonic() < deadline:
        time.sleep(0.001)
    return taken


def _pid(handle: int) -> str:
    """What the process that holds the lock has written into it, if the system lets others read it."""
    try:
        return os.read(handle, 32).decode(errors="replace").strip() or "unknown"
    except OSError:
        return "unknown"


def saved_steps(checkpoints: Path) -> list[int]:
    """The environment steps that have a checkpoint, intact or not, oldest first."""
    try:
        entries = list_folder(checkpoints, checkpoints.parent)
    except OSError:
        return []
    names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    return sorted(int(name) for name in names if re.fullmatch(r"[0-9]{9}|[1-9][0-9]{9,14}", name))
