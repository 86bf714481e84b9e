"""The page about the commands, made from the program itself: its verbs, and the options that tyro makes of each."""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Iterator
from importlib import import_module

import tyro

from cbm.cli import VERBS

HEAD = """# Commands

Every command and every option, as `cbm VERB --help` prints them. This page is made from the program when the site is
built, so it describes the version you are looking at.

- Any setting can be changed by its dotted name in `cbm train` and `cbm study`: `--agent.lr 1e-3`. They have
  [a page of their own](../settings.md).
- RUN is a run directory, or `zoo:NAME` for an [agent of the zoo](../zoo.md).
- A mistake on the command line ends with status 2, any other error that you can fix with status 1.
- `cbm --print-completion bash` (or `zsh`) prints a script that completes verbs and options when you press Tab.

| command | what it does |
|---|---|
"""


def page() -> str:
    rows = [f"| [`cbm {name}`](#cbm-{name}) | {cell(verb.help)} |" for name, verb in VERBS.items()]
    return HEAD + "\n".join(rows) + "\n\n" + "\n".join(section(name) for name in VERBS)


def parser_of(name: str) -> argparse.ArgumentParser:
    """What tyro reads the words after `cbm NAME` with."""
    verb = VERBS[name]
    function = getattr(import_module(verb.module), verb.function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # tyro offers nothing else that can be walked through
        return tyro.extras.get_parser(function, prog=f"cbm {name}", description=verb.help)


def section(name: str) -> str:
    parser = parser_of(name)
    parts = [f"## `cbm {name}` {{ #cbm-{name} }}\n", *described(parser)]
    for sub, inner in subcommands(parser):
        parts += [f"### `cbm {name} {sub}` {{ #cbm-{name}-{sub} }}\n", *described(inner)]
    return "\n".join(parts)


def described(parser: argparse.ArgumentParser) -> Iterator[str]:
    text = " ".join((parser.description or "").split())
    yield text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".") + "\n"
    rows = [row(action) for action in options(parser)]
    if rows:
        yield "| option | value | default | |\n|---|---|---|---|"
        yield "\n".join(rows) + "\n"


def options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Arguments and options, `--help` left out; arguments first."""
    shown = [action for action in parser._actions if kind(action) not in ("_HelpAction", "_SubParsersAction")]
    return sorted(shown, key=lambda action: bool(action.option_strings))


def subcommands(parser: argparse.ArgumentParser) -> list[tuple[str, argparse.ArgumentParser]]:
    found = [action for action in parser._actions if kind(action) == "_SubParsersAction"]
    return [item for action in found for item in action.choices.items()]  # type: ignore[union-attr]


def kind(action: argparse.Action) -> str:
    """By name, since tyro has an argparse of its own."""
    return type(action).__name__


def row(action: argparse.Action) -> str:
    about, default = split_help(" ".join((action.help or "").split()))
    metavar = str(action.metavar or "")
    if action.option_strings:
        name, value = ", ".join(f"`{option}`" for option in action.option_strings), values(metavar)
    else:
        name, value = f"`{argument(action)}`", values(metavar) if action.choices else ""
    return f"| {name} | {value} | {default} | {cell(about)} |"


def argument(action: argparse.Action) -> str:
    """What to call an argument without a name: as the function does, not by its type."""
    shown = str(action.metavar or "").strip("[]").partition(" ")[0]
    return action.dest.rpartition(".")[2].upper() if action.choices or shown in ("STR", "PATH", "INT") else shown


def values(metavar: str) -> str:
    """What may follow an option: `{None}|INT|STR` as INT or STR, `{None,a,b}` as a, b."""
    metavar = metavar.replace("{None}|", "").replace("{None,", "{")
    if metavar.strip("[]").startswith("{") and "[" not in metavar.strip("[]"):
        return ", ".join(code(choice) for choice in metavar.strip("[]{}").split(","))
    return " or ".join(code(part.strip("{}")) for part in metavar.split("|")) if metavar else ""


def split_help(text: str) -> tuple[str, str]:
    """What an option is for, and its default: tyro puts both into one text."""
    match = re.search(r"\s*\((default: (?P<default>[^()]*)|required|repeatable)\)$", text)
    if match is None:
        return text, ""
    about, default = text[: match.start()], match["default"]
    if default is None:
        return about, match[1]
    return about, code(default) if default not in ("None", "") else ""


def code(text: str) -> str:
    return f"`{cell(text)}`" if text else ""


def cell(text: str) -> str:
    return text.replace("|", "\\|")
