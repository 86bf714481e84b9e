"""Objectives: losses that train the encoder of the agent that carries them. One file and one line here each.

Other packages add theirs by entry points `cbm.objectives` (docs/extending.md).

An objective owns the encoder: the critic's gradient stops before the latent. One with `blocks_critic = False`, as DBC
and SimSR, shares it with the critic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cbm.objectives.bisim_nce import BisimNCE, BisimNCEConfig
from cbm.objectives.cbm import CBM, CBMConfig, DynamicsConfig
from cbm.objectives.dbc import DBC, DBCConfig
from cbm.objectives.dynamics import Dynamics
from cbm.objectives.simsr import SimSR, SimSRConfig
from cbm.registry import Registry
from cbm.schema.methods import ObjectiveConfig
from cbm.types import Objective

__all__ = ["CBM", "OBJECTIVES", "CBMConfig", "ObjectiveConfig", "ObjectiveEntry"]


class ObjectiveEntry(NamedTuple):
    """`build(config, latent_dim=..., action_dim=..., reward_scale=...)` makes an `Objective`."""

    config: type[ObjectiveConfig]
    build: Callable[..., Objective]
    min_batch: int = 2  # with fewer observations its losses say nothing


OBJECTIVES = Registry(
    "cbm.objectives",
    ObjectiveEntry,
    {
        "cbm": ObjectiveEntry(CBMConfig, CBM),
        "dynamics": ObjectiveEntry(DynamicsConfig, Dynamics),
        "bisim-nce": ObjectiveEntry(BisimNCEConfig, BisimNCE, min_batch=3),
        "dbc": ObjectiveEntry(DBCConfig, DBC),
        "simsr": ObjectiveEntry(SimSRConfig, SimSR),
    },
)
