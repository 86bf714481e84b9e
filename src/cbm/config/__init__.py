"""The configuration of a run: its settings, presets and file, and what is made of it."""

from cbm.config.run import (
    PRESETS,
    EnvConfig,
    RunConfig,
    TrainingConfig,
    bound_settings,
    changed_in_passing,
    check_settings,
    effect_of,
    from_json,
    make_config,
    read_config,
    read_provenance,
    to_json,
    write_config,
)

__all__ = [
    "PRESETS",
    "EnvConfig",
    "RunConfig",
    "TrainingConfig",
    "bound_settings",
    "changed_in_passing",
    "check_settings",
    "effect_of",
    "from_json",
    "make_config",
    "read_config",
    "read_provenance",
    "to_json",
    "write_config",
]
