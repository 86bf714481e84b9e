"""Run directories as they are found on disk: complete, running, killed in mid-line, half-written, or not runs at all.

`load_runs` never raises an error for what it finds. Whatever cannot be read is left out and reported by name; the rest
is shown. It imports neither PyTorch nor the training loop, so a page can be made where nothing can be trained.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from cbm.errors import CBMError
from cbm.runs.directory import RunDir
from cbm.runs.provenance import RECORDS_VERSION
from cbm.runs.zoo.entries import is_reference, open_entry
from cbm.system.files import Unreadable, list_folder, read_file, read_object
from cbm.system.jsonl import Lines, parse_lines

Line = Mapping[str, Any]
_DEPTH = 4  # how many folders deep to look for runs


@dataclass(frozen=True)
class Problem:
    """Something that was left out."""

    path: Path
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


@dataclass(frozen=True)
class Status:
    state: Literal["complete", "running", "stopped", "failed"]
    reason: str = ""  # why it failed or, if known, stopped; for `running`, the process

    def __str__(self) -> str:
        return f"{self.state} ({self.reason})" if self.reason else self.state


@dataclass(frozen=True)
class Run:
    """Everything in a run directory, except its checkpoints and its replay."""

    path: Path
    name: str  # of the folder, with as many parents in front as it takes to tell the runs apart
    config: Mapping[str, Any]  # config.json as written; other versions may have fewer or more keys
    provenance: Mapping[str, Any]
    evals: tuple[Line, ...]
    metrics: tuple[Line, ...]
    analysis: tuple[Line, ...]
    timings: tuple[Line, ...]
    status: Status
    films: tuple[Path, ...] = ()
    figures: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)  # name -> its .png, .svg, .csv, .json

    @property
    def agent(self) -> str:
        return self.config["agent_name"]

    @property
    def task(self) -> str:
        env = self.config["env"]
        return env["task"] if env.get("env_id") is None else str(env["env_id"]).rpartition(":")[2]

    @property
    def distraction(self) -> str:
        return self.config["env"].get("distraction", "none")

    @property
    def preset(self) -> str:
        return self.config.get("preset", "paper")

    @property
    def seed(self) -> int:
        return self.config["seed"]

    @property
    def total_steps(self) -> int:
        return self.config["training"]["total_steps"]

    @property
    def env_step(self) -> int:
        """The newest environment step in any file."""
        return max(
            (line["env_step"] for lines in (self.evals, self.metrics, self.timings) for line in lines), default=0
        )

    @property
    def splits(self) -> tuple[str, ...]:
        """The sets of videos that its evaluations played."""
        return tuple(split for split in ("train", "unseen") if any(split in line for line in self.evals))

    @property
    def random_returns(self) -> list[float]:
        """Returns of the training episodes that were played with uniformly random actions."""
        seed_steps = self.config["training"].get("seed_steps")
        early = [line for line in self.metrics if is_number(seed_steps) and line["env_step"] <= seed_steps]
        return [line["episode_return"] for line in early if is_number(line.get("episode_return"))]

    def curve(self, split: str) -> tuple[list[int], list[float]]:
        """Environment steps and mean returns of its evaluations on one set of videos."""
        lines = [line for line in self.evals if split in line]
        return [line["env_step"] for line in lines], [line[split]["mean"] for line in lines]


@dataclass(frozen=True)
class Loaded:
    """What was found, and what was left out."""

    runs: tuple[Run, ...]
    problems: tuple[Problem, ...]


def load_runs(paths: Iterable[Path | str]) -> Loaded:
    """The runs in `paths`: run directories, folders with run directories somewhere below them, `zoo:NAME`."""
    runs: dict[Path, Run] = {}
    problems: list[Problem] = []
    for path in map(Path, paths):
        try:
            found = [open_entry(str(path)).root] if is_reference(path) else find_runs(path, problems)
        except (CBMError, OSError) as error:
            what = f"cannot be read ({error.strerror})" if isinstance(error, OSError) else str(error)
            problems.append(Problem(path, what))
            continue
        for root in found:
            try:
                if root.resolve() not in runs:
                    runs[root.resolve()] = _load(root, problems)
            except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links in a circle
                problems.append(Problem(root, f"skipped: {error}"))
    named = zip(runs.values(), _names(list(runs)), strict=True)
    return Loaded(tuple(replace(run, name=name) for run, name in named), tuple(dict.fromkeys(problems)))


def find_runs(path: Path, problems: list[Problem]) -> list[Path]:
    """The run directories at or below `path`. Folders next to them that hold none are reported."""
    if not path.is_dir():
        problems.append(Problem(path, "is a file, not a run directory" if path.exists() else "does not exist"))
        return []
    found, strange = _search(path, _DEPTH)
    problems += strange if found else [_nothing_in(path)]
    return found


def _search(path: Path, depth: int) -> tuple[list[Path], list[Problem]]:
    """Runs at or below a folder, and the folders next to them that hold none."""
    if os.path.lexists(path / "config.json"):
        return [path], []
    found: list[Path] = []
    strange: list[Problem] = []
    folders = sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    for folder in folders if depth else []:
        if folder.is_symlink():
            strange.append(Problem(folder, "is a symbolic link, which is not followed; to include it, name it"))
            continue
        try:
            inner, odd = _search(folder, depth - 1)
        except OSError as error:
            inner, odd = [], [Problem(folder, f"cannot be read ({error.strerror})")]
        found += inner
        strange += odd if inner or odd else [_nothing_in(folder)]
    return (found, strange) if found else ([], [])


def _nothing_in(folder: Path) -> Problem:
    if (folder / ".lock").exists():
        return Problem(folder, "a run that was started but never got its config.json")
    return Problem(folder, "holds no run (no config.json in it)" if any(folder.iterdir()) else "is empty")


def _names(paths: list[Path]) -> list[str]:
    """The last parts of each path, as many as it takes to tell all of them apart."""
    names = [path.name for path in paths]
    for length in range(2, max((len(path.parts) for path in paths), default=0) + 1):
        count = Counter(names)
        if max(count.values()) == 1:
            break
        names = [
            "/".join(path.parts[-length:]) if count[name] > 1 else name for path, name in zip(paths, names, strict=True)
        ]
    return names


def _load(root: Path, problems: list[Problem]) -> Run:
    """One run directory; a ValueError if it cannot be read. What is left out of it is added to `problems`."""
    run = RunDir(root)
    try:
        config = read_object(run.config, root)
    except Unreadable as error:
        raise ValueError(f"config.json {error.what}") from None
    provenance = config.pop("provenance", None)
    provenance = provenance if isinstance(provenance, dict) else {}
    _check_config(config, provenance)
    owner = run.owner()
    lines = {}
    for path in (run.evals, run.metrics, run.analysis, run.timings):
        is_right = _is_eval if path == run.evals else _is_line
        lines[path.stem], complaints = _read_lines(path, root, is_right, cut_is_a_problem=owner is None)
        problems += [Problem(path, what) for what in complaints]
    return Run(
        path=root,
        name=root.name,
        config=config,
        provenance=provenance,
        **lines,
        status=_status(run, owner, config["training"]["total_steps"], lines["evals"]),
        films=tuple(_files(run.films, root, (".mp4",), problems)),
        figures=_figures(run, problems),
    )


def _figures(run: RunDir, problems: list[Problem]) -> dict[str, tuple[Path, ...]]:
    figures: dict[str, tuple[Path, ...]] = {}
    for path in _files(run.figures, run.root, (".png", ".svg", ".csv", ".json"), problems):
        figures[path.stem] = (*figures.get(path.stem, ()), path)
    return figures


def _files(folder: Path, root: Path, suffixes: tuple[str, ...], problems: list[Problem]) -> list[Path]:
    """The regular files with these suffixes in a folder of a run. Links and the like are reported."""
    try:
        entries = list_folder(folder, root)
    except OSError as error:
        problems.append(Problem(folder, f"{error.strerror}; left out"))
        return []
    files = []
    for entry in entries:
        path = folder / entry.name
        if path.suffix in suffixes and not entry.name.startswith("."):
            if entry.is_file(follow_symlinks=False):
                files.append(path)
            else:
                link = "is a symbolic link, and links in a run are not followed"
                problems.append(Problem(path, f"{link if entry.is_symlink() else 'is not a regular file'}; left out"))
    return files


def _check_config(config: Mapping[str, Any], provenance: Mapping[str, Any]) -> None:
    """A ValueError if this version cannot read a run with this config.json."""
    records = provenance.get("records", 1)
    if not _is_count(records) or records > RECORDS_VERSION:
        raise ValueError(
            f"its files have version {records!r}, but this cbm-rl reads up to {RECORDS_VERSION}: pip install -U cbm-rl"
        )
    env, training = config.get("env"), config.get("training")
    needed = {
        "agent_name": isinstance(config.get("agent_name"), str),
        "seed": _is_count(config.get("seed")),
        "preset": isinstance(config.get("preset", ""), str),
        "env.distraction": not isinstance(env, dict) or isinstance(env.get("distraction", ""), str),
        "env.task": isinstance(env, dict) and (isinstance(env.get("task"), str) or env.get("env_id") is not None),
        "training.total_steps": isinstance(training, dict) and _is_count(training.get("total_steps")),
    }
    if missing := [name for name, there in needed.items() if not there]:
        raise ValueError(f"its config.json is not that of a cbm run ({', '.join(missing)} missing or wrong)")


def _status(run: RunDir, owner: str | None, total_steps: int, evals: tuple[Line, ...]) -> Status:
    if owner is not None:
        return Status("running", f"process {owner}")
    if evals and evals[-1]["env_step"] >= total_steps:
        return Status("complete")
    with suppress(Unreadable):
        told = read_object(run.ended, run.root)
        if told.get("how") in ("stopped", "failed"):
            return Status(told["how"], str(told.get("reason", "")))
    return Status("stopped", "its process ended without a word: killed, or the machine went down")


def _read_lines(
    path: Path, root: Path, is_right: Callable[[Any], bool], cut_is_a_problem: bool
) -> tuple[tuple[Line, ...], list[str]]:
    """The good lines of a JSON lines file, and what is wrong with the others."""
    try:
        found = path.lstat()
        lines = _parse_lines(path, root, is_right, found.st_size, found.st_mtime_ns)
    except FileNotFoundError:
        return (), []
    except OSError as error:
        return (), [f"cannot be read ({error.strerror})"]
    complaints = ["its last line was cut short and is left out"] if lines.cut and cut_is_a_problem else []
    for numbers, what in ((lines.broken, "not JSON"), (lines.odd, "not in the form that this version writes")):
        if numbers:
            named = f"line {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} lines (first: {numbers[0]})"
            complaints.append(f"{named} {what}; left out")
    return tuple(lines.good), complaints


@lru_cache(4096)  # a page that is served during training reads the same files again and again
def _parse_lines(path: Path, root: Path, is_right: Callable[[Any], bool], size: int, modified: int) -> Lines:
    return parse_lines(read_file(path, root), is_right)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


def is_number(value: object) -> bool:
    """Whether it is a number that a figure can show."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300


def _is_line(line: object) -> bool:
    return isinstance(line, dict) and _is_count(line.get("env_step"))


def _is_eval(line: Any) -> bool:
    splits = [line[split] for split in ("train", "unseen") if split in line] if _is_line(line) else []
    return bool(splits) and all(isinstance(split, dict) and is_number(split.get("mean")) for split in splits)
