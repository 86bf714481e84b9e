"""What a distraction is: drawn at random at the start of an episode, and applied before every render."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

if TYPE_CHECKING:
    import mujoco

    from cbm.envs.rendering.sky import Sky


@dataclass
class Scene:
    """What a distraction may change: the model's appearance, the camera's pose, the sky. Never the physics."""

    domain: str
    model: mujoco.MjModel
    data: mujoco.MjData
    camera_id: int = 0
    sky: Sky | None = None
    background: str = "none"  # the name of the video shown; for analysis, never for the agent


@dataclass(frozen=True)
class DistractionConfig:
    """Settings for all distractions; each class says in `options` which of them it uses."""

    scale: float = 0.1
    num_videos: int | None = None  # only the first ones of the list; None: all
    video_names: tuple[str, ...] | None = None  # these instead
    video_alpha: float = 1.0
    dynamic: bool = False
    videos: str = "builtin"
    split: str = "train"


class Distraction(ABC):
    """One way to disturb the eye. Static: drawn once per episode. Dynamic: changes at every environment step."""

    options: ClassVar[frozenset[str]] = frozenset()  # names of the settings that it uses
    shows_videos: ClassVar[bool] = False  # if so, evaluations play training and unseen videos separately
    names: tuple[str, ...] = ()  # of the videos that an episode may show, if any

    def __init__(self, config: DistractionConfig) -> None:
        self.config = config
        self.rng = np.random.default_rng(0)

    @abstractmethod
    def reset(self, scene: Scene) -> None:
        """Draw this episode's distraction from `self.rng`. The scene is in its first state."""

    def step(self) -> None:  # noqa: B027 (a distraction without motion need not have one)
        """One environment step of a dynamic distraction."""

    @abstractmethod
    def apply(self, scene: Scene) -> None:
        """Write it into the scene; called once per agent step, after the physics and before the render."""
