"""Under which conditions a task is seen: what `make_env`, `config.json`, `cbm train` and `cbm preview` share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

from cbm.ranges import Count, Form, Range, Share
from cbm.settings import from_json

CameraName = Annotated[str, Form(r"(?!(?:nan|inf)$)[A-Za-z][\w-]*", "the name of a camera")]


@dataclass(frozen=True)
class Conditions:
    """Distractions and their strength, videos, camera, the task's own arguments."""

    distraction: str = "none"
    """none; together easy, medium, hard; background, camera, color or one of an installed package, several with +:
    background+camera."""
    scale: Share | None = None
    """Strength of camera and colour, 0 to 1; that of the difficulty if nothing is said, else that of easy."""
    camera_scale: Share | None = None
    """Strength of the camera alone, instead of the scale."""
    color_scale: Share | None = None
    """Strength of the colours alone, instead of the scale."""
    num_videos: Count | None = None
    """The first so many training videos; the number of the difficulty if nothing is said, else that of easy."""
    video_names: tuple[str, ...] | None = None
    """These training videos, by their names in the source, instead of the first ones."""
    video_alpha: Share = 1.0
    """Weight of the video over the task's own sky, 0 to 1."""
    dynamic: bool = False
    """The distraction changes at every environment step, not only from episode to episode."""
    videos: str = "builtin"
    """Where backgrounds come from: builtin, davis, davis:FOLDER, or a folder of videos or images."""
    camera_id: Annotated[int, Range(0, 1_000)] | CameraName | None = None
    """Number or name of the task's camera; the usual one if nothing is said."""
    task_kwargs: Mapping[str, bool | int | float | str] | None = None
    """Arguments of dm_control's task: time_limit=10, num_poles=4."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The names that `distraction` is made of, in one order however they were typed."""
        return () if self.distraction == "none" else tuple(sorted(self.distraction.split("+")))

    def conditions(self) -> dict[str, Any]:
        """These settings alone, as keywords of `make_env`."""
        return {field.name: getattr(self, field.name) for field in fields(Conditions)}


def checked(settings: Mapping[str, Any]) -> Conditions:
    """Conditions out of keywords. An unknown one or a wrong type is an error that names it."""
    return from_json(Conditions, dict(settings))
