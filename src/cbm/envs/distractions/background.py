"""Background: a still or a clip of a video in place of the sky."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from threading import Lock

import numpy as np
from PIL import Image

from cbm.envs.distractions.base import Distraction, DistractionConfig, Scene
from cbm.envs.rendering.sky import SKY_SIZE, Sky, first_face, pyramid
from cbm.envs.videos import open_source
from cbm.envs.videos.clips import Clip
from cbm.errors import CBMError, UnknownChoice

# How opaque the ground is in front of the new sky, after the original: walker and cheetah keep theirs; reacher lies on
# the picture. So do point_mass and fish, which the original does not have, but which are also seen from straight above.
GROUND_ALPHA = {"reacher": 0.0, "point_mass": 0.0, "fish": 0.0, "walker": 1.0, "cheetah": 1.0}
OTHER_GROUND_ALPHA = 0.3
# Materials between the camera and the sky: the ground of every task, and the wall behind manipulator and stacker.
GROUND_MATERIALS = ("grid", "background")
CACHED_FRAMES = 1024  # 120 kB each at the size that `fast` uses; shared by all environments of a process


class Background(Distraction):
    """A video drawn uniformly from the first `num_videos`, or from those named.

    Static: one frame of it. Dynamic: it plays back and forth.
    """

    options = frozenset({"num_videos", "video_names", "video_alpha", "dynamic", "videos"})
    shows_videos = True

    def __init__(self, config: DistractionConfig) -> None:
        super().__init__(config)
        self._source = open_source(config.videos)
        if config.split == "train":
            self.names = _chosen(self._source.names("train"), config)
        else:  # generalisation is measured on all unseen videos, however many were used in training
            self.names = self._source.names("unseen")
            trained: tuple[str, ...] = ()
            with suppress(CBMError):  # a copy with only the unseen videos is enough for an evaluation
                trained = self._source.names("train")
            both = sorted(set(self.names) & set(trained))
            if both:
                raise CBMError(f"videos of {config.videos!r} are in both the training and the unseen set: {both}")
        if not self.names:
            raise CBMError(f"the video source {config.videos!r} has no {config.split} videos")
        self._own_sky: np.ndarray | None = None

    def reset(self, scene: Scene) -> None:
        if self._own_sky is None and self.config.video_alpha < 1.0:
            self._own_sky = first_face(scene.model)
        self.name = self.names[int(self.rng.integers(len(self.names)))]
        self._clip = self._source.clip(self.name)
        self.frame = int(self.rng.integers(len(self._clip)))
        self.direction = 1 if self.rng.random() < 0.5 else -1
        for material in range(scene.model.nmat):
            if scene.model.material(material).name in GROUND_MATERIALS:
                scene.model.mat_rgba[material, 3] = GROUND_ALPHA.get(scene.domain, OTHER_GROUND_ALPHA)

    def step(self) -> None:
        """The next frame. At the ends it reverses as the original does, which shows the last frame twice."""
        if self.config.dynamic:
            self.frame += self.direction
            if self.frame <= 0:
                self.frame, self.direction = 0, 1
            if self.frame >= len(self._clip):
                self.frame, self.direction = len(self._clip) - 1, -1

    def apply(self, scene: Scene) -> None:
        scene.background = self.name
        scene.sky = self._sky(self._clip, self.frame)

    def skies(self) -> Iterator[Sky]:
        """Every frame of every video that can be drawn."""
        for name in self.names:
            clip = self._source.clip(name)
            for frame in range(len(clip)):
                yield self._sky(clip, frame)

    def _sky(self, clip: Clip, index: int) -> Sky:
        alpha, under = self.config.video_alpha, self._own_sky
        blended = None if under is None else (alpha, zlib.crc32(under.tobytes()))
        frame = (self.config.videos, clip.name, index, blended)  # not the clip itself, which may hold a file open
        return Sky(frame, lambda side: _remembered((*frame, side), lambda: _pyramid(clip[index], side, alpha, under)))


def _chosen(training: tuple[str, ...], config: DistractionConfig) -> tuple[str, ...]:
    """The first `num_videos` training videos, or those that were named."""
    if config.video_names is None:
        number = len(training) if config.num_videos is None else config.num_videos
        if not 1 <= number <= len(training):
            raise CBMError(
                f"num_videos must be 1 to {len(training)}, the training videos of {config.videos!r}; got {number}."
            )
        return training[:number]
    for name in config.video_names:
        if name not in training:
            raise UnknownChoice(f"training video of {config.videos!r}", name, training)
    if len(set(config.video_names)) < max(len(config.video_names), 1):
        raise CBMError(
            f"video_names must name one video or more, each once; got {', '.join(config.video_names) or 'none'}."
        )
    return config.video_names


def _pyramid(picture: np.ndarray, side: int, alpha: float, under: np.ndarray | None) -> list[np.ndarray]:
    full = np.asarray(Image.fromarray(picture).resize((SKY_SIZE, SKY_SIZE), Image.Resampling.BILINEAR))
    if under is not None:
        full = (alpha * full.astype(np.float32) + (1.0 - alpha) * under.astype(np.float32)).astype(np.uint8)
    return pyramid(full, side)


_recent: dict[Hashable, list[np.ndarray]] = {}  # the textures shown last, by frame and size, the latest at the end
_lock = Lock()


def _remembered(key: Hashable, make: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
    with _lock:
        found = _recent.pop(key, None)
    textures = make() if found is None else found
    with _lock:
        _recent[key] = textures
        if len(_recent) > CACHED_FRAMES:
            del _recent[next(iter(_recent))]
    return textures
