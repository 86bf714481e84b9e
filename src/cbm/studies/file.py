"""A user's own study: a TOML file of a few lines.

title = "Does a larger batch help?"
tasks = ["cartpole-swingup", "walker-walk"]
seeds = 3

[methods]
plain = { agent = "drqv2" }
"CBM, batch 256" = { agent = "drqv2+cbm", "agent.batch_size" = 256 }

[variants]
easy = { env.distraction = "easy" }
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from cbm.errors import CBMError, UnknownChoice
from cbm.schema.ranges import Range
from cbm.schema.tree import flatten, from_json
from cbm.studies.define import SCALES, Grid, Settings, Study
from cbm.studies.paper import STUDIES

Names = tuple[str, ...]
Number = Annotated[int, Range(1)]
_QUOTES = 'Write settings of an agent in quotes next to its name: { agent = "drqv2+cbm", "agent.lr" = 1e-3 }.'


@dataclass(frozen=True)
class GridTable:
    """A [[grid]], or the same lines at the top level of a file without one."""

    tasks: Names = ()
    methods: Names | Mapping[str, Any] = ()
    variants: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ScaleTable:
    """What differs at a scale."""

    tasks: Names = ()
    methods: Names = ()
    variants: Names = ()
    seeds: Number | None = None
    set: Any = field(default_factory=dict)


@dataclass(frozen=True)
class StudyFile(GridTable):
    title: str | None = None
    scale: Literal["paper", "laptop", "smoke"] = "laptop"
    seeds: Number | None = None
    set: Any = field(default_factory=dict)
    final_episodes: Number | Literal[0] = 0
    analyses: Names = ()
    grid: tuple[GridTable, ...] = ()
    paper: ScaleTable = ScaleTable()
    laptop: ScaleTable = ScaleTable()
    smoke: ScaleTable = ScaleTable()


def find_study(name: str) -> Study:
    """A study of the paper by name, or a user's own by the path of its file."""
    if name in STUDIES:
        return STUDIES[name]
    if name.endswith(".toml"):
        return read_study(Path(name))
    raise CBMError(f"{UnknownChoice('study', name, STUDIES)} A study of your own is a file: my-study.toml.")


def read_study(path: Path) -> Study:
    """The study in a TOML file. Errors name what is wrong and what to write instead."""
    try:
        data = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise CBMError(f"there is no file {path}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CBMError(f"{path} is not TOML: {error}. {_QUOTES if 'overwrite' in str(error) else ''}") from error
    try:
        return _study(path.stem, data)
    except CBMError as error:
        raise CBMError(f"{path}: {error}") from error


def _study(name: str, data: dict[str, Any]) -> Study:
    if name in STUDIES:
        raise CBMError(f"{name!r} is the name of a study of the paper; call the file something else.")
    if not isinstance(data.get("grid", []), list):
        raise CBMError("write every grid as a table [[grid]], with tasks and methods.")
    file = from_json(StudyFile, data)
    if file.grid and (file.tasks or file.methods or file.variants):
        raise CBMError("in a file with [[grid]] tables, tasks, methods and variants go into those tables.")
    tables: dict[str, ScaleTable] = {scale: getattr(file, scale) for scale in SCALES}
    return Study(
        name=name,
        title=name if file.title is None else file.title,
        grids=tuple(_grid(grid) for grid in file.grid or (file,)),
        seeds=file.seeds,
        set=_settings("set", file.set),
        final_episodes=file.final_episodes,
        analyses=file.analyses,
        scales={scale: asdict(own) | {"set": _settings(f"{scale}.set", own.set)} for scale, own in tables.items()},
        default_scale=file.scale,
    )


def _grid(data: GridTable) -> Grid:
    if not data.tasks:
        raise CBMError('name the tasks: tasks = ["cartpole-swingup"].')
    if not data.methods:
        raise CBMError('say which methods to compare: methods = ["drqv2", "drqv2+cbm"], or a table [methods].')
    methods = data.methods
    if isinstance(methods, Mapping):
        methods = {label: _settings(f"methods.{label}", value) for label, value in methods.items()}
        for label, settings in methods.items():
            if not isinstance(settings.get("agent"), str):
                raise CBMError(f'methods.{label} needs an agent: {{ agent = "drqv2+cbm" }}. {_QUOTES}')
    variants = {label: _settings(f"variants.{label}", value) for label, value in data.variants.items()}
    return Grid(data.tasks, methods, variants or {"": {}})


def _settings(where: str, data: Any) -> Settings:
    """Nested tables as dotted names. In a method, `agent` is the agent's name."""
    if not isinstance(data, Mapping):
        raise CBMError(f"{where} must be a table of settings, such as {{ agent.lr = 1e-3 }}, not {data!r}.")
    return flatten(data)
