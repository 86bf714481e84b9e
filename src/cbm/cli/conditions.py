"""The options of every verb that makes environments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_type_hints

from tyro.conf import FlagCreatePairsOff
from tyro.constructors import PrimitiveConstructorSpec

from cbm.envs.conditions import Conditions
from cbm.errors import CBMError
from cbm.schema import tree
from cbm.schema.ranges import Share


def _from_words(words: list[str]) -> Any:
    return tree.parse(get_type_hints(Conditions)["task_kwargs"], words[0], "--task-kwargs")


_NAMES_AND_VALUES = PrimitiveConstructorSpec(
    nargs=1,
    metavar="NAME=VALUE,...",
    instance_from_str=_from_words,
    is_instance=lambda value: isinstance(value, Mapping),
    str_from_instance=lambda value: [tree.as_text(value)],
)


@dataclass(frozen=True)
class ConditionArgs(Conditions):
    """`cbm.envs.conditions.Conditions` as options: --distraction background+camera --camera-scale 0.2."""

    task_kwargs: Annotated[Mapping[str, bool | int | float | str], _NAMES_AND_VALUES] | None = None
    """Arguments of dm_control's task: time_limit=10,num_poles=4."""


@dataclass(frozen=True)
class OtherConditionArgs(ConditionArgs):
    """Conditions to try a trained agent in. Whatever is not set is as in training. With --distraction, the others have
    the defaults of `cbm train`, except for the source of videos, the camera and the task's arguments."""

    distraction: str | None = None  # type: ignore[assignment]
    """Instead of the one in training: none, easy, medium, hard, background, camera, color, or several joined by +."""
    video_alpha: Share | None = None  # type: ignore[assignment]
    """Opacity of the video over the task's own sky, 0 to 1."""
    videos: str | None = None  # type: ignore[assignment]
    """train or unseen, like --split; or the source of backgrounds: builtin, davis, davis:FOLDER, or a folder."""
    dynamic: FlagCreatePairsOff[bool] = False
    """Change the distraction at every environment step. If omitted: as in training, or static with --distraction."""
    split: Literal["train", "unseen"] | None = None
    """Use the training videos, or videos that the agent never saw. None: train."""

    def changes(self) -> dict[str, Any]:
        """The conditions that were asked for."""
        asked = {**self.conditions(), "videos": None if self._names_split else self.videos}
        return {name: value for name, value in asked.items() if value is not None and value is not False}

    @property
    def chosen_split(self) -> str:
        named = self.videos if self._names_split else None
        if named is not None and self.split not in (None, named):
            raise CBMError(f"--videos {named} and --split {self.split} contradict each other: give only one of them.")
        return named or self.split or "train"

    @property
    def _names_split(self) -> bool:
        return self.videos in ("train", "unseen")
