"""How a run differs from `drqv2+cbm` besides the method: what an honest comparison must state."""

from __future__ import annotations

from typing import NamedTuple

from cbm.config import RunConfig, effect_of, make_config
from cbm.schema.tree import Effect

REFERENCE = "drqv2+cbm"


class Difference(NamedTuple):
    """A setting that the run and the reference both have, with different values."""

    own: object
    reference: object


def differences(config: RunConfig) -> dict[str, Difference]:
    """By dotted name, where `config` departs from the reference method on its environment, in its preset.

    Settings that only one of the two has belong to the method. `updates_per_agent_step` is compared in their place for
    methods that count their updates in another way.
    """
    reference = make_config(REFERENCE, config.env, config.preset, config.seed)
    found = {"updates_per_agent_step": Difference(config.updates_per_agent_step, reference.updates_per_agent_step)}
    for part in ("agent", "env", "training"):
        ours, theirs = vars(getattr(config, part)), vars(getattr(reference, part))
        for name, own in ours.items():
            if name in theirs and name != "updates_per_step" and effect_of(f"{part}.{name}") > Effect.ROUNDING:
                found[f"{part}.{name}"] = Difference(own, theirs[name])
    return {name: pair for name, pair in found.items() if pair.own != pair.reference}


def describe(config: RunConfig, found: dict[str, Difference]) -> str:
    """One line for a person who watches."""
    if config.agent_name == REFERENCE and not found:
        return f"settings: those of the preset {config.preset!r}"
    listed = ", ".join(f"{name} {pair.own} (there {pair.reference})" for name, pair in found.items())
    return f"compared with {REFERENCE} in preset {config.preset!r}, besides the method: {listed or 'no difference'}"
