"""Which modules a run directory may cause to be imported: those that the user names, and those loaded anyway.

A run says in its config.json which environment it was trained on, as `module:ID`, and Gymnasium imports the module. In
somebody else's run, that could be any code. Agents and objectives need no such care: they are looked up by name among
installed packages.
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
    """Trust these modules: the user has named them on the command line, or in their own configuration."""
    _named.update(dict.fromkeys(modules))


def module_of(env_id: str | None) -> list[str]:
    """The module that `module:ID` names; none if the ID of an environment has no module."""
    module, colon, _ = (env_id or "").partition(":")
    return [module] if colon else []


def check_trusted(env_id: str | None, run: Path) -> None:
    """Raise an error if the run at `run` wants to import something that the user has not named."""
    for module in module_of(env_id):
        if module not in _named and module not in sys.modules:
            raise NotTrusted(
                f"{run} wants to import the Python module {module!r} (its environment is {env_id!r}). If you know and "
                f"trust it, add --trust {module}"
            )


def trust_options() -> str:
    """The options that name the same modules again, for the command that resumes a run."""
    return "".join(f" --trust {module}" for module in _named)
