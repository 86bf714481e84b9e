"""The configuration of a run: one frozen tree, made from a preset, written to `config.json` and read back strictly."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cbm import settings
from cbm.conditions import Conditions
from cbm.errors import CBMError, choose
from cbm.files import read_object, write_whole
from cbm.ranges import Count, Form, Range, Steps, StepsOrZero
from cbm.settings import Checked
from cbm.tasks import Noise, get_task


@dataclass(frozen=True)
class _OnTask:
    task: str = "cartpole-swingup"
    """A task of the suite; `cbm.tasks.TASKS` lists them."""


@dataclass(frozen=True)
class EnvConfig(Conditions, _OnTask, Checked):  # in this order a dataclass begins with the task, then the distraction
    """What the agent sees and how it explores. Sizes follow the paper's Table "CBM list of hyperparameters"."""

    size: Annotated[int, Range(4, 1_024)] = 84
    """Side of a frame (Table)."""
    frame_stack: Annotated[int, Range(1, 64)] = 3
    """Frames in an observation (Table)."""
    action_repeat: Annotated[int, Range(1, 1_000)] | None = None
    """Environment steps per agent step; None takes the paper's for the task, and 1 for an `env_id`."""
    renderer: Literal["fast", "exact"] = "fast"
    """fast or exact."""
    noise: Noise | None = None
    """DrQ-v2's exploration; None takes the paper's for the task (Table)."""
    env_id: str | None = None
    """Any Gymnasium environment instead of the suite, as `module:ID`."""

    @property
    def name(self) -> str:
        return self.task if self.env_id is None else self.env_id.rpartition(":")[2]

    @property
    def splits(self) -> tuple[str, ...]:
        """The sets of videos that an evaluation plays: one where there are no videos to see."""
        if self.env_id is not None or self.distraction == "none":
            return ("train",)
        from cbm.envs.distractions import shows_videos

        return ("train", "unseen") if shows_videos(self) else ("train",)

    def resolved(self) -> EnvConfig:
        """With the constants of the task filled in, and the parts of the distraction in one order."""
        repeat, noise = 1, Noise(1.0, 0.1, 100_000)
        if self.env_id is None:
            task = get_task(self.task)
            repeat, noise = task.action_repeat, task.noise
        return replace(
            self,
            distraction="+".join(self.parts) or "none",
            action_repeat=repeat if self.action_repeat is None else self.action_repeat,
            noise=noise if self.noise is None else self.noise,
        )


@dataclass(frozen=True)
class TrainingConfig(Checked):
    """How long and how often. Counts are environment steps unless they say otherwise."""

    total_steps: Steps = 500_000
    """The paper's curves end here."""
    seed_steps: StepsOrZero = 4_000
    """Uniformly random actions before the first update (Table)."""
    replay_capacity: Annotated[int, Range(2, 10**9)] = 500_000
    """Frames (Table)."""
    eval_every: Steps = 10_000
    """Between two evaluations; there is one at step 0 and one at the end too."""
    eval_episodes: Count = 10
    """On each set of videos."""
    eval_workers: Annotated[int, Range(0, 1_024)] | None = None
    """Processes that play them; None takes one a core, 0 the process that trains. Changes no result."""
    analyze_every: StepsOrZero = 30_000
    """Between two analyses of what the encoder knows; each comes with an evaluation. 0: none. Changes no result."""
    log_every: Steps = 1_000
    """Between two lines of means in metrics.jsonl."""
    checkpoint_every: Steps = 10_000
    """Between two checkpoints. Changes no result."""
    checkpoint_minutes: Annotated[float, Range(0, 1e6, above=True)] = 5.0
    """A checkpoint at least this often. Changes no result."""
    device: Annotated[str, Form(r"auto|cpu|cuda(:\d{1,3})?", "auto, cpu, cuda or cuda:NUMBER")] = "auto"
    """cpu, cuda, cuda:1; auto takes a GPU where there is one."""
    threads: Annotated[int, Range(1, 1_024)] | None = None
    """That compute an update; None takes one a core. Changes no result."""
    overlap: bool = False
    """The environment takes the next steps while an update computes, with the weights from before it."""
    film: bool = True
    """A film of the best episode of the last evaluation, when the run is complete."""


# Settings of training that say how a run is computed, not what comes out of it.
NEUTRAL = frozenset({"threads", "eval_workers", "checkpoint_every", "checkpoint_minutes", "film"})
OF_THE_MACHINE = NEUTRAL | {"device"}  # which rounds in its own way; no comparison asks for one rounding or another
# Settings that are gone, which older configurations have: with these values they changed nothing of what is left.
_RETIRED: dict[str, dict[str, tuple[Any, ...]]] = {
    "agent": {
        "compile": (True, False),
        "projection_steps": (1,),
        "one_background": (False,),
        "late_rewards": (False,),
        "objective_reward": ("one-step",),
    },
    "objective": {
        "reward_distance": ("absolute",),
        "latent_distance": ("euclidean",),
        "assignment": ("prototype",),
        "reward_start": ("sampled",),
    },
}


@dataclass(frozen=True)
class RunConfig(Checked):
    """Everything that determines a run. `agent` and `objective` have the types that the registries give to the name."""

    agent_name: str
    agent: Any
    objective: Any = None
    env: EnvConfig = EnvConfig()
    training: TrainingConfig = TrainingConfig()
    seed: Annotated[int, Range(0, 2**63 - 1)] = 0
    preset: str = "paper"

    @property
    def run_name(self) -> str:
        distraction = [self.env.distraction] if self.env.env_id is None else []
        return "-".join([self.env.name, self.agent_name, *distraction, f"s{self.seed}"])

    @property
    def updates_per_agent_step(self) -> float:
        """The agent's own number, which it may give per environment step."""
        if hasattr(self.agent, "updates_per_env_step"):
            return self.agent.updates_per_env_step * (self.env.resolved().action_repeat or 1)
        return self.agent.updates_per_step

    @property
    def first_updates(self) -> int:
        """How many come at once when the random steps are over, where the agent wants another number than usual."""
        return getattr(self.agent, "first_updates", 0)


