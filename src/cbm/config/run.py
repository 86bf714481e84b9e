"""The configuration of a run: one frozen tree, made from a preset, written to `config.json` and read back strictly."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cbm.envs.conditions import Conditions
from cbm.envs.tasks import Noise, get_task
from cbm.errors import CBMError, choose
from cbm.schema import tree
from cbm.schema.methods import LAPTOP_PACE, AgentConfig, ObjectiveConfig
from cbm.schema.ranges import Count, Form, Range, Steps, StepsOrZero
from cbm.schema.tree import Checked, Effect, to_json
from cbm.system.files import read_object, write_whole

Device = Annotated[str, Form(r"auto|cpu|cuda(:\d{1,3})?", "auto, cpu, cuda or cuda:NUMBER")]
Minutes = Annotated[float, Range(0, 1e6, above=True)]


@dataclass(frozen=True)
class _OnTask:
    task: str = "cartpole-swingup"
    """A task of the suite; `cbm.envs.tasks.TASKS` lists them."""


@dataclass(frozen=True)
class EnvConfig(Conditions, _OnTask, Checked):  # in this order a dataclass begins with the task, then the distraction
    """What the agent sees and how it explores. Sizes follow the paper's Table "CBM list of hyperparameters".

    Examples:
        >>> import cbm
        >>> env = cbm.EnvConfig("walker-walk", "background+camera", camera_scale=0.2, dynamic=True)
        >>> env.task, env.distraction, env.size
        ('walker-walk', 'background+camera', 84)
        >>> cbm.EnvConfig("walker-walk", size=2)
        Traceback (most recent call last):
        cbm.schema.tree.BadSetting: size must be 4 to 1,024, not 2.
    """

    size: Annotated[int, Range(4, 1_024)] = 84
    """Side of a frame (Table)."""
    frame_stack: Annotated[int, Range(1, 64)] = 3
    """Frames per observation (Table)."""
    action_repeat: Annotated[int, Range(1, 1_000)] | None = None
    """Environment steps per agent step. None: the paper's for the task, and 1 for an `env_id`."""
    renderer: Literal["fast", "exact"] = "fast"
    """fast, or exact: the pixels of dm_control."""
    noise: Noise | None = None
    """DrQ-v2's exploration. None: the paper's for the task (Table)."""
    env_id: str | None = None
    """A Gymnasium environment instead of a task of the suite, as `module:ID`."""

    @property
    def name(self) -> str:
        return self.task if self.env_id is None else self.env_id.rpartition(":")[2]

    @property
    def splits(self) -> tuple[str, ...]:
        """The sets of videos that an evaluation plays: one if there are no videos."""
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

    total_steps: Steps = field(default=500_000, metadata={"effect": Effect.EXTENT})
    """Length of the run, as in the paper's curves."""
    seed_steps: StepsOrZero = 4_000
    """Uniformly random actions before the first update (Table)."""
    replay_capacity: Annotated[int, Range(2, 10**9)] = 500_000
    """Capacity of replay in frames (Table)."""
    eval_every: Steps = field(default=10_000, metadata={"effect": Effect.RECORDS})
    """Steps between evaluations. There is also one at step 0 and one at the end."""
    eval_episodes: Count = field(default=10, metadata={"effect": Effect.RECORDS})
    """Episodes per evaluation, on each set of videos."""
    eval_workers: Annotated[int, Range(0, 1_024)] | None = field(default=None, metadata={"effect": Effect.NOTHING})
    """Processes that play them. None: one per core; 0: the training process."""
    analyze_every: StepsOrZero = field(default=30_000, metadata={"effect": Effect.EXTENT})
    """Steps between analyses of what the encoder knows, each at an evaluation. 0: never. Training is the same."""
    log_every: Steps = field(default=1_000, metadata={"effect": Effect.RECORDS})
    """Steps between lines of means in metrics.jsonl."""
    checkpoint_every: Steps = field(default=10_000, metadata={"effect": Effect.NOTHING})
    """Steps between checkpoints."""
    checkpoint_minutes: Minutes = field(default=5.0, metadata={"effect": Effect.NOTHING})
    """A checkpoint at least this often."""
    device: Device = field(default="auto", metadata={"effect": Effect.ROUNDING})
    """cpu, cuda, cuda:1; auto uses a GPU if there is one."""
    threads: Annotated[int, Range(1, 1_024)] | None = field(default=None, metadata={"effect": Effect.NOTHING})
    """Threads that compute an update. None: one per core."""
    overlap: bool = False
    """Take the next environment steps while an update is computed, with the weights from before it."""
    film: bool = field(default=True, metadata={"effect": Effect.NOTHING})
    """Film the best episode of the last evaluation when the run is complete."""


