"""Dusk: the lights of a scene grow dim, to a different degree in each episode."""

import numpy as np

from cbm.envs.distractions import Distraction


class Dusk(Distraction):
    options = frozenset({"scale", "dynamic"})

    def __init__(self, config):
        super().__init__(config)
        self.lamps = None

    def reset(self, scene):  # once per episode; self.rng is seeded by the environment
        if self.lamps is None:
            self.lamps = scene.model.light_diffuse.copy()
        self.darkness = self.rng.uniform(0, self.config.scale)

    def step(self):  # once per environment step
        if self.config.dynamic:
            self.darkness = np.clip(self.darkness + 0.01 * self.rng.normal(), 0, self.config.scale)

    def apply(self, scene):  # once per agent step, before the render
        scene.model.light_diffuse[:] = self.lamps * (1 - self.darkness)
