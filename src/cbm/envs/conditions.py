"""The conditions under which a task is seen, shared by `make_env`, `config.json`, `cbm train` and `cbm preview`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

from cbm.schema.ranges import Count, Form, Range, Share

CameraName = Annotated[str, Form(r"(?!(?:nan|inf)$)[A-Za-z][\w-]*", "the name of a camera")]


@dataclass(frozen=True)
class Conditions:
    """Distractions and their strength, videos, camera, the task's own arguments."""

    distraction: str = "none"
    """none; background, camera or color; all three at once: easy, medium or hard; or one from an installed package.
    Join several with +: background+camera."""
    scale: Share | None = None
    """Strength of camera and colour, 0 to 1. None: as in easy, medium or hard if chosen, otherwise as in easy."""
    camera_scale: Share | None = None
    """Strength of the camera distraction, instead of the scale."""
    color_scale: Share | None = None
    """Strength of the colour distraction, instead of the scale."""
    num_videos: Count | None = None
    """How many training videos to use. None: as in easy, medium or hard if chosen, otherwise as in easy."""
    video_names: tuple[str, ...] | None = None
    """Names of the training videos to use, instead of the first ones."""
    video_alpha: Share = 1.0
    """Opacity of the video over the task's own sky, 0 to 1."""
    dynamic: bool = False
    """Change the distraction at every environment step, not only between episodes."""
    videos: str = "builtin"
    """Source of backgrounds: builtin, davis, davis:FOLDER, or a folder of videos or images."""
    camera_id: Annotated[int, Range(0, 1_000)] | CameraName | None = None
    """Number or name of the task's camera. None: the task's default."""
    task_kwargs: Mapping[str, bool | int | float | str] | None = None
    """Arguments of dm_control's task: time_limit=10, num_poles=4."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The names that `distraction` is made of, in a fixed order."""
        return () if self.distraction == "none" else tuple(sorted(self.distraction.split("+")))

    def conditions(self) -> dict[str, Any]:
        """Only these settings, as keywords of `make_env`."""
        return {field.name: getattr(self, field.name) for field in fields(Conditions)}