_EFFECTS: dict[str, Effect] = {
    f"training.{each.name}": each.metadata.get("effect", Effect.RESULT) for each in fields(TrainingConfig)
}


def effect_of(name: str) -> Effect:
    """What a setting has an effect on, by its dotted name. Those of agent, objective and environment: the result."""
    return _EFFECTS.get(name, Effect.RESULT)


@dataclass(frozen=True)
class RunConfig(Checked):
    """Everything that determines a run. `agent` and `objective` have the types that the registries give to the name."""

    agent_name: str
    agent: AgentConfig
    objective: ObjectiveConfig | None = None
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
        return self.agent.updates_per_agent_step(self.env.resolved().action_repeat or 1)


def _laptop(config: RunConfig) -> RunConfig:
    """The same method at a size for two cores. What that is, each agent and objective says in its `laptop`.

    In 500K steps every task of the suite has about 31,000 updates, or 15,600 with an objective that has further ones
    of critic and actor, whatever the action repeat: what has been learned depends on their number far more than on the
    number of steps between them (docs/results/recipe.md).
    """
    from cbm.agents import ActorCriticConfig

    size = 64 if config.env.size == EnvConfig.size else config.env.size
    agent, objective = config.agent.laptop(), config.objective
    if config.env.env_id is None and isinstance(agent, ActorCriticConfig):
        pace = LAPTOP_PACE if objective is None else objective.laptop_pace
        agent = replace(agent, updates_per_step=(config.env.resolved().action_repeat or 1) / pace)
    if objective is not None:
        objective = objective.laptop()
        if isinstance(agent, ActorCriticConfig):
            agent = replace(agent, **objective.laptop_agent)
    training = replace(config.training, eval_every=25_000, analyze_every=100_000, overlap=True)
    return replace(config, agent=agent, objective=objective, env=replace(config.env, size=size), training=training)


def _released(config: RunConfig) -> RunConfig:
    """The authors' code for the same method, at the paper's sizes: another agent."""
    from cbm.agents import RELEASED, configs

    name = RELEASED.get(config.agent_name, config.agent_name)
    if name not in RELEASED.values():
        raise CBMError(
            f"the preset 'released' is the code that the paper's authors published: {' and '.join(RELEASED)}. They "
            f"published nothing for {name!r}; choose --preset paper or laptop."
        )
    own, _ = configs(name)
    return replace(config, agent_name=name, agent=own, objective=None)


PRESETS: dict[str, Callable[[RunConfig], RunConfig]] = {
    "paper": lambda config: config,
    "laptop": _laptop,
    "released": _released,
}


