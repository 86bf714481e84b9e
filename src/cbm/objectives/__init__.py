"""Objectives: losses that own the encoder of the agent that carries them. One file and one line here each."""

from __future__ import annotations

from typing import Any, NamedTuple

from cbm.errors import choose
from cbm.objectives.cbm import CBM, CBMConfig
from cbm.objectives.dynamics import Dynamics, DynamicsConfig


class ObjectiveEntry(NamedTuple):
    """`build(config, latent_dim=..., action_dim=..., reward_scale=...)` makes an `Objective`."""

    config: type[Any]
    build: type[Any]


OBJECTIVES: dict[str, ObjectiveEntry] = {
    "cbm": ObjectiveEntry(CBMConfig, CBM),
    "dynamics": ObjectiveEntry(DynamicsConfig, Dynamics),
}


def get_objective(name: str) -> ObjectiveEntry:
    """The entry called `name`, such as `cbm`."""
    return choose("objective", name, OBJECTIVES)
