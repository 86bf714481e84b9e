"""The Distracting Control Suite on current MuJoCo and Gymnasium.

MuJoCo and OpenGL are loaded by `make_env`, not before: tables of tasks and conditions are useful without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cbm.envs.make import make_env as make_env

__all__ = ["make_env"]


def __getattr__(name: str) -> Any:
    if name != "make_env":
        raise AttributeError(f"module 'cbm.envs' has no attribute {name!r}")
    from cbm.envs.make import make_env

    return make_env
