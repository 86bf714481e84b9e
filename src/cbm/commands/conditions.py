"""The options of every verb that makes environments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

from tyro.constructors import PrimitiveConstructorSpec

from cbm import settings
from cbm.conditions import Conditions


def _from_words(words: list[str]) -> Any:
    return settings.parse(get_type_hints(Conditions)["task_kwargs"], words[0], "--task-kwargs")


def _to_words(value: Any) -> list[str]:
    return [",".join(f"{name}={item}" for name, item in value.items())]


_NAMES_AND_VALUES = PrimitiveConstructorSpec(
    nargs=1,
    metavar="NAME=VALUE,...",
    instance_from_str=_from_words,
    is_instance=lambda value: isinstance(value, Mapping),
    str_from_instance=_to_words,
)


@dataclass(frozen=True)
class ConditionArgs(Conditions):
    """`cbm.conditions.Conditions` as options: --distraction background+camera --camera-scale 0.2."""

    task_kwargs: Annotated[Mapping[str, bool | int | float | str], _NAMES_AND_VALUES] | None = None
    """Arguments of dm_control's task: time_limit=10,num_poles=4."""
