"""The entries of the zoo, found and checked. Reading them needs no PyTorch.

    cartpole-swingup/drqv2+cbm/      the entry's name
      entry.json                     how it was made, its returns, size and SHA-256 of every other file
      config.json  evals.jsonl  ...  as in any run directory
      checkpoint/000500000/          the weights, without optimizers

An entry may come from anybody. It holds no code and no pickle, only files with known names, and it is opened only if
all of them are as entry.json says.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cbm.errors import CBMError, UnknownChoice
from cbm.schema.ranges import Form, Range, StepsOrZero
from cbm.schema.tree import BadSetting, from_json
from cbm.system.files import Unreadable, read_file, read_object

FORM = 1  # version of entry.json; readers refuse newer ones
PREFIX = "zoo:"
RECORDS = ("evals.jsonl", "analysis.jsonl", "metrics.jsonl")
WEIGHTS = ("manifest.json", "state.json", "tensors.safetensors")
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*(/[A-Za-z0-9][\w.+-]*){0,2}", re.ASCII)
_MAX_BYTES = 2 << 30  # of a file; ours have a few million at most


class BadEntry(CBMError):
    """An entry that is damaged, foreign or newer than this version."""


@dataclass(frozen=True)
class Made:
    """How an agent was made."""

    command: str
    """The command that trains it again."""
    seed: int
    commit: str | None = None
    """The commit of the code that trained it, with a `+` if that had been changed."""
    created: str | None = None
    """When training began."""
    versions: Mapping[str, str | None] | None = None
    """The versions of the packages that it was trained with."""


@dataclass(frozen=True)
class File:
    """What a file of an entry must be."""

    bytes: Annotated[int, Range(0, _MAX_BYTES)]
    sha256: Annotated[str, Form(r"[0-9a-f]{64}", "a SHA-256")]


@dataclass(frozen=True)
class EntryJson:
    """The content of entry.json."""

    zoo: int
    agent: str
    task: str
    distraction: str
    env_step: StepsOrZero
    returns: Mapping[str, tuple[float, ...]]
    """For each split of the videos, the returns of the last evaluation, which `cbm eval` plays again."""
    made: Made
    files: Mapping[str, File]


@dataclass(frozen=True)
class Entry:
    """One complete agent of the zoo."""

    name: str
    root: Path
    about: EntryJson


def is_reference(run: Path | str) -> bool:
    """Whether RUN on a command line means an entry of the zoo."""
    return str(run).startswith(PREFIX)


def folders() -> list[Path]:
    """Where to look for entries, in this order: `$CBM_ZOO`, the clone that this package runs from, and what
    `cbm zoo pull` has fetched."""
    clone = Path(__file__).resolve().parents[4]
    own = [clone / "zoo"] if (clone / "src" / "cbm").is_dir() and (clone / "pyproject.toml").is_file() else []
    return [pulled_folder(), *own] if os.environ.get("CBM_ZOO") else [*own, pulled_folder()]


def pulled_folder() -> Path:
    """Where `cbm zoo pull` puts entries: `$CBM_ZOO`, else the cache."""
    from cbm.envs.videos.cache import cache_dir

    chosen = os.environ.get("CBM_ZOO")
    return Path(chosen).expanduser() if chosen else cache_dir() / "zoo"


def list_entries() -> dict[str, Path]:
    """Every entry by name; none is opened."""
    found: dict[str, Path] = {}
    for folder in folders():
        for file in folder.rglob("entry.json"):  # which does not follow links
            name = file.parent.relative_to(folder).as_posix()
            if _NAME.fullmatch(name):
                found.setdefault(name, file.parent)
    return dict(sorted(found.items()))


def check_name(name: str) -> str:
    """Raise an error if `name` cannot be the name of an entry."""
    if not _NAME.fullmatch(name):
        raise CBMError(
            f"{name!r} cannot be a name in the zoo: letters, digits and . _ + -, in up to three parts with / between "
            "them, such as cartpole-swingup/drqv2+cbm."
        )
    return name


def open_entry(name: str) -> Entry:
    """The entry called `name`, with or without `zoo:`, all of its files checked."""
    name = name.removeprefix(PREFIX)
    known = list_entries()
    if name not in known:
        if not known:
            places = ", ".join(map(str, folders()))
            raise CBMError(
                f"the zoo is empty (looked in {places}). Fill it: cbm zoo add RUN, or cbm zoo pull --repo REPO"
            )
        raise UnknownChoice("agent of the zoo", name, known)
    return Entry(name, known[name], verify(known[name]))


def read_about(root: Path) -> EntryJson:
    """The entry.json of an entry. Its other files are not checked."""
    path = root / "entry.json"
    try:
        found = read_object(path, root)
    except Unreadable as error:
        raise BadEntry(f"{root} is not a complete entry of the zoo: entry.json {error.what}.") from None
    form = found.get("zoo")
    if not isinstance(form, int) or isinstance(form, bool):
        raise BadEntry(f"{path} does not describe an entry of the zoo.")
    if form > FORM:
        raise BadEntry(
            f"{root} is an entry of version {form}, but this cbm-rl reads up to {FORM}. Type: pip install -U cbm-rl"
        )
    try:
        about = from_json(EntryJson, found)
    except BadSetting as error:
        raise BadEntry(f"{path} does not describe an entry of the zoo: {error}") from None
    weights = [f"checkpoint/{about.env_step:09d}/{name}" for name in WEIGHTS]
    for name in ("config.json", *weights):
        if name not in about.files:
            raise BadEntry(f"{path} does not describe an entry of the zoo: it lists no {name}.")
    for name in about.files:
        if name not in ("config.json", *RECORDS, *weights):
            raise BadEntry(f"{path} lists {name!r}, which does not belong in an entry of the zoo.")
    return about


def verify(root: Path) -> EntryJson:
    """The entry.json of an entry whose files are all there and match it, with nothing else in the folder."""
    about = read_about(root)
    for name, file in about.files.items():
        try:
            data = read_file(root / name, root, _MAX_BYTES)
            same = len(data) == file.bytes and hashlib.sha256(data).hexdigest() == file.sha256
            wrong = "" if same else "does not match its SHA-256"
        except OSError as error:
            wrong = f"cannot be read ({error.strerror})"
        if wrong:
            raise BadEntry(
                f"{root} is damaged: {name} {wrong}. "
                "Remove it and get it again with cbm zoo pull, cbm zoo add or git checkout."
            )
    for path in sorted(root.rglob("*")):
        name, is_folder = path.relative_to(root).as_posix(), path.is_dir() and not path.is_symlink()
        hidden = path.name.startswith(".")  # nothing reads it
        if not is_folder and not hidden and name not in (*about.files, "entry.json"):
            raise BadEntry(f"{root} holds {name}, which its entry.json does not list. Remove it.")
    return about
