"""Which modules a run directory may have imported: those that the user names, and those that are loaded anyway.

A run says in its config.json which environment it was trained on, as `module:ID`, and Gymnasium imports the module. In
a run that somebody else made, that could be any code. Agents and objectives need no such care: they are looked up by
name among what is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from cbm.errors import CBMError

_named: dict[str, None] = {}  # in the order in which they were named


class NotTrusted(CBMError):
    """A run wants to import a module that the user has not allowed."""


def trust(modules: Iterable[str]) -> None:
    """The user has named these modules: on the command line, or in their own configuration."""
    _named.update(dict.fromkeys(modules))


def module_of(env_id: str | None) -> list[str]:
    """The module that `module:ID` names; none where an environment is known by its ID alone."""
    module, colon, _ = (env_id or "").partition(":")
    return [module] if colon else []


def check_trusted(env_id: str | None, run: Path) -> None:
    """An error where the run at `run` wants to import what the user has not named."""
    for module in module_of(env_id):
        if module not in _named and module not in sys.modules:
            raise NotTrusted(
                f"{run} wants to import the Python module {module!r} (its environment is {env_id!r}). If you know and "
                f"trust it, add --trust {module}"
            )


def trust_options() -> str:
    """The options that repeat what the user has named so far, for a command to resume with."""
    return "".join(f" --trust {module}" for module in _named)
