"""Distractions by name. A new one is a file with a `Distraction` and a line in DISTRACTIONS."""

from __future__ import annotations

from dataclasses import dataclass

from cbm.envs.distractions.background import Background
from cbm.envs.distractions.base import Distraction, DistractionConfig, Scene
from cbm.envs.distractions.camera import Camera
from cbm.envs.distractions.color import Color
from cbm.errors import CBMError, UnknownChoice

DISTRACTIONS: dict[str, type[Distraction]] = {
    "background": Background,
    "camera": Camera,
    "color": Color,
}


@dataclass(frozen=True)
class Difficulty:
    """Background, camera and colour together, as the Distracting Control Suite sets them."""

    scale: float
    num_videos: int | None  # None: all
    parts: tuple[str, ...] = ("background", "camera", "color")


DIFFICULTIES: dict[str, Difficulty] = {
    "easy": Difficulty(0.1, 4),
    "medium": Difficulty(0.2, 8),
    "hard": Difficulty(0.3, None),
}
CHOICES: tuple[str, ...] = ("none", *DIFFICULTIES, *DISTRACTIONS)


def make_distractions(
    name: str,
    *,
    scale: float | None = None,
    num_videos: int | None = None,
    dynamic: bool = False,
    videos: str = "builtin",
    split: str = "train",
) -> list[Distraction]:
    """The distractions that `name` stands for. An option that none of them understands is an error, not a shrug."""
    if name not in CHOICES:
        raise UnknownChoice("distraction", name, CHOICES)
    if split not in ("train", "unseen"):
        raise UnknownChoice("split of the videos", split, ("train", "unseen"))
    difficulty = DIFFICULTIES.get(name, DIFFICULTIES["easy"])
    parts = () if name == "none" else difficulty.parts if name in DIFFICULTIES else (name,)
    understood = frozenset[str]().union(*(DISTRACTIONS[part].options for part in parts))
    given = {"scale": scale is not None, "num_videos": num_videos is not None, "dynamic": dynamic}
    for option, is_given in given.items():
        if is_given and option not in understood:
            able = [choice for choice in (*DIFFICULTIES, *DISTRACTIONS) if _understands(choice, option)]
            raise CBMError(f"{option} does nothing with distraction {name!r}. It goes with: {', '.join(able)}.")
    if scale is not None and not 0.0 <= scale <= 1.0:
        raise CBMError(f"scale must lie between 0 and 1 (easy 0.1, medium 0.2, hard 0.3); got {scale}.")
    config = DistractionConfig(
        scale=difficulty.scale if scale is None else scale,
        num_videos=difficulty.num_videos if num_videos is None else num_videos,
        dynamic=dynamic,
        videos=videos,
        split=split,
    )
    return [DISTRACTIONS[part](config) for part in parts]


def _understands(choice: str, option: str) -> bool:
    parts = DIFFICULTIES[choice].parts if choice in DIFFICULTIES else (choice,)
    return any(option in DISTRACTIONS[part].options for part in parts)


__all__ = [
    "CHOICES",
    "DIFFICULTIES",
    "DISTRACTIONS",
    "Difficulty",
    "Distraction",
    "DistractionConfig",
    "Scene",
    "make_distractions",
]
