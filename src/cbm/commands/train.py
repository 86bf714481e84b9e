"""Verbs about runs: train, eval, record. Each is a function of one dataclass, which tyro turns into options.

PyTorch is imported when a verb runs, so that `cbm --help` is quick and the suite works without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro import MISSING
from tyro.conf import Positional, UseAppendAction, arg

from cbm.commands.conditions import ConditionArgs, OtherConditionArgs
from cbm.commands.settings import settings_text
from cbm.errors import TRAIN_HINT, CBMError
from cbm.files import check_output, write_whole
from cbm.trust import trust

if TYPE_CHECKING:
    from cbm.config import RunConfig

_WITH_RESUME = ("resume", "steps", "wandb", "set", "trust")

Trust = UseAppendAction[tuple[str, ...]]


@dataclass(frozen=True)
class TrainArgs(ConditionArgs):
    """What to train on what. Any setting can be changed by its dotted name, --agent.lr 1e-3; --settings lists them."""

    task: str | None = None
    """Task of the suite; cartpole-swingup if nothing is said."""
    agent: str = "drqv2+cbm"
    """drq, drqv2, proto, svea or tpc; the first two alone or with an objective: drqv2+cbm, +dynamics, +bisim-nce, +dbc,
    +simsr. released-drqv2-cbm, released-drq-cbm: the code of CBM's authors. Or one of an installed package
    (docs/extending.md)."""
    preset: str = "paper"
    """paper, laptop, released (the authors' code, for drqv2+cbm and drq+cbm)."""
    seed: int = 0
    """Decides everything that is random in the run; 0 or more."""
    out: Path | None = None
    """Run directory; runs/TASK-AGENT-DISTRACTION-sSEED if nothing is said."""
    resume: Path | None = None
    """Go on with the run in this directory. Only --steps, --trust and --wandb go with it."""
    trust: Trust = ()
    """A Python module that the run may import, for its environment."""
    steps: int | None = None
    """Environment steps in all; the preset's if nothing is said."""
    env: str | None = None
    """MODULE:ID of any Gymnasium environment with image observations and a box of actions, instead of --task."""
    prototypes: int | None = None
    """K, for agents that carry CBM."""
    device: str = "auto"
    """cpu, cuda, cuda:1, auto."""
    mixed_precision: bool = False
    """Convolutions in bfloat16: faster on processors that have it, as cbm doctor tells. Untested on GPUs."""
    wandb: bool = False
    """Log to Weights & Biases too."""
    print_config: bool = False
    """Print the whole configuration, with every name that can be set, and stop."""
    settings: bool = False
    """Print every setting of this run with its value, its range and what it means, and stop."""
    set: UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE: the long form of --NAME VALUE for a dotted name."""


@dataclass(frozen=True)
class EvalArgs(OtherConditionArgs):
    """Which episodes to play, and in which conditions: what is not said is as in training."""

    directory: Positional[Path] = MISSING
    """Run directory, or zoo:NAME."""
    episodes: int = 10
    """How many."""
    workers: int | None = None
    """Processes; one a core if nothing is said. Changes no result."""
    output: Annotated[Path | None, arg(aliases=["-o"])] = None
    """A file for the JSON."""
    trust: Trust = ()
    """A Python module that the run may import, for its environment."""


@dataclass(frozen=True)
class RecordArgs(OtherConditionArgs):
    """Which episode to film, and in which conditions: what is not said is as in training."""

    directory: Positional[Path] = MISSING
    """Run directory, or zoo:NAME."""
    output: Annotated[Path, arg(aliases=["-o"])] = MISSING
    """The film, .mp4."""
    episode: int = 0
    """Which of the episodes of `cbm eval`."""
    trust: Trust = ()
    """A Python module that the run may import, for its environment."""


def expand_overrides(argv: Sequence[str]) -> list[str]:
    """`--agent.lr 1e-3`, `--agent.lr=1e-3` as `--set agent.lr=1e-3`, which tyro can read without knowing the agent."""
    rest, expanded = list(argv), []
    while rest:
        word = rest.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or "." not in name:
            expanded.append(word)
            continue
        if not equals:
            if not rest:
                raise CBMError(f"{word} needs a value.")
            value = rest.pop(0)
        expanded += ["--set", f"{name.replace('-', '_')}={value}"]
    return expanded


def train(args: Annotated[TrainArgs, arg(name="")]) -> int:
    """Train an agent in a run directory, or go on with a run."""
    _require_extras()
    from cbm import training
    from cbm.config import to_json

    if args.resume is not None:
        _nothing_else(args)
        trust(args.trust)
        overrides = dict(_overrides(args))
        outcome = training.resume(args.resume, total_steps=args.steps, overrides=overrides, wandb=args.wandb)
    else:
        config = run_config(args)
        if args.settings:
            print(settings_text(config))
            return 0
        if args.print_config:
            print(json.dumps(to_json(config), indent=2))
            return 0
        out = Path("runs") / config.run_name if args.out is None else args.out
        outcome = training.train(config, out, wandb=args.wandb)
    return 0 if outcome.signal is None else 128 + outcome.signal  # what a shell expects of a stopped process


def evaluate(args: Annotated[EvalArgs, arg(name="")]) -> int:
    """Play episodes with a trained agent, without exploration; print every return, mean and standard deviation."""
    _require_extras()
    from cbm.load import evaluate as play

    trust(args.trust)
    if args.output is not None:
        check_output(args.output)
    found = play(args.directory, args.episodes, args.chosen_split, args.workers, args.changes())
    text = json.dumps(found, indent=2)
    print(text)
    if args.output is not None:
        write_whole(args.output, (text + "\n").encode())
    return 0


def record(args: Annotated[RecordArgs, arg(name="")]) -> int:
    """Film an episode of a trained agent: the scene, and beside it what the agent sees."""
    _require_extras()
    from cbm.load import film

    trust(args.trust)
    check_output(args.output)
    episode = film(args.directory, args.output, args.chosen_split, args.episode, args.changes())
    print(f"{args.output}: return {episode.total:.1f} in {episode.length} agent steps, background {episode.background}")
    return 0


VERBS: dict[str, Callable[..., int]] = {"train": train, "eval": evaluate, "record": record}


def run_config(args: TrainArgs) -> RunConfig:
    """The configuration that the options ask for."""
    from cbm.config import EnvConfig, make_config

    if args.env is not None and args.task is not None:
        raise CBMError("--env takes the place of --task: give one of them.")
    for name, value in args.conditions().items():
        if args.env is not None and value != getattr(TrainArgs, name):
            raise CBMError(f"--{name.replace('_', '-')} goes with the tasks of the suite, not with --env.")
    env = EnvConfig(
        task=EnvConfig.task if args.task is None else args.task,
        env_id=args.env,
        **args.conditions(),
    )
    overrides = [("training.device", args.device)]
    if args.steps is not None:
        overrides.append(("training.total_steps", str(args.steps)))
    if args.prototypes is not None:
        chosen = make_config(args.agent, env, args.preset)
        parts = [part for part in ("agent", "objective") if hasattr(getattr(chosen, part), "prototypes")]
        if not parts:
            raise CBMError(f"--prototypes goes with agents that carry CBM, such as drqv2+cbm, not with {args.agent}.")
        overrides.append((f"{parts[0]}.prototypes", str(args.prototypes)))
    if args.mixed_precision:
        overrides.append(("agent.mixed_precision", "true"))
    return make_config(args.agent, env, args.preset, args.seed, [*overrides, *_overrides(args)])


def _overrides(args: TrainArgs) -> Iterator[tuple[str, str]]:
    for item in args.set:
        name, equals, value = item.partition("=")
        if not equals:
            raise CBMError(f"--set {item}: write NAME=VALUE.")
        yield name, value


def _nothing_else(args: TrainArgs) -> None:
    """A resumed run has its configuration already; an option that would be ignored is an error."""
    default = TrainArgs()
    for field in fields(args):
        if field.name not in _WITH_RESUME and getattr(args, field.name) != getattr(default, field.name):
            raise CBMError(
                f"--{field.name.replace('_', '-')} does not go with --resume: the run has its configuration in "
                "config.json. Only --steps, --trust, --wandb and what changes no result (--training.threads) do."
            )


def _require_extras() -> None:
    missing = [name for name in ("torch", "safetensors", "tensorboard") if find_spec(name) is None]
    if missing:
        raise CBMError(f"training needs {', '.join(missing)}: {TRAIN_HINT}")
