"""A study: grids of tasks x methods x variants, times seeds, at a scale. `make_plan` resolves it into runs.

A run is named after its resolved configuration, with a hash of everything in it that can change a result. So two
studies share the runs that they have in common, and a changed definition never picks up results of the old one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from cbm.config import EnvConfig, RunConfig, effect_of, make_config, to_json
from cbm.errors import CBMError, choose
from cbm.schema.tree import Effect, as_text, flatten, override

Settings = Mapping[str, Any]  # dotted names of the configuration and their values


@dataclass(frozen=True)
class Scale:
    preset: str
    seeds: int
    set: Settings = field(default_factory=dict)  # overrides the study, where the agent has such a setting
    final_episodes: int | None = None  # the most there may be


SCALES: dict[str, Scale] = {
    "paper": Scale("paper", seeds=5),
    "laptop": Scale("laptop", seeds=2),
    "smoke": Scale(  # seconds per run: shows whether everything works, not what the results are
        "laptop",
        seeds=1,
        set={
            "env.size": 32,
            "env.action_repeat": 20,
            "agent.batch_size": 8,
            "agent.length": 8,
            "agent.imagined": 4,
            "agent.horizon": 3,
            "agent.model_first": 20,
            "agent.memory_dim": 32,
            "agent.conv_channels": 8,
            "agent.conv_layers": 3,
            "agent.hidden_dim": 32,
            "training.total_steps": 2_000,
            "training.seed_steps": 1_000,
            "training.replay_capacity": 2_000,
            "training.eval_every": 2_000,
            "training.eval_episodes": 1,
            "training.analyze_every": 0,
            "training.log_every": 200,
            "training.film": False,
        },
        final_episodes=2,
    ),
}


@dataclass(frozen=True)
class Grid:
    """Every task with every method in every variant.

    A method is the name of an agent, or a label with an `agent` and settings. A variant is a label with settings,
    usually of the environment.
    """

    tasks: tuple[str, ...]
    methods: tuple[str, ...] | Mapping[str, Settings]
    variants: Mapping[str, Settings] = field(default_factory=lambda: {"": {}})

    def named_methods(self) -> Mapping[str, Settings]:
        return self.methods if isinstance(self.methods, Mapping) else {name: {"agent": name} for name in self.methods}


@dataclass(frozen=True)
class Study:
    """A few declarative lines; `paper.py` has examples."""

    name: str
    title: str
    grids: tuple[Grid, ...]
    source: str = "not in the paper"
    seeds: int | None = None  # None: those of the scale
    set: Settings = field(default_factory=dict)  # for every run
    final_episodes: int = 0  # episodes on unseen videos with the finished agent
    analyses: tuple[str, ...] = ()  # for each finished run, in addition to curves and scores
    scales: Mapping[str, Settings] = field(default_factory=dict)  # scale -> its own `tasks`, `seeds`, ..., `set`
    default_scale: str = "laptop"


@dataclass(frozen=True)
class Choice:
    """The part of a study that the user asks for, and what to change in it. Empty means all of it."""

    scale: str | None = None
    tasks: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    seeds: int | None = None
    set: tuple[tuple[str, str], ...] = ()  # dotted name, value as typed


@dataclass(frozen=True)
class PlannedRun:
    name: str  # of its directory
    task: str
    method: str
    variant: str
    seed: int
    config: Mapping[str, Any]  # the resolved configuration, as in config.json
    final_episodes: int = 0

    @property
    def label(self) -> str:
        return ", ".join(filter(None, (self.task, self.method, self.variant, f"seed {self.seed}")))

    @property
    def total_steps(self) -> int:
        return self.config["training"]["total_steps"]


@dataclass(frozen=True)
class Plan:
    study: Study
    scale: str
    runs: tuple[PlannedRun, ...]

    @property
    def title(self) -> str:
        return f"{self.study.name}-{self.scale}"

    def distinct(self, part: str) -> list[Any]:
        """The tasks, methods, variants or seeds that occur, in order."""
        return list(dict.fromkeys(getattr(run, part) for run in self.runs))


class GridPoint(NamedTuple):
    """One point of a grid: runs that differ only in their seeds."""

    task: str
    method: str
    variant: str
    changes: Settings


def make_plan(study: Study, choice: Choice) -> Plan:
    """Every run that `choice` asks for, ordered by seed: everything runs once before anything runs a second time."""
    name = study.default_scale if choice.scale is None else choice.scale
    scale, cells = choose("scale", name, SCALES), _cells(study, name, choice)
    runs: dict[str, PlannedRun] = {}
    for seed in range(1, _seeds(study, name, choice) + 1):
        for cell in cells:
            config = _resolve(study, name, cell, seed, choice.set)
            final = study.final_episodes if "unseen" in config.env.splits else 0
            final = final if scale.final_episodes is None else min(final, scale.final_episodes)
            run = PlannedRun(run_name(config), *cell[:3], seed, to_json(config), final)
            runs.setdefault(run.name, run)
    return Plan(study, name, tuple(runs.values()))


def count(study: Study, scale: str) -> int:
    """How many runs a study has at a scale."""
    return len(_cells(study, scale, Choice())) * _seeds(study, scale, Choice())


def _seeds(study: Study, scale: str, choice: Choice) -> int:
    if choice.seeds is not None and choice.seeds < 1:
        raise CBMError(f"--seeds must be at least 1, not {choice.seeds}.")
    own = None if scale == "smoke" else study.seeds
    return choice.seeds or study.scales.get(scale, {}).get("seeds") or own or SCALES[scale].seeds


def _cells(study: Study, scale: str, choice: Choice) -> list[GridPoint]:
    cells = [
        GridPoint(task, method, variant, {**study.set, **of_method, **of_variant})
        for grid in study.grids
        for variant, of_variant in grid.variants.items()
        for task in grid.tasks
        for method, of_method in grid.named_methods().items()
    ]
    for part in ("task", "method", "variant"):
        known = dict.fromkeys(getattr(cell, part) for cell in cells)
        for wanted in (study.scales.get(scale, {}).get(f"{part}s"), getattr(choice, f"{part}s")):
            if wanted:
                for label in wanted:
                    choose(f"{part} of the study {study.name}", label, known)
                cells = [cell for cell in cells if getattr(cell, part) in wanted]
    if not cells:
        raise CBMError(f"no run of {study.name} matches all of these. `cbm study show {study.name}` lists them.")
    return cells


def _resolve(study: Study, scale: str, cell: GridPoint, seed: int, typed: Iterable[tuple[str, str]]) -> RunConfig:
    changes, task = dict(cell.changes), cell.task
    env = EnvConfig(env_id=task) if ":" in task else EnvConfig(task)
    config = make_config(changes.pop("agent"), env, SCALES[scale].preset, seed)
    known, own = flatten(to_json(config)), study.scales.get(scale, {}).get("set", {})
    of_scale = [(name, value) for name, value in SCALES[scale].set.items() if name in known]
    for name, value in (*changes.items(), *of_scale, *own.items(), *typed):
        config = override(config, name, as_text(value))
    return config


def run_name(config: RunConfig) -> str:
    """A readable description of the run, and a hash of everything that can change its result."""
    essence = to_json(config)
    for each in fields(config.training):
        if effect_of(f"training.{each.name}") <= Effect.ROUNDING:
            essence["training"][each.name] = each.default
    text = json.dumps(essence, sort_keys=True)
    return f"{config.run_name}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
