"""Where a run keeps its things, and the lock that keeps a second process out."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cbm.errors import CBMError
from cbm.files import list_folder, open_file
from cbm.trust import trust_options


class RunInUse(CBMError):
    """Another process holds the run directory."""


@dataclass(frozen=True)
class RunDir:
    """The paths of one run."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "config.json"

    @property
    def entry(self) -> Path:
        """Where this is an entry of the zoo: what it vouches for."""
        return self.root / "entry.json"

    @property
    def metrics(self) -> Path:
        return self.root / "metrics.jsonl"

    @property
    def evals(self) -> Path:
        return self.root / "evals.jsonl"

    @property
    def analysis(self) -> Path:
        return self.root / "analysis.jsonl"

    @property
    def timings(self) -> Path:
        return self.root / "timings.jsonl"

    @property
    def ended(self) -> Path:
        """How the last process of this run ended, if it lived to tell."""
        return self.root / "ended.json"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoint"

    @property
    def replay(self) -> Path:
        return self.root / "replay"

    @property
    def videos(self) -> Path:
        return self.root / "videos"

    @property
    def figures(self) -> Path:
        return self.root / "figures"

    @property
    def tb(self) -> Path:
        return self.root / "tb"

    @property
    def resume_command(self) -> str:
        return f"cbm train --resume {self.root}{trust_options()}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory. The kernel drops an flock with its process, so a crash never leaves it locked."""
        self.root.mkdir(parents=True, exist_ok=True)
        handle = open_file(self.root / ".lock", self.root, os.O_RDWR | os.O_CREAT)
        try:
            if not _take(handle):
                owner = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
                raise RunInUse(
                    f"{self.root} is in use by process {owner}. Wait for it, stop it, or choose another --out."
                )
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(handle)

    def owner(self) -> str | None:
        """The id of the process that trains here now; None where nobody does."""
        try:
            handle = open_file(self.root / ".lock", self.root)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
        except OSError:  # a file system without locks
            return None
        finally:
            os.close(handle)
        return None


def _take(handle: int, patience: float = 0.3) -> bool:
    """Lock a file for good. Somebody who only looks (`owner`) holds it for microseconds, so try more than once."""
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)


def saved_steps(checkpoints: Path) -> list[int]:
    """The environment steps of which there is a checkpoint, whole or not, oldest first."""
    try:
        entries = list_folder(checkpoints, checkpoints.parent)
    except OSError:
        return []
    names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    return sorted(int(name) for name in names if re.fullmatch(r"[0-9]{9}|[1-9][0-9]{9,14}", name))


def open_new(root: Path) -> RunDir:
    """A directory for a new run; one that already holds a run is refused."""
    run = RunDir(root)
    if run.config.exists():
        raise CBMError(f"{root} already holds a run. Go on with it: {run.resume_command}. Or choose another --out.")
    if root.exists() and not root.is_dir():
        raise CBMError(f"--out {root} is a file.")
    return run


def open_existing(root: Path) -> RunDir:
    """The directory of a run that was started before."""
    run = RunDir(root)
    if not run.config.exists():
        raise CBMError(f"{root} holds no run (no config.json in it).")
    return run
