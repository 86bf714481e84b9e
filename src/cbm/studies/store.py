"""The folder of studies. Everything known about a run is in its directory; there is no database.

runs/NAME/              ordinary run directories of `cbm train`, shared by all studies that ask for the same run
attempts/NAME.jsonl     how each process of a run ended; NAME.log has what it printed
STUDY-SCALE/            the plan as last resolved, and the report

An archive is such a folder too, with only the records of finished runs: they can be reported on, and count as done.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from cbm import __version__
from cbm.errors import CBMError
from cbm.runs.directory import RunDir, RunInUse, saved_steps
from cbm.studies.define import Choice, Plan, PlannedRun, Study, make_plan
from cbm.system.files import make_folder, parse, read_file, read_object, write_whole
from cbm.system.jsonl import JsonLines, last_line, read_lines

TRIES = 3


@dataclass(frozen=True)
class Ended:
    """How one process of a run ended. `lost` means that its machine went away, which is not the run's fault."""

    outcome: Literal["done", "stopped", "failed", "lost"]
    error: str = ""
    where: str = ""


@dataclass(frozen=True)
class State:
    """What state a run is in, and how far it has come."""

    kind: Literal["done", "set aside", "begun", "missing"]
    env_step: int = 0
    result: float | None = None  # mean return of the last evaluation
    failures: int = 0
    error: str = ""


class Store:
    def __init__(self, root: Path) -> None:
        self.root = root

    def run_dir(self, run: PlannedRun) -> RunDir:
        return RunDir(self.root / "runs" / run.name)

    def log(self, run: PlannedRun) -> Path:
        return self.root / "attempts" / f"{run.name}.log"

    def final(self, run: PlannedRun) -> Path:
        """The evaluation of the finished agent on unseen videos, as `cbm eval -o` writes it."""
        return self.run_dir(run).root / f"final-unseen-{run.final_episodes}.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder: one driver at a time. The lock goes away with its process, however that ends."""
        try:
            with RunDir(self.root).locked():
                yield
        except RunInUse as error:
            owner = RunDir(self.root).owner() or "that has just ended"
            raise CBMError(
                f"another `cbm study run` is running in {self.root}, process {owner}. Wait for it, stop it "
                "(Ctrl-C; nothing is lost), or use another folder: --root other-studies."
            ) from error

    def state(self, run: PlannedRun) -> State:
        """What the run's directory says, and how often it has failed."""
        step, result = self.progress(run)
        failures = self._failures(run)
        error = str(failures[-1].get("error", "")) if failures else ""
        if self.is_done(run):
            return State("done", run.total_steps, result)
        if len(failures) >= TRIES:
            return State("set aside", step, result, len(failures), error)
        kind: Literal["begun", "missing"] = "begun" if self.run_dir(run).config.exists() else "missing"
        return State(kind, step, result, len(failures), error)

    def is_done(self, run: PlannedRun) -> bool:
        """Whether the last evaluation and the last checkpoint are written, and the final episodes are played.

        A run in an archive has no checkpoint; its record says that it was complete.
        """
        directory = self.run_dir(run)
        if _step(last_line(directory.evals, directory.root)) < run.total_steps:
            return False
        steps = saved_steps(directory.checkpoints)
        saved = steps[-1] >= run.total_steps if steps else self._says_complete(directory)
        return saved and (not run.final_episodes or self.final(run).exists())

    def _says_complete(self, directory: RunDir) -> bool:
        with suppress(CBMError):
            return read_object(directory.ended, directory.root).get("how") == "complete"
        return False

    def archive(self, run: PlannedRun, other: Store) -> None:
        """Copy the records of a finished run, without checkpoint, replay, films and figures."""
        source, target = self.run_dir(run), make_folder(other.run_dir(run).root, other.root)
        records = [source.config, source.evals, source.metrics, source.analysis, source.timings, source.ended]
        for path in (*records, *([self.final(run)] if run.final_episodes else ())):
            if path.exists():
                write_whole(target / path.name, read_file(path, source.root), other.root)

    def progress(self, run: PlannedRun) -> tuple[int, float | None]:
        """Environment step, and mean return of the last evaluation."""
        directory = self.run_dir(run)
        lines = [last_line(path, directory.root) for path in (directory.metrics, directory.evals)]
        split = (lines[1] or {}).get("train")
        mean = split.get("mean") if isinstance(split, dict) else None
        return max(map(_step, lines)), mean if isinstance(mean, float) else None

    def record(self, run: PlannedRun, ended: Ended) -> None:
        """Write down how an attempt ended. If even that does not fit on the disk, the driver still knows."""
        with suppress(OSError):
            self._append(run, asdict(ended))

    def forgive(self, run: PlannedRun) -> None:
        """Reset the count of failures of a run."""
        if self._failures(run):
            self._append(run, {"outcome": "retry"})

    def _append(self, run: PlannedRun, line: dict[str, Any]) -> None:
        path = make_folder(self.root / "attempts", self.root) / f"{run.name}.jsonl"
        with closing(JsonLines(path, self.root)) as file:
            file.append({"time": datetime.now(UTC).isoformat(timespec="seconds"), **line})

    def _failures(self, run: PlannedRun) -> list[dict[str, Any]]:
        """The attempts that failed since the user last said to try again."""
        failures: list[dict[str, Any]] = []
        for line in read_lines(self.root / "attempts" / f"{run.name}.jsonl", self.root):
            if line.get("outcome") == "retry":
                failures = []
            elif line.get("outcome") == "failed":
                failures.append(line)
        return failures

    def plan(self, study: Study, choice: Choice) -> Plan:
        """`make_plan`, cached: resolving needs PyTorch, and importing that takes longer than looking at 200 runs.

        The cache is valid for this definition, this choice and these source files of the package.
        """
        scale = study.default_scale if choice.scale is None else choice.scale
        path = self.root / f"{study.name}-{scale}" / "plan.json"
        key = hashlib.sha256(f"{study!r} {choice!r} {_fingerprint()}".encode()).hexdigest()
        with suppress(OSError, ValueError, KeyError, TypeError):
            kept = parse(read_file(path, self.root))
            if kept["key"] == key:
                return Plan(study, scale, tuple(PlannedRun(**run) for run in kept["runs"]))
        made = make_plan(study, choice)
        runs = [asdict(run) for run in made.runs]
        make_folder(path.parent, self.root)
        text = json.dumps({"key": key, "definition": repr(study), "runs": runs}, indent=1) + "\n"
        write_whole(path, text.encode(), self.root)
        return made


def _fingerprint() -> str:
    """Changes whenever a file of the package does."""
    package = Path(__file__).parents[1]
    files = sorted(package.rglob("*.py"))
    stats = [(str(path.relative_to(package)), path.stat()) for path in files]
    return f"{__version__} {[(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]}"


def _step(line: dict[str, Any] | None) -> int:
    """The environment step in a line of the records; 0 if there is none."""
    step = (line or {}).get("env_step")
    return step if isinstance(step, int) else 0
