"""Background: a still or a clip of a video in place of the sky."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from threading import Lock

import numpy as np
from PIL import Image

from cbm.envs.distractions.base import Distraction, DistractionConfig, Scene
from cbm.envs.sky import SKY_SIZE, Sky, pyramid
from cbm.envs.videos import Clip, VideoSource, open_source
from cbm.errors import CBMError

# How opaque the ground is in front of the new sky: walker and cheetah keep theirs, reacher lies on the picture.
GROUND_ALPHA = {"reacher": 0.0, "walker": 1.0, "cheetah": 1.0}
OTHER_GROUND_ALPHA = 0.3
CACHED_FRAMES = 1024  # of 120 kB each at the size that `fast` asks for; shared by all environments of a process


class Background(Distraction):
    """A video drawn uniformly from the first `num_videos`. Static: one frame of it. Dynamic: it plays to and fro."""

    options = frozenset({"num_videos", "dynamic", "videos"})

    def __init__(self, config: DistractionConfig) -> None:
        super().__init__(config)
        self._source = open_source(config.videos)
        if config.split == "train":
            training = self._source.names("train")
            number = len(training) if config.num_videos is None else config.num_videos
            if not 1 <= number <= len(training):
                raise CBMError(
                    f"num_videos must be 1 to {len(training)}, the training videos of {config.videos!r}; got {number}."
                )
            self.names = training[:number]
        else:  # generalisation is measured on all the unseen videos, whatever the number trained on
            self.names = self._source.names("unseen")
            both = sorted(set(self.names) & _training_names(self._source))
            if both:
                raise CBMError(f"videos of {config.videos!r} are in both the training and the unseen set: {both}")
        if not self.names:
            raise CBMError(f"the video source {config.videos!r} has no {config.split} videos")

    def reset(self, scene: Scene) -> None:
        self.name = self.names[int(self.rng.integers(len(self.names)))]
        self._clip = self._source.clip(self.name)
        self.frame = int(self.rng.integers(len(self._clip)))
        self.direction = 1 if self.rng.random() < 0.5 else -1
        ground = scene.model.material("grid").id
        scene.model.mat_rgba[ground, 3] = GROUND_ALPHA.get(scene.domain, OTHER_GROUND_ALPHA)

    def step(self) -> None:
        if self.config.dynamic and len(self._clip) > 1:
            if not 0 <= self.frame + self.direction < len(self._clip):
                self.direction = -self.direction
            self.frame += self.direction

    def apply(self, scene: Scene) -> None:
        scene.background = self.name
        scene.sky = _sky(self.config.videos, self._clip, self.frame)

    def skies(self) -> Iterator[Sky]:
        """Every frame of every video that can be drawn."""
        for name in self.names:
            clip = self._source.clip(name)
            for frame in range(len(clip)):
                yield _sky(self.config.videos, clip, frame)


def _training_names(source: VideoSource) -> set[str]:
    try:
        return set(source.names("train"))
    except CBMError:  # a copy with only the unseen videos will do for an evaluation
        return set()


def _sky(source: str, clip: Clip, index: int) -> Sky:
    frame = (source, clip.name, index)  # not the clip itself, which may keep a file open
    return Sky(frame, lambda side: _recent.get((*frame, side), lambda: _pyramid(clip[index], side)))


def _pyramid(picture: np.ndarray, side: int) -> list[np.ndarray]:
    full = Image.fromarray(picture).resize((SKY_SIZE, SKY_SIZE), Image.Resampling.BILINEAR)
    return pyramid(np.asarray(full), side)


class _Recent:
    """The textures shown last, by frame and size."""

    def __init__(self, capacity: int) -> None:
        self._capacity, self._lock = capacity, Lock()
        self._kept: OrderedDict[Hashable, list[np.ndarray]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = make()
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > self._capacity:
                self._kept.popitem(last=False)
        return made


_recent = _Recent(CACHED_FRAMES)