def _paper(config: RunConfig) -> RunConfig:
    return config


def _laptop(config: RunConfig) -> RunConfig:
    """The same method at a size for two cores. What that is, each agent says in its `laptop`."""
    size = 64 if config.env.size == EnvConfig.size else config.env.size
    training = replace(config.training, total_steps=100_000, overlap=True)
    return replace(config, agent=config.agent.laptop(), env=replace(config.env, size=size), training=training)


def _released(config: RunConfig) -> RunConfig:
    """The authors' code for the same method, at the paper's sizes: another agent."""
    from cbm.agents import RELEASED, configs

    name = RELEASED.get(config.agent_name, config.agent_name)
    if name not in RELEASED.values():
        raise CBMError(
            f"the preset 'released' is what the paper's authors published of CBM: {' and '.join(RELEASED)}. There is "
            f"nothing of theirs for {name!r}; choose --preset paper or laptop."
        )
    own, _ = configs(name)
    return replace(config, agent_name=name, agent=own, objective=None)


PRESETS: dict[str, Callable[[RunConfig], RunConfig]] = {"paper": _paper, "laptop": _laptop, "released": _released}


def make_config(
    agent: str = "drqv2+cbm",
    env: EnvConfig | None = None,
    preset: str = "paper",
    seed: int = 0,
    overrides: Iterable[tuple[str, str]] = (),
) -> RunConfig:
    """A preset for an agent on an environment, then dotted `overrides` such as ("agent.lr", "1e-3")."""
    from cbm.agents import configs

    own, objective = configs(agent)
    env = (EnvConfig() if env is None else env).resolved()
    training = TrainingConfig(seed_steps=getattr(own, "prefill", TrainingConfig.seed_steps))
    config = RunConfig(agent, own, objective, env, training, seed, preset)
    config = choose("preset", preset, PRESETS)(config)
    for key, text in overrides:
        config = settings.override(config, key, text)
    return config


def changed_in_passing(config: RunConfig, overrides: Mapping[str, str]) -> RunConfig:
    """With dotted `overrides` of a run that has begun: only of settings that change no result."""
    allowed = sorted(f"training.{name}" for name in NEUTRAL)
    for key, text in overrides.items():
        if key not in allowed:
            raise CBMError(
                f"--{key} does not go with --resume: the run has its configuration in config.json. Only --steps, "
                f"--wandb and what changes no result do: --{', --'.join(allowed)}."
            )
        config = settings.override(config, key, text)
    return config


def to_json(config: RunConfig) -> dict[str, Any]:
    return settings.to_json(config)


def from_json(data: Mapping[str, Any]) -> RunConfig:
    """The inverse of `to_json`. An unknown key or a wrong type is an error that names the key."""
    from cbm.agents import configs

    name, own = str(data.get("agent_name")), dict[str, Any]()
    for part, default in zip(("agent", "objective"), configs(name), strict=True):
        value = data.get(part, settings.to_json(default))
        if isinstance(value, dict):
            value = {key: item for key, item in value.items() if item not in _RETIRED[part].get(key, ())}
        if default is None and value is not None:
            raise settings.BadSetting(f"{name!r} has no {part}, so {part!r} must be null.")
        own[part] = None if default is None else settings.from_json(type(default), value, part)
    return settings.from_json(RunConfig, {**data, **own})


# What a resumed run may change: how long it goes on, what is only watched, and how it is computed.
FREE = frozenset(f"training.{name}" for name in ("total_steps", "analyze_every", *sorted(OF_THE_MACHINE)))


def bound_settings(config: RunConfig) -> dict[str, Any]:
    """By dotted name, every setting that a checkpoint binds the rest of the run to."""
    return {name: value for name, value in settings.flatten(to_json(config)).items() if name not in FREE}


def check_settings(now: Mapping[str, Any], then: Mapping[str, Any] | None, path: Path) -> None:
    """An error where the file at `path` says other than it said when the checkpoint was taken."""
    if then is None:
        raise CBMError(f"the checkpoint of {path.parent} is of an older version of cbm-rl. Start this run anew.")
    for name in {**then, **now}:
        if name not in now or name not in then or now[name] != then[name]:
            raise CBMError(
                f"{path} has changed since the checkpoint: {name} was {then.get(name)!r} and is {now.get(name)!r}. "
                "Put it back, and the run goes on. With another setting it is another run: cbm train --out ANOTHER."
            )


def write_config(path: Path, config: RunConfig, provenance: Mapping[str, Any]) -> None:
    """`config.json`, with where it comes from beside it."""
    text = json.dumps({**to_json(config), "provenance": provenance}, indent=2) + "\n"
    write_whole(path, text.encode(), path.parent)  # its presence says that here is a run


def read_config(path: Path) -> RunConfig:
    """The configuration of a run directory's `config.json`."""
    data = read_object(path, path.parent)
    data.pop("provenance", None)
    return from_json(data)


def read_provenance(path: Path) -> dict[str, Any]:
    """Where the run of a `config.json` came from: versions, git revision, command line, time."""
    found = read_object(path, path.parent).get("provenance")
    return found if isinstance(found, dict) else {}
