"""Wrong command lines, made from the program's own options: each must end with one clear error."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from attempt import Outcome

from cbm.agents import agent_names
from cbm.cli import VERBS
from cbm.config import make_config
from cbm.schema.tree import table
from toy import tiny_options

WHOLE = ("x", "", "1.5", "nan", "inf", "-1", "9" * 24, "--", "0x")
NUMBERS = ("x", "", "nan", "inf", "-inf", "1e999", "-1e30")
NOWHERE = ("/nowhere/at/all", "/dev/null", "/dev/null/x", "/proc/self/mem")
UNWRITABLE = ("/proc/x.png", "/dev/null/x.png", "/proc/1/x.mp4", "/proc/x.html", "/proc/x.json", "/proc/x.onnx")
TEXTS = ("nonsense", "::", "", "a:b:c", "../..", "\udcff", "☃" * 500, "None:", ":x", "toy:", "toy:Nope-v0")
FREE = {"title", "url", "sha256", "address", "trust", "resume"}  # any text will do, or it goes with others only
OF_THE_SUITE = {"task", "env", "distraction", "scale", "num_videos", "videos"}
OUTPUTS = {"output", "out", "root", "to"}


def wrong_lines(run: Path, folder: Path) -> Iterator[list[str]]:
    """First those of verbs and their options, then settings out of their ranges; each in an order that mixes them."""
    for lines in ([*_verbs(), *_options(run, folder)], [*_settings(run)]):
        random.Random(0).shuffle(lines)
        yield from lines


def held(outcome: Outcome) -> str | None:
    """What is wrong with the outcome of a wrong command line; None where it is as it should be."""
    if outcome.complaint is not None:
        return outcome.complaint
    return "no error" if outcome.status == 0 else None


def _verbs() -> Iterator[list[str]]:
    for verb in VERBS:
        yield [verb[:-1] + "xy"]
        yield [verb, "--no-such-option"]
        yield [verb, "--no-such-option=3"]
        yield [verb, "one", "two", "three", "four", "five", "--six"]


def _options(run: Path, folder: Path) -> Iterator[list[str]]:
    """Every option of every verb with values that it cannot have."""
    bases = {
        "preview": ["--task", "cartpole-swingup"],
        "videos": ["show"],
        "train": [*tiny_options(training__total_steps=20), "--out", str(folder / "new")],
        "eval": [str(run), "--trust", "toy"],
        "record": [str(run), "-o", str(folder / "film.mp4"), "--trust", "toy"],
        "analyze": [str(run), "--trust", "toy"],
        "plot": [str(run)],
        "report": [str(run)],
        "watch": [str(run)],
        "export": [str(run)],
        "bisimulation": [],
        "bench": ["env"],
    }
    for verb, base in bases.items():
        module = import_module(VERBS[verb].module)
        for name, kind, positional in _parameters(getattr(module, VERBS[verb].function)):
            if positional or name in FREE or name == "set":
                continue
            option = "--" + {"as_json": "json"}.get(name, name).replace("_", "-")
            start = base
            if verb == "train" and name in OF_THE_SUITE:
                start = ["--out", str(folder / "new"), *(["--distraction", "easy"] if name != "env" else [])]
            for value in _wrong(kind, name):
                yield (
                    [verb, *start, option, value] if not value.startswith("-") else [verb, *start, f"{option}={value}"]
                )
            if verb == "bench":
                continue
            yield [verb, *start, option[:-1] + "zz", "1"]
            if kind is not bool and "tuple" not in str(kind):
                yield [verb, *start, option]
    for verb in ("eval", "record", "analyze", "plot", "report", "watch", "export"):
        extra = ["-o", str(folder / "x.mp4")] if verb == "record" else []
        for path in NOWHERE:
            yield [verb, path, *extra]
        yield [verb, *extra]
    for path in NOWHERE:
        yield ["train", "--resume", path]
        yield ["study", "run", path]
        yield ["study", "show", path + ".toml"]
    for words in (
        ["show"],
        ["run", "nonsense"],
        ["report", "multi"],
        ["run", "multi", "--launcher", "moon"],
        ["nonsense"],
    ):
        yield ["study", *words, *(["--root", str(folder / "no-study")] if len(words) > 1 else [])]
    for option, value in (
        ("--jobs", "-1"),
        ("--jobs", "x"),
        ("--seeds", "0"),
        ("--scale", "no"),
        ("--tasks", "no"),
        ("--methods", "no"),
    ):
        yield ["study", "run", "multi", "--root", str(folder / "no-study"), option, value]


def _settings(run: Path) -> Iterator[list[str]]:
    """Every setting of every agent, out of its range."""
    for agent in agent_names():
        for setting in table(make_config(agent)):
            if "number" not in setting.allowed and "true" not in setting.allowed and "list" not in setting.allowed:
                continue
            for value in ("-1e30", "nan", "x", ""):
                yield ["train", "--agent", agent, "--out", str(run.parent / "new"), f"--{setting.name}", value]


def _parameters(function: Any) -> Iterator[tuple[str, Any, bool]]:
    """Name, type and whether it stands without a name, of what a verb takes."""
    hints = get_type_hints(function, include_extras=True)
    for name in inspect.signature(function).parameters:
        kind = hints[name]
        inner = get_args(kind)[0] if get_origin(kind) is Annotated else kind
        if is_dataclass(inner):
            own = get_type_hints(inner, include_extras=True)
            for field in fields(inner):
                needed = field.default is MISSING and field.default_factory is MISSING
                yield field.name, own[field.name], needed and "Positional" in str(own[field.name])
        else:
            yield name, kind, "POSITIONAL" in str(kind) or "Positional" in str(kind)


def _wrong(kind: Any, name: str) -> tuple[str, ...]:
    text = str(kind)
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal or "Literal" in text:
        return ("nonsense", "", "TRAIN")
    if "Path" in text:
        return UNWRITABLE if name in OUTPUTS else NOWHERE
    if kind is bool:
        return ()
    if "float" in text:
        return NUMBERS
    if "int" in text:
        return WHOLE
    return ("nonsense", "", "☃") if name in ("only", "split") else TEXTS
