"""The verb `cbm zoo`: list, show, add, push and pull."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.table import Table
from tyro.conf import Positional, arg

from cbm.errors import CBMError

if TYPE_CHECKING:
    from cbm.runs.zoo.entries import Entry


@dataclass(frozen=True)
class List:
    """List the available agents, with their last returns."""

    json: bool = False
    """Print one JSON object."""

    def __call__(self) -> int:
        from cbm.runs.zoo.entries import BadEntry, folders, list_entries, read_about
        from cbm.schema.tree import to_json

        table = Table("name", "distraction", "steps", "seed", "training videos", "unseen", box=None, pad_edge=False)
        found, problems = {}, []
        for name, root in list_entries().items():
            try:
                about = found[name] = read_about(root)
            except BadEntry as error:
                problems.append(str(error))
                continue
            returns = [_mean(about.returns[split]) if split in about.returns else "-" for split in ("train", "unseen")]
            table.add_row(name, about.distraction, f"{about.env_step:,}", str(about.made.seed), *returns)
        if self.json:
            print(json.dumps({name: to_json(about) for name, about in found.items()}, indent=2))
        elif found:
            Console().print(table)
            print("\nThe last columns are mean returns. `cbm zoo show NAME` has the details; use zoo:NAME as a run.")
        elif not problems:
            print(f"no agents in {', '.join(map(str, folders()))}. Make one: cbm zoo add RUN")
        for problem in problems:
            print(problem)
        return 1 if problems else 0


@dataclass(frozen=True)
class Show:
    """Show how an agent was made (command, commit, seed), and its returns. Checks every file."""

    name: Annotated[Positional[str], arg(metavar="NAME")]
    """A name from `cbm zoo list`."""

    def __call__(self) -> int:
        from cbm.runs.zoo.entries import open_entry

        entry = open_entry(self.name)
        about, made = entry.about, entry.about.made
        rows = {
            "agent": f"{about.agent} on {about.task}, {about.distraction}, {about.env_step:,} environment steps",
            **{f"{split} videos": f"{_mean(own)}: {_listed(own)}" for split, own in about.returns.items()},
            "command": made.command,
            "commit": made.commit or "unknown",
            "seed": str(made.seed),
            "begun": made.created or "unknown",
            "versions": ", ".join(f"{name} {version}" for name, version in (made.versions or {}).items() if version),
            "files": f"{len(about.files)}, {_megabytes(entry)}, all checksums match",
            "in": str(entry.root),
        }
        for name, text in rows.items():  # not wrapped: the command is there to be copied
            print(f"{name:<13} {text}")
        return 0


@dataclass(frozen=True)
class Add:
    """Make an entry from a run's newest checkpoint: weights, configuration, records, returns and checksums."""

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """Run directory."""
    name: str | None = None
    """Name of the entry. None: TASK/AGENT."""
    replace: bool = False
    """Replace an entry of that name."""

    def __call__(self) -> int:
        from cbm.runs.zoo.add import add

        entry = add(self.run, self.name, self.replace)
        print(f"zoo:{entry.name} ({_megabytes(entry)}) in {entry.root}\nmade by: {entry.about.made.command}")
        return 0


@dataclass(frozen=True)
class Push:
    """Upload entries to a repository of the Hugging Face Hub, in one commit."""

    names: Annotated[Positional[tuple[str, ...]], arg(metavar="NAME")] = ()
    """Names from `cbm zoo list`. If omitted: all of them."""
    repo: Annotated[str, arg(metavar="USER/NAME")] = ""
    """The repository; it is created if it does not exist."""
    private: bool = False
    """Create it as a private repository."""

    def __call__(self) -> int:
        from cbm.runs.zoo.entries import list_entries
        from cbm.runs.zoo.hub import push

        names = self.names or tuple(list_entries())
        if not names:
            raise CBMError("there is nothing to push. Make an entry first: cbm zoo add RUN")
        print(f"pushed {', '.join(names)}: {push(names, self.repo, self.private)}")
        return 0


@dataclass(frozen=True)
class Pull:
    """Download entries from a repository of the Hugging Face Hub to $CBM_ZOO or the cache, and check them."""

    names: Annotated[Positional[tuple[str, ...]], arg(metavar="NAME")] = ()
    """Names of entries in the repository. If omitted: all of them."""
    repo: Annotated[str, arg(metavar="USER/NAME")] = ""
    """The repository."""
    revision: str | None = None
    """A branch, tag or commit. None: the newest."""
    replace: bool = False
    """Replace entries that already exist."""

    def __call__(self) -> int:
        from cbm.runs.zoo.hub import pull

        for entry in pull(self.names, self.repo, self.revision, self.replace):
            print(f"zoo:{entry.name} in {entry.root}")
        return 0


def zoo(args: Annotated[List | Show | Add | Push | Pull, arg(name="")]) -> int:
    """Trained agents. `zoo:NAME` works wherever a run directory does: cbm eval zoo:NAME."""
    return args()


def _megabytes(entry: Entry) -> str:
    return f"{sum(file.bytes for file in entry.about.files.values()) / 1e6:.2f} MB"


def _mean(returns: tuple[float, ...]) -> str:
    return f"{sum(returns) / len(returns):.0f}" if returns else "-"


def _listed(returns: tuple[float, ...]) -> str:
    return ", ".join(f"{value:.1f}" for value in returns)
