"""Processes on this machine, by default one per core. They share the cores equally."""

from __future__ import annotations

import subprocess
import time
from contextlib import AbstractContextManager

from cbm.errors import CBMError
from cbm.studies.launch import Job, Resources, begin, ended
from cbm.studies.store import Ended
from cbm.system.cores import cores

_PAUSE = 0.05  # seconds between two looks at the processes


class Local(AbstractContextManager["Local"]):
    def __init__(self, resources: Resources) -> None:
        if resources.jobs < 0:
            raise CBMError(f"--jobs must be a number of runs, or 0 for one per core, not {resources.jobs}.")
        self.slots = resources.jobs or cores()
        self.threads = max(1, cores() // self.slots)
        self._running: dict[str, tuple[Job, subprocess.Popen[str]]] = {}

    def start(self, job: Job) -> None:
        self._running[job.run.name] = job, begin(job)

    def wait(self, seconds: float) -> list[tuple[str, Ended]]:
        deadline = time.monotonic() + seconds
        while True:
            over = [
                (name, ended(process.returncode, job))
                for name, (job, process) in self._running.items()
                if process.poll() is not None
            ]
            for name, _ in over:
                process = self._running.pop(name)[1]
                assert process.stdin is not None
                process.stdin.close()
            if over or time.monotonic() > deadline:
                return over
            time.sleep(_PAUSE)

    def stop(self) -> None:
        for _, process in self._running.values():
            process.terminate()

    def __exit__(self, *error: object) -> None:
        self.stop()  # matters after an error in the driver; otherwise no job is left
