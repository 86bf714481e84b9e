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
from pathlib import Path
from typing import Any

from cbm.errors import CBMError
from cbm.schema.tree import unknown_key
from cbm.studies.define import SCALES, Grid, Settings, Study
from cbm.studies.paper import STUDIES

_QUOTES = 'Write settings of an agent in quotes next to its name: { agent = "drqv2+cbm", "agent.lr" = 1e-3 }.'
_GRID = ("tasks", "methods", "variants")
_KEYS = ("title", "scale", "seeds", "set", "final_episodes", "analyses", "grid", *_GRID, *SCALES)
_NARROW = ("tasks", "methods", "variants", "seeds", "set")


def find_study(name: str) -> Study:
    """A study of the paper by name, or a user's own by the path of its file."""
    if name in STUDIES:
        return STUDIES[name]
    if name.endswith(".toml"):
        return read_study(Path(name))
    from cbm.errors import UnknownChoice

    raise CBMError(f"{UnknownChoice('study', name, STUDIES)} A study of your own is a file: my-study.toml.")


def read_study(path: Path) -> Study:
    """The study in a TOML file. Whatever is wrong in it is named, with what to write instead."""
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


def _study(name: str, data: Mapping[str, Any]) -> Study:
    for key in data:
        if key not in _KEYS:
            raise unknown_key(key, list(_KEYS))
    if name in STUDIES:
        raise CBMError(f"{name!r} is the name of a study of the paper; call the file something else.")
    grids = data.get("grid", [data])
    if not isinstance(grids, list) or not all(isinstance(grid, Mapping) for grid in grids) or not grids:
        raise CBMError("write each of several grids as [[grid]], with tasks and methods.")
    if "grid" in data and any(key in data for key in _GRID):
        raise CBMError("tasks, methods and variants go into the [[grid]] tables where there are such.")
    scale = _typed(data, "scale", str, "laptop")
    if scale not in SCALES:
        raise CBMError(f"scale must be one of {', '.join(SCALES)}, not {scale!r}.")
    return Study(
        name=name,
        title=_typed(data, "title", str, name),
        grids=tuple(_grid(grid) for grid in grids),
        seeds=_typed(data, "seeds", int, None),
        set=_settings("set", _typed(data, "set", dict, {})),
        final_episodes=_typed(data, "final_episodes", int, 0),
        analyses=_names(data, "analyses"),
        scales={scale: _narrow(scale, _typed(data, scale, dict, {})) for scale in SCALES},
        default_scale=scale,
    )


def _grid(data: Mapping[str, Any]) -> Grid:
    tasks = _names(data, "tasks")
    if not tasks:
        raise CBMError('say on which tasks: tasks = ["cartpole-swingup"].')
    methods = data.get("methods")
    if not methods:
        raise CBMError('say which methods to compare: methods = ["drqv2", "drqv2+cbm"], or a table [methods].')
    if isinstance(methods, Mapping):
        methods = {label: _settings(f"methods.{label}", value, agent=True) for label, value in methods.items()}
    else:
        methods = _names(data, "methods")
    variants = {
        label: _settings(f"variants.{label}", value) for label, value in _typed(data, "variants", dict, {}).items()
    }
    return Grid(tasks, methods, variants or {"": {}})


def _settings(where: str, data: Any, agent: bool = False) -> Settings:
    """Nested tables as dotted names. Of a method, `agent` is the name."""
    if not isinstance(data, Mapping):
        raise CBMError(f"{where} must be a table of settings, such as {{ agent.lr = 1e-3 }}, not {data!r}.")
    flat: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": item for inner, item in _settings(f"{where}.{name}", value).items()}
        else:
            flat[name] = value
    if agent and not isinstance(flat.get("agent"), str):
        raise CBMError(f'{where} needs an agent: {{ agent = "drqv2+cbm" }}. {_QUOTES}')
    return flat


def _narrow(scale: str, data: Mapping[str, Any]) -> Settings:
    for key in data:
        if key not in _NARROW:
            raise unknown_key(f"{scale}.{key}", list(_NARROW))
    narrow: dict[str, Any] = {part: _names(data, part) for part in _NARROW[:3] if part in data}
    if "seeds" in data:
        narrow["seeds"] = _typed(data, "seeds", int, None)
    if "set" in data:
        narrow["set"] = _settings(f"{scale}.set", data["set"])
    return narrow


def _names(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = data.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise CBMError(f"{key} must be a list of names, such as {key} = [{_EXAMPLE.get(key, '')}], not {value!r}.")
    return tuple(value)


_EXAMPLE = {"tasks": '"cartpole-swingup"', "methods": '"drqv2", "drqv2+cbm"'}
_WORDS = {str: "a text", int: "a whole number", dict: "a table"}


def _typed(data: Mapping[str, Any], key: str, kind: type, default: Any) -> Any:
    value: Any = data.get(key, default)
    if value is default:
        return value
    if not isinstance(value, kind) or isinstance(value, bool):
        raise CBMError(f"{key} must be {_WORDS[kind]}, not {value!r}.")
    if isinstance(value, int) and value < 1:
        raise CBMError(f"{key} must be at least 1, not {value}.")
    return value
