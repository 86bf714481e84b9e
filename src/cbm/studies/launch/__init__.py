"""Where runs are computed. A launcher is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Protocol, Self

from cbm.errors import choose
from cbm.studies.launch.process import Job, Resources
from cbm.studies.store import Ended

__all__ = ["LAUNCHERS", "Job", "Launcher", "Resources", "make_launcher"]


class Launcher(Protocol):
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

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


LAUNCHERS: dict[str, str] = {"local": "cbm.studies.launch.local:Local", "ray": "cbm.studies.launch.ray:Ray"}


def make_launcher(name: str, resources: Resources) -> Callable[[], Launcher]:
    """A function that opens the launcher, to be called when there is something to do."""
    module, _, attribute = choose("launcher", name, LAUNCHERS).partition(":")
    return lambda: getattr(import_module(module), attribute)(resources)
