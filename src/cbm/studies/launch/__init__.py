"""Where runs are computed, each as a separate process. A launcher is one file and one line here."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol

from cbm.errors import choose
from cbm.studies.define import PlannedRun
from cbm.studies.store import Ended, Store
from cbm.system.child import PYTHON, environment
from cbm.system.files import make_folder, open_file

LAUNCHERS: dict[str, str] = {"local": "cbm.studies.launch.local:Local", "ray": "cbm.studies.launch.ray:Ray"}
_STOPPED = (128 + signal.SIGTERM, 128 + signal.SIGINT, -signal.SIGTERM, -signal.SIGINT)


@dataclass(frozen=True)
class Resources:
    """What the user gives to a study. Where a number is 0, the launcher decides."""

    root: Path
    jobs: int = 0
    cpus: int = 1  # per run, for Ray
    gpus: float = 0.0  # per run, for Ray
    address: str | None = None  # of a Ray cluster


@dataclass(frozen=True)
class Job:
    """Everything that a worker process must know. Only plain values, since it goes to the process as JSON."""

    run: PlannedRun
    root: str  # of the studies
    folder: str  # where the driver was started; relative paths start there

    @property
    def log(self) -> Path:
        return Store(Path(self.root)).log(self.run)


class Launcher(AbstractContextManager["Launcher"], Protocol):
    """Starts jobs and reports how they ended. Used as a context, which releases its resources at the end."""

    threads: int  # of each job

    @property
    def slots(self) -> int:
        """How many jobs can run at once. This may change, because nodes come and go."""
        ...

    def start(self, job: Job) -> None: ...

    def wait(self, seconds: float) -> list[tuple[str, Ended]]:
        """The names of jobs that ended, and how. Waits at most `seconds`."""
        ...

    def stop(self) -> None:
        """Ask every job to save and stop. `wait` reports their ends."""
        ...


def make_launcher(name: str, resources: Resources) -> Callable[[], Launcher]:
    """A function that opens the launcher, to be called when there is something to do."""
    module, _, attribute = choose("launcher", name, LAUNCHERS).partition(":")
    return lambda: getattr(import_module(module), attribute)(resources)


def begin(job: Job) -> subprocess.Popen[str]:
    """Start the process. It has its own session, so that Ctrl-C reaches only the driver, which decides."""
    root = Path(job.root)
    make_folder(job.log.parent, root)
    with os.fdopen(open_file(job.log, root, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "a") as log:
        process = subprocess.Popen(
            [*PYTHON, "-m", "cbm.studies.worker"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            cwd=job.folder if os.path.isdir(job.folder) else None,
            env=environment() | {"OMP_NUM_THREADS": str(job.run.config["training"]["threads"])},
        )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it is dead already, and its exit code says so
        process.stdin.write(json.dumps(asdict(job)) + "\n")
        process.stdin.flush()  # and stays open: closing it tells the worker that nobody is waiting any more
    return process


def ended(code: int, job: Job) -> Ended:
    """What an exit code means, with the last line that the process printed if it failed."""
    where = platform.node()
    if code == 0:
        return Ended("done", where=where)
    if code in _STOPPED:
        return Ended("stopped", where=where)
    if code < 0:
        name = signal.Signals(-code).name
        hint = " (out of memory?)" if -code == signal.SIGKILL else ""
        return Ended("failed", f"its process was ended by {name}{hint}", where)
    return Ended("failed", _last_line(job.log) or f"exit code {code}", where)


def _last_line(log: Path) -> str:
    try:
        return log.read_text(errors="replace").strip().splitlines()[-1].strip()
    except (OSError, IndexError):  # not there, or empty
        return ""
