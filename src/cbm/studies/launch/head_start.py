"""Ray on this machine alone. Ray needs seconds to start: the first runs need not wait for it.

As many as the machine has room for begin as processes, as `--launcher local` has them, and Ray starts meanwhile; all
later ones are its tasks. It is the same process either way, and there are never more of them at once.
"""

from __future__ import annotations

import signal
import time
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Self

from cbm.errors import CBMError
from cbm.studies.launch import Job, Launcher, Resources
from cbm.studies.launch.local import Local, cores
from cbm.studies.store import Ended

if TYPE_CHECKING:
    from cbm.studies.launch.ray import Ray

_PAUSE = 0.05  # seconds between two looks at those that began without Ray


def launcher(resources: Resources) -> Launcher:
    """`--launcher ray`: on the cluster at `--address`, or on one that is started here."""
    if resources.cpus < 1 or resources.gpus < 0 or resources.jobs < 0:
        raise CBMError("--cpus must be at least 1, --gpus and --jobs at least 0.")
    if find_spec("ray") is None:
        hint = 'pip install "cbm-rl[cluster]" (in a clone: pip install ".[cluster]")'
        raise CBMError(f"--launcher ray needs Ray: {hint}. On one machine --launcher local does the same.")
    if resources.address is None and not resources.gpus:  # GPUs are given out by Ray alone
        return HeadStart(resources)

    from cbm.studies.launch.ray import Ray

    return Ray(resources)


class HeadStart:
    """The local launcher for the first runs, then Ray."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._first = Local(resources)
        self._ray: Ray | None = None
        self.slots, self.threads = min(self._first.slots, cores() // resources.cpus), resources.cpus
        if not self.slots:
            raise CBMError(f"this machine has {cores()} cores: a run cannot have --cpus {resources.cpus}.")

    def start(self, job: Job) -> None:
        (self._ray or self._first).start(job)

    def wait(self, seconds: float) -> list[tuple[str, Ended]]:
        if self._ray is None:  # the first runs are under way
            self._ray = _opened(self._resources)
        deadline = time.monotonic() + seconds
        while True:
            over = self._first.wait(0.0) + self._ray.wait(_PAUSE)
            if over or time.monotonic() > deadline:
                return over

    def stop(self) -> None:
        self._first.stop()
        if self._ray is not None:
            self._ray.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._first.__exit__(kind, error, trace)
        if self._ray is not None:
            self._ray.__exit__(kind, error, trace)


def _opened(resources: Resources) -> Ray:
    """Ray takes SIGTERM to itself when it starts: it is given back to the driver, which lets runs save."""
    from cbm.studies.launch.ray import Ray

    handler = signal.getsignal(signal.SIGTERM)
    try:
        return Ray(resources).__enter__()
    finally:
        signal.signal(signal.SIGTERM, handler)
