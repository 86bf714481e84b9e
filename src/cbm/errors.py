"""Errors that a person can act on: each says what was wrong and what to type instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

T = TypeVar("T")

TRAIN_HINT = 'pip install "cbm-rl[train]" (in a clone: pip install ".[train]")'
CLUSTER_HINT = 'pip install "cbm-rl[cluster]" (in a clone: pip install ".[cluster]")'
ZOO_HINT = 'pip install "cbm-rl[zoo]" (in a clone: pip install ".[zoo]")'
EXPORT_HINT = 'pip install "cbm-rl[export]" (in a clone: pip install ".[export]")'


class CBMError(Exception):
    """A mistake in what was asked for, or something missing on this machine. The CLI prints it without a traceback."""


class UnknownChoice(CBMError, ValueError):
    """A name that is not in a table. Lists the table, and the entry that was probably meant."""

    def __init__(self, what: str, value: object, choices: Iterable[str]) -> None:
        known = list(choices)
        super().__init__(f"unknown {what} {value!r}.{meant(value, known)} Choose from: {', '.join(known)}.")


def meant(value: object, known: Iterable[str], most: int = 1) -> str:
    """A question whether one of the known names was meant; empty if none of them is near."""
    near = get_close_matches(str(value), known, n=most, cutoff=0.5)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def choose(what: str, value: str, table: Mapping[str, T]) -> T:
    """`table[value]`, or an error that names the choices."""
    if value not in table:
        raise UnknownChoice(what, value, table)
    return table[value]
