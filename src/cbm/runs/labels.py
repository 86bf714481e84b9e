"""Which runs belong together: labels for their method and their distraction.

Runs are averaged over seeds only if nothing else distinguishes them. Two runs of `drqv2+cbm` with 32 and 128 prototypes
are two methods here, labelled by the setting in which they differ. The most common value is left out of the label. Runs
that have even their seed in common are not separate seeds (they may be from before and after a change of the code), so
they are labelled by their folders.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import PurePath
from typing import Any, NamedTuple

from cbm.config import effect_of
from cbm.envs.conditions import Conditions
from cbm.runs.read import Run
from cbm.schema.tree import Effect, flatten

_BESIDE_THE_POINT = frozenset({"seed", "preset", "agent_name"})
_OF_THE_DISTRACTION = frozenset(
    f"env.{name}" for name in ("task", "env_id", "renderer", *(field.name for field in fields(Conditions)))
)
_SAID = {  # what a label says about a condition that is not the default
    "scale": "scale {}",
    "camera_scale": "camera {}",
    "color_scale": "colour {}",
    "num_videos": "{} videos",
    "video_names": "videos {}",
    "video_alpha": "alpha {}",
    "camera_id": "camera id {}",
    "task_kwargs": "{}",
}


class Labels(NamedTuple):
    method: str
    distraction: str


def label_runs(runs: Sequence[Run]) -> list[Labels]:
    """The labels of each run, among these runs."""
    distractions = [distraction_label(run) for run in runs]
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    told = _settings(runs)
    for index, run in enumerate(runs):
        alike[run.agent, *told[index], run.task, distractions[index]].append(index)
    for members in alike.values():
        for index, folder in zip(members, _folders([runs[i] for i in members]), strict=True):
            told[index] += [folder] if folder else []
    methods = [run.agent + (f" ({', '.join(parts)})" if parts else "") for run, parts in zip(runs, told, strict=True)]
    return list(map(Labels, methods, distractions))


def _settings(runs: Sequence[Run]) -> list[list[str]]:
    """For each run, what sets it apart from others of its agent: the preset, if there are several, and settings."""
    flat = [flatten(run.config) for run in runs]
    presets = len({run.preset for run in runs}) > 1
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, run in enumerate(runs):
        groups[run.agent, run.preset].append(index)
    told: list[list[str]] = [[] for _ in runs]
    for (_, preset), members in groups.items():
        varying = _varying([(runs[i].task, flat[i]) for i in members])
        usual = {key: _most_common(_shown(flat[i][key]) for i in members if key in flat[i]) for key in varying}
        for i in members:
            own = {key: _shown(flat[i][key]) for key in varying if key in flat[i]}
            settings = [f"{key.rpartition('.')[2]} {value}" for key, value in own.items() if value != usual[key]]
            told[i] = [*([preset] if presets else []), *settings]
    return told


def _folders(runs: Sequence[Run]) -> list[str]:
    """The part of each path that tells runs with the same seed apart; empty if every seed occurs only once.

    Among the parts that do, the one with the fewest values, and then the innermost: `before` and `after` for before/s0,
    before/s1, after/s0 and after/s1.
    """
    seeds = [run.seed for run in runs]
    if len(set(seeds)) == len(runs):
        return [""] * len(runs)
    columns = zip(*(reversed(run.path.resolve().parts) for run in runs), strict=False)
    telling = [column for column in columns if len(set(zip(column, seeds, strict=True))) == len(runs)]
    return list(min(telling, key=lambda column: len(set(column)), default=[run.name for run in runs]))


def _varying(configs: list[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Settings in which runs of one agent on the same task differ. Runs that lack a setting are ignored for it."""
    found = set[str]()
    for task in {task for task, _ in configs}:
        same = [config for at, config in configs if at == task]
        for key in filter(_counts, set[str]().union(*same)):
            if len({_shown(config[key]) for config in same if key in config}) > 1:
                found.add(key)
    return sorted(found)


def _most_common(values: Iterable[str]) -> str | None:
    """The value that more runs have than any other; None if there is no such value."""
    (value, first), *others = Counter(values).most_common(2)
    return None if others and others[0][1] == first else value


def _counts(key: str) -> bool:
    if key in _BESIDE_THE_POINT or key in _OF_THE_DISTRACTION or key.startswith("env.task_kwargs."):
        return False
    return effect_of(key) == Effect.RESULT


def distraction_label(run: Run) -> str:
    """The distraction with what was changed in it: `background, 8 videos, dynamic`."""
    env = run.config["env"]
    parts = [run.distraction]
    for name, phrase in _SAID.items():
        usual = getattr(Conditions, name)
        if env.get(name, usual) != usual:
            parts.append(phrase.format(_shown(env[name])))
    if env.get("dynamic"):
        parts.append("dynamic")
    if run.distraction != "none" and env.get("videos", "builtin") != "builtin":
        parts.append(f"videos of {PurePath(str(env['videos'])).name}")
    return ", ".join(parts)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(item)}" for name, item in value.items())
    return ",".join(map(_shown, value)) if isinstance(value, list | tuple) else str(value)
