"""Verbs about runs: train, eval, record, export. tyro turns their dataclasses and parameters into options.

PyTorch is imported when a verb runs, so that `cbm --help` is quick and the suite works without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console
from tyro import MISSING
from tyro.conf import Positional, UseAppendAction, arg

from cbm.cli import VERBS
from cbm.cli.conditions import ConditionArgs, OtherConditionArgs
from cbm.cli.settings_page import with_settings
from cbm.errors import TRAIN_HINT, CBMError
from cbm.runs.trust import trust
from cbm.schema.tree import as_text
from cbm.system.files import check_output, write_whole

if TYPE_CHECKING:
    from cbm.config import RunConfig

_WITH_RESUME = ("resume", "steps", "wandb", "set", "trust")

Trust = UseAppendAction[tuple[str, ...]]


@dataclass(frozen=True)
class TrainArgs(ConditionArgs):
    """What to train, and on what. Any setting can be changed by its dotted name, --agent.lr 1e-3; --help lists them."""

    task: str | None = None
    """Task of the suite. None: cartpole-swingup."""
    agent: str = "drqv2+cbm"
    """An agent, alone or with an objective (+cbm); `--help` lists them all."""
    preset: str = "paper"
    """paper, laptop, or released (the authors' code, for drqv2+cbm and drq+cbm)."""
    seed: int = 0
    """Determines everything random in the run; 0 or more."""
    out: Path | None = None
    """Run directory. None: runs/TASK-AGENT-DISTRACTION-sSEED."""
    resume: Path | None = None
    """Resume the run in this directory. Only --steps, --trust, --wandb and what changes no result can be added."""
    trust: Trust = ()
    """A Python module that the run may import for its environment."""
    steps: int | None = None
    """Environment steps in total. None: those of the preset."""
    env: str | None = None
    """MODULE:ID of any Gymnasium environment with image observations and Box actions, instead of --task."""
    prototypes: int | None = None
    """Number of prototypes K, for agents that carry CBM."""
    device: str = "auto"
    """cpu, cuda, cuda:1 or auto."""
    mixed_precision: bool = False
    """Run convolutions in bfloat16: faster on processors that support it (see cbm doctor). Untested on GPUs."""
    wandb: bool = False
    """Also log to Weights & Biases."""
    print_config: bool = False
    """Print the whole configuration, with every name that can be set, and exit."""
    set: UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE: the long form of --NAME VALUE for a dotted name."""


@dataclass(frozen=True)
class EvalArgs(OtherConditionArgs):
    """Which episodes to play, and in which conditions. Whatever is not set is as in training."""

    directory: Positional[Path] = MISSING
    """Run directory, or zoo:NAME."""
    episodes: int = 10
    """Number of episodes."""
    workers: int | None = None
    """Number of processes. None: one per core. Changes no result."""
    output: Annotated[Path | None, arg(aliases=["-o"])] = None
    """Also write the JSON to this file."""
    trust: Trust = ()
    """A Python module that the run may import for its environment."""


@dataclass(frozen=True)
class RecordArgs(OtherConditionArgs):
    """Which episode to film, and in which conditions. Whatever is not set is as in training."""

    directories: Positional[tuple[Path, ...]] = MISSING
    """Run directory, or zoo:NAME. Several play the same episode, side by side."""
    output: Annotated[Path, arg(aliases=["-o"])] = MISSING
    """The film to write: .mp4, or .webp for a README."""
    episode: int = 0
    """Number of the episode, as in `cbm eval`."""
    trust: Trust = ()
    """A Python module that the run may import for its environment."""


def expand_overrides(argv: Sequence[str]) -> list[str]:
    """`--agent.lr 1e-3`, `--agent.lr=1e-3` as `--set agent.lr=1e-3`, which tyro can read without knowing the agent."""
    words, expanded = iter(argv), []
    for word in words:
        name, equals, typed = word.removeprefix("--").partition("=")
        if not word.startswith("--") or "." not in name:
            expanded.append(word)
            continue
        value = typed if equals else next(words, None)
        if value is None:
            raise CBMError(f"{word} needs a value.")
        expanded += ["--set", f"{name.replace('-', '_')}={value}"]
    return expanded


def train_words(argv: Sequence[str]) -> list[str]:
    """`expand_overrides`; or, asked for help, the help with every setting of the agent that the words choose."""
    words = expand_overrides([word for word in argv if word not in ("-h", "--help")])
    if len(words) < len(argv) and find_spec("torch") is not None:
        config = run_config(tyro.cli(TrainArgs, args=words))
        tyro.cli(with_settings(TrainArgs, config), prog="cbm train", description=VERBS["train"].help, args=["--help"])
    return expand_overrides(argv)


def train(args: Annotated[TrainArgs, arg(name="")]) -> int:
    """Train an agent in a run directory, or resume a run."""
    _require_extras()
    from cbm.config import to_json
    from cbm.training import loop

    if args.resume is not None:
        _nothing_else(args)
        trust(args.trust)
        changes = dict(overrides(args.set))
        outcome = loop.resume(args.resume, total_steps=args.steps, overrides=changes, wandb=args.wandb)
    else:
        config = run_config(args)
        if args.print_config:
            print(json.dumps(to_json(config), indent=2))
            return 0
        out = Path("runs") / config.run_name if args.out is None else args.out
        outcome = loop.train(config, out, wandb=args.wandb)
    return 0 if outcome.signal is None else 128 + outcome.signal  # what a shell expects of a stopped process


def evaluate(args: Annotated[EvalArgs, arg(name="")]) -> int:
    """Play episodes with a trained agent, without exploration; print every return, mean and standard deviation."""
    _require_extras()
    from cbm.evaluation.evaluate import evaluate as play

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
    """Film an episode of a trained agent, or of several: the scene, and next to it what the agent sees."""
    _require_extras()
    from cbm.evaluation.record import film

    trust(args.trust)
    check_output(args.output)
    if not args.directories:
        raise CBMError("give a run directory, or zoo:NAME.")
    episodes = film(args.directories, args.output, args.chosen_split, args.episode, args.changes())
    for directory, played in zip(args.directories, episodes, strict=True):
        steps = f"{played.length} agent steps, background {played.background}"
        print(f"{directory}: return {played.total:.1f} in {steps}")
    print(f"The film is {args.output}")
    return 0


def export(
    run: Positional[str],
    output: Annotated[Path | None, arg(aliases=["-o"])] = None,
    format: Literal["onnx", "pt2"] | None = None,
) -> int:
    """Write the policy of a run's newest checkpoint as one file: uint8 frames in, action out (docs/deploy.md).

    Args:
        run: run directory, or zoo:NAME.
        output: the file, .onnx or .pt2. None: policy.onnx.
        format: onnx, or pt2 for torch.export. None: what the file name ends in.
    """
    from cbm.runs.export import CHECKED
    from cbm.runs.export import export as write

    path = Path(f"policy.{format or 'onnx'}") if output is None else output
    console = Console(stderr=True)
    with console.status("exporting ...") as status:
        config, env_step, difference = write(run, path, format, report=lambda what: status.update(f"{what} ..."))
    print(
        f"{path}: {config.agent_name} on {config.env.name} at step {env_step}. On {CHECKED} observations its actions "
        f"differ from the agent's by at most {difference:.0e}."
    )
    if config.agent.mixed_precision:
        print("This run computes convolutions in bfloat16. The file computes in 32 bits, and was compared in 32 bits.")
    return 0


def run_config(args: TrainArgs) -> RunConfig:
    from cbm.config import EnvConfig, make_config

    if args.env is not None and args.task is not None:
        raise CBMError("--env replaces --task: give only one of them.")
    for name, value in args.conditions().items():
        if args.env is not None and value != getattr(TrainArgs, name):
            raise CBMError(f"--{name.replace('_', '-')} works only with tasks of the suite, not with --env.")
    env = EnvConfig(task=EnvConfig.task if args.task is None else args.task, env_id=args.env, **args.conditions())
    typed = dict(overrides(args.set))
    short = {"device": "training.device", "steps": "training.total_steps", "mixed_precision": "agent.mixed_precision"}
    given = [name for name in (*short, "task", *args.conditions()) if getattr(args, name) != getattr(TrainArgs, name)]
    for option in given:
        name = short.get(option, f"env.{option}")
        if name in typed:
            raise CBMError(f"--{option.replace('_', '-')} and --{name} are the same setting: give one of them.")
    chosen = [(name, as_text(getattr(args, option))) for option, name in short.items() if option in given]
    if args.prototypes is not None:
        usual = make_config(args.agent, env, args.preset)
        parts = [part for part in ("agent", "objective") if hasattr(getattr(usual, part), "prototypes")]
        if not parts:
            raise CBMError(f"--prototypes needs an agent that carries CBM, such as drqv2+cbm, not {args.agent}.")
        chosen.append((f"{parts[0]}.prototypes", str(args.prototypes)))
    return make_config(args.agent, env, args.preset, args.seed, [*chosen, *typed.items()])


def overrides(typed: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What `--set NAME=VALUE` says, each time."""
    for item in typed:
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
                f"--{field.name.replace('_', '-')} cannot be combined with --resume: the run has its configuration "
                "in config.json. Only --steps, --trust, --wandb and what changes no result (--training.threads) can."
            )


def _require_extras() -> None:
    missing = [name for name in ("torch", "safetensors", "tensorboard") if find_spec(name) is None]
    if missing:
        raise CBMError(f"training needs {', '.join(missing)}: {TRAIN_HINT}")
