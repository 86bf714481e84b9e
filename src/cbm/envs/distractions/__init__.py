"""Distractions by name. A new one is a file with a `Distraction` and a line in DISTRACTIONS, or a separate package."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cbm.envs.conditions import Conditions
from cbm.envs.distractions.background import Background
from cbm.envs.distractions.base import Distraction, DistractionConfig
from cbm.envs.distractions.camera import Camera
from cbm.envs.distractions.color import Color
from cbm.envs.videos.clips import check_split
from cbm.errors import CBMError, UnknownChoice
from cbm.registry import ClassRegistry

DISTRACTIONS: ClassRegistry[Distraction] = ClassRegistry(
    "cbm.distractions", Distraction, {"background": Background, "camera": Camera, "color": Color}
)


@dataclass(frozen=True)
class Difficulty:
    """Background, camera and colour together, as the Distracting Control Suite sets them."""

    scale: float
    num_videos: int | None  # None: all
    parts = ("background", "camera", "color")


DIFFICULTIES: dict[str, Difficulty] = {
    "easy": Difficulty(0.1, 4),
    "medium": Difficulty(0.2, 8),
    "hard": Difficulty(0.3, None),
}
CHOICES: tuple[str, ...] = ("none", *DIFFICULTIES, *DISTRACTIONS)


def parts_of(conditions: Conditions) -> tuple[str, ...]:
    """The distractions that are asked for, one by one: `easy` is three of them."""
    parts: list[str] = []
    for name in conditions.parts:
        if name not in DIFFICULTIES and name not in DISTRACTIONS:
            alone = len(conditions.parts) == 1
            raise UnknownChoice("distraction", name, CHOICES if alone else CHOICES[1:])  # `none` cannot be combined
        for part in DIFFICULTIES[name].parts if name in DIFFICULTIES else (name,):
            if part in parts:
                raise CBMError(
                    f"distraction {conditions.distraction!r} has {part} twice. Use each of these once: "
                    f"{', '.join(DISTRACTIONS)}; easy, medium and hard are background, camera and color."
                )
            parts.append(part)
    return tuple(parts)


def shows_videos(conditions: Conditions) -> bool:
    """Whether there are training and unseen videos to distinguish."""
    return any(DISTRACTIONS[part].shows_videos for part in parts_of(conditions))


def make_distractions(conditions: Conditions, split: str = "train") -> list[Distraction]:
    """The distractions of these conditions. An option that none of them uses is an error."""
    check_split(split)
    parts = parts_of(conditions)
    _refuse_useless(conditions, parts)
    difficulty = next((DIFFICULTIES[name] for name in conditions.parts if name in DIFFICULTIES), DIFFICULTIES["easy"])
    shared = DistractionConfig(
        scale=difficulty.scale if conditions.scale is None else conditions.scale,
        num_videos=difficulty.num_videos if conditions.num_videos is None else conditions.num_videos,
        video_names=conditions.video_names,
        video_alpha=conditions.video_alpha,
        dynamic=conditions.dynamic,
        videos=conditions.videos,
        split=split,
    )
    own = {"camera": conditions.camera_scale, "color": conditions.color_scale}
    scales = {part: scale for part, scale in own.items() if scale is not None}
    return [DISTRACTIONS[part](replace(shared, scale=scales.get(part, shared.scale))) for part in parts]


def _refuse_useless(conditions: Conditions, parts: tuple[str, ...]) -> None:
    understood = frozenset[str]().union(*(DISTRACTIONS[part].options for part in parts))
    for option in ("scale", "camera_scale", "color_scale", "num_videos", "video_names", "video_alpha", "dynamic"):
        if getattr(conditions, option) != getattr(Conditions, option) and option not in understood:
            able = [name for name in (*DIFFICULTIES, *DISTRACTIONS) if _understands(name, option)]
            raise CBMError(
                f"{option} does nothing with distraction {conditions.distraction!r}. It works with: {', '.join(able)}."
            )
    if conditions.num_videos is not None and conditions.video_names is not None:
        raise CBMError("num_videos and video_names both say which videos: give one of them.")


def _understands(name: str, option: str) -> bool:
    try:
        parts = DIFFICULTIES[name].parts if name in DIFFICULTIES else (name,)
        return any(option in DISTRACTIONS[part].options for part in parts)
    except CBMError:  # from another package, and it does not load
        return False
