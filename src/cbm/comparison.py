"""What sets a run apart from `drqv2+cbm` besides the method: what an honest comparison must say aloud."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

from cbm.config import OF_THE_MACHINE, RunConfig, make_config

REFERENCE = "drqv2+cbm"


class Difference(NamedTuple):
    """A setting that the run and the reference both have, with different values."""

    own: Any
    reference: Any


def differences(config: RunConfig) -> dict[str, Difference]:
    """By dotted name, where `config` departs from the reference method on its environment, in its preset.

    Settings that only one of the two has belong to the method. `updates_per_agent_step` is compared in their place for
    methods that count their updates in another way.
    """
    reference = make_config(REFERENCE, config.env, config.preset, config.seed)
    found = {"updates_per_agent_step": Difference(config.updates_per_agent_step, reference.updates_per_agent_step)}
    for part in ("agent", "env", "training"):
        ours, theirs = getattr(config, part), getattr(reference, part)
        shared = {field.name for field in fields(ours)} & {field.name for field in fields(theirs)}
        for field in fields(ours):
            if field.name in shared - OF_THE_MACHINE - {"updates_per_step"}:
                found[f"{part}.{field.name}"] = Difference(getattr(ours, field.name), getattr(theirs, field.name))
    return {name: pair for name, pair in found.items() if pair.own != pair.reference}


def describe(config: RunConfig, found: dict[str, Difference]) -> str:
    """One line for a person who watches."""
    if config.agent_name == REFERENCE and not found:
        return f"settings: those of the preset {config.preset!r}"
    listed = ", ".join(f"{name} {pair.own} (there {pair.reference})" for name, pair in found.items())
    return f"besides the method, against {REFERENCE} in preset {config.preset!r}: {listed or 'no difference'}"
