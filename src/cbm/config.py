"""The configuration of a run: one frozen tree, made from a preset, written to `config.json` and read back strictly."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cbm import settings
from cbm.errors import CBMError, choose
from cbm.tasks import Noise, get_task


@dataclass(frozen=True)
class EnvConfig:
    """What the agent sees and how it explores. Sizes follow the paper's Table "CBM list of hyperparameters"."""

    task: str = "cartpole-swingup"
    """A task of the suite; `cbm.tasks.TASKS` lists them."""
    distraction: str = "none"
    """none, easy, medium, hard, background, camera or color."""
    scale: float | None = None
    """Strength of camera and colour; None takes that of the distraction."""
    num_videos: int | None = None
    """How many training videos; None takes the number of the distraction."""
    dynamic: bool = False
    """Distractions that move at every environment step."""
    videos: str = "builtin"
    """Where backgrounds come from."""
    size: int = 84
    """Side of a frame (Table)."""
    frame_stack: int = 3
    """Frames in an observation (Table)."""
    action_repeat: int | None = None
    """Environment steps per agent step; None takes the paper's for the task, and 1 for an `env_id`."""
    renderer: str = "fast"
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
        shows_videos = self.env_id is None and self.distraction in ("easy", "medium", "hard", "background")
        return ("train", "unseen") if shows_videos else ("train",)

    def resolved(self) -> EnvConfig:
        """With the constants of the task filled in."""
        repeat, noise = 1, Noise(1.0, 0.1, 100_000)
        if self.env_id is None:
            task = get_task(self.task)
            repeat, noise = task.action_repeat, task.noise
        return replace(
            self,
            action_repeat=repeat if self.action_repeat is None else self.action_repeat,
            noise=noise if self.noise is None else self.noise,
        )


@dataclass(frozen=True)
class TrainingConfig:
    """How long and how often. Counts are environment steps unless they say otherwise."""

    total_steps: int = 500_000
    """The paper's curves end here."""
    seed_steps: int = 4_000
    """Uniformly random actions before the first update (Table)."""
    replay_capacity: int = 500_000
    """Frames (Table)."""
    eval_every: int = 10_000
    """Between two evaluations; there is one at step 0 and one at the end too."""
    eval_episodes: int = 10
    """On each set of videos."""
    eval_workers: int | None = None
    """Processes that play them; None takes one a core, 0 the process that trains. Changes no result."""
    analyze_every: int = 30_000
    """Between two analyses of what the encoder knows; each comes with an evaluation. 0: none. Changes no result."""
    log_every: int = 1_000
    """Between two lines of means in metrics.jsonl."""
    checkpoint_every: int = 10_000
    """Between two checkpoints. Changes no result."""
    checkpoint_minutes: float = 5.0
    """A checkpoint at least this often. Changes no result."""
    device: str = "auto"
    """cpu, cuda, cuda:1; auto takes a GPU where there is one."""
    threads: int | None = None
    """That compute an update; None takes one a core. Changes no result."""
    overlap: bool = False
    """The environment takes the next steps while an update computes, with the weights from before it."""
    film: bool = True
    """A film of the best episode of the last evaluation, when the run is complete."""

    def __post_init__(self) -> None:
        for name in ("total_steps", "eval_every", "eval_episodes", "log_every", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise CBMError(f"training.{name} must be at least 1, not {getattr(self, name)}.")
        if self.threads is not None and self.threads < 1:
            raise CBMError(f"training.threads must be at least 1, or none for one a core, not {self.threads}.")
        if self.analyze_every < 0:
            raise CBMError(f"training.analyze_every must be 0 (never) or more, not {self.analyze_every}.")


# Settings of training that say how a run is computed, not what comes out of it.
NEUTRAL = frozenset({"threads", "eval_workers", "checkpoint_every", "checkpoint_minutes", "film"})
OF_THE_MACHINE = NEUTRAL | {"device"}  # which rounds in its own way; no comparison asks for one rounding or another
_RETIRED = {"agent": {"compile"}}  # settings that are gone and changed no result: older configurations have them


@dataclass(frozen=True)
class RunConfig:
    """Everything that determines a run. `agent` and `objective` have the types that the registries give to the name."""

    agent_name: str
    agent: Any
    objective: Any = None
    env: EnvConfig = EnvConfig()
    training: TrainingConfig = TrainingConfig()
    seed: int = 0
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
    """Every departure of the authors' code that we know of, switched on."""

    def departed(part: Any) -> Any:
        return part.released() if hasattr(part, "released") else part

    return replace(config, agent=departed(config.agent), objective=departed(config.objective))


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
            value = {key: item for key, item in value.items() if key not in _RETIRED.get(part, ())}
        if default is None and value is not None:
            raise settings.BadSetting(f"{name!r} has no {part}, so {part!r} must be null.")
        own[part] = None if default is None else settings.from_json(type(default), value, part)
    return settings.from_json(RunConfig, {**data, **own})


def write_config(path: Path, config: RunConfig, provenance: Mapping[str, Any]) -> None:
    """`config.json`, with where it comes from beside it."""
    text = json.dumps({**to_json(config), "provenance": provenance}, indent=2) + "\n"
    aside = path.with_suffix(".tmp")
    aside.write_text(text)
    aside.replace(path)  # whole or not at all: its presence says that here is a run


def read_config(path: Path) -> RunConfig:
    """The configuration of a run directory's `config.json`."""
    data = _read(path)
    data.pop("provenance", None)
    return from_json(data)


def read_provenance(path: Path) -> dict[str, Any]:
    """Where the run of a `config.json` came from: versions, git revision, command line, time."""
    return _read(path).get("provenance", {})


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise CBMError(f"{path} is not JSON: {error}") from error
