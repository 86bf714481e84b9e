"""Colour: the materials of robot and world change colour."""

from __future__ import annotations

import numpy as np

from cbm.envs.distractions.base import Distraction, DistractionConfig, Scene

STEP_STD = 0.03  # of a dynamic step, times the scale


class Color(Distraction):
    """Every material's RGB, uniform within +-scale of its own and clipped to [0, 1]; dynamic: a random walk there."""

    options = frozenset({"scale", "color_scale", "dynamic"})

    def __init__(self, config: DistractionConfig) -> None:
        super().__init__(config)
        self._original: np.ndarray | None = None

    def reset(self, scene: Scene) -> None:
        if self._original is None:  # before anything has painted over it
            self._original = scene.model.mat_rgba[:, :3].astype(np.float64)
        self._low = np.clip(self._original - self.config.scale, 0.0, 1.0)
        self._high = np.clip(self._original + self.config.scale, 0.0, 1.0)
        self._rgb = self.rng.uniform(self._low, self._high)

    def step(self) -> None:
        if self.config.dynamic:
            change = self.rng.normal(scale=STEP_STD * self.config.scale, size=self._rgb.shape)
            self._rgb = np.clip(self._rgb + change, self._low, self._high)

    def apply(self, scene: Scene) -> None:
        scene.model.mat_rgba[:, :3] = self._rgb