def make_config(
    agent: str = "drqv2+cbm",
    env: EnvConfig | None = None,
    preset: str = "paper",
    seed: int = 0,
    overrides: Mapping[str, object] | Iterable[tuple[str, object]] = (),
) -> RunConfig:
    """The configuration of a run: a preset for an agent on an environment, with some settings changed.

    Args:
        agent: such as `drqv2+cbm`; `cbm.agents.agent_names()` lists them.
        env: what the agent sees; cartpole without distractions by default.
        preset: `paper`, `laptop`, or `released`.
        seed: of everything in the run.
        overrides: settings by their dotted names. Texts are read as on the command line.

    Examples:
        >>> import cbm
        >>> changes = {"agent.lr": 3e-4, "objective.epsilon": "0.1"}
        >>> config = cbm.make_config("drqv2+cbm", preset="laptop", overrides=changes)
        >>> config.agent.lr, config.objective.epsilon, config.env.size
        (0.0003, 0.1, 64)
    """
    from cbm.agents import configs

    own, objective = configs(agent)
    env = (EnvConfig() if env is None else env).resolved()
    training = TrainingConfig() if own.prefill is None else TrainingConfig(seed_steps=own.prefill)
    config = RunConfig(agent, own, objective, env, training, seed, preset)
    config = choose("preset", preset, PRESETS)(config)
    for key, value in overrides.items() if isinstance(overrides, Mapping) else overrides:
        config = tree.override(config, key, value)
    return config


def changed_in_passing(config: RunConfig, overrides: Mapping[str, object]) -> RunConfig:
    """With dotted `overrides` of a run that has begun: only of settings that change no result."""
    allowed = sorted(name for name, effect in _EFFECTS.items() if effect == Effect.NOTHING)
    for key, value in overrides.items():
        if key not in allowed:
            raise CBMError(
                f"--{key} cannot be combined with --resume: the run has its configuration in config.json. Only "
                f"--steps, --wandb and what changes no result can: --{', --'.join(allowed)}."
            )
        config = tree.override(config, key, value)
    return config


def from_json(data: Mapping[str, Any]) -> RunConfig:
    """The inverse of `to_json`. An unknown key or a wrong type is an error that names the key."""
    from cbm.agents import configs

    name, own = str(data.get("agent_name")), dict[str, Any]()
    for part, default in zip(("agent", "objective"), configs(name), strict=True):
        value = data.get(part, to_json(default))
        if default is None and value is not None:
            raise tree.BadSetting(f"{name!r} has no {part}, so {part!r} must be null.")
        own[part] = None if default is None else tree.from_json(type(default), value, part)
    return tree.from_json(RunConfig, {**data, **own})


def bound_settings(config: RunConfig) -> dict[str, Any]:
    """By dotted name, every setting that a checkpoint binds the rest of the run to."""
    return {name: value for name, value in tree.flatten(to_json(config)).items() if effect_of(name) > Effect.EXTENT}


def check_settings(config: RunConfig, then: Mapping[str, Any] | None, path: Path) -> None:
    """An error if the file at `path` differs from what it was when the checkpoint was taken.

    A setting that is newer than the checkpoint must have its default, with which everything is as it was before.
    """
    from cbm.agents import configs

    if then is None:
        raise CBMError(f"the checkpoint of {path.parent} is from an older version of cbm-rl. Start a new run.")
    now, usual = bound_settings(config), bound_settings(RunConfig(config.agent_name, *configs(config.agent_name)))
    for name in {**then, **now}:
        was = then.get(name, usual.get(name))
        if name not in now or now[name] != was:
            raise CBMError(
                f"{path} has changed since the checkpoint: {name} was {was!r} and is {now.get(name)!r}. "
                "Change it back to resume the run. For another setting, start another run: cbm train --out ANOTHER."
            )


def write_config(path: Path, config: RunConfig, provenance: Mapping[str, Any]) -> None:
    """`config.json`, together with its provenance."""
    text = json.dumps({**to_json(config), "provenance": provenance}, indent=2) + "\n"
    write_whole(path, text.encode(), path.parent)  # its presence marks a run directory


def read_config(path: Path) -> RunConfig:
    """The configuration of a run directory's `config.json`."""
    data = read_object(path, path.parent)
    data.pop("provenance", None)
    return from_json(data)


def read_provenance(path: Path) -> dict[str, Any]:
    """Where the run of a `config.json` came from: versions, git revision, command line, time."""
    found = read_object(path, path.parent).get("provenance")
    return found if isinstance(found, dict) else {}
