"""The current training episode, and how it is restored after a crash."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np

from cbm.config.seeds import seed_for


class Rollout:
    """One environment, reset for every episode with that episode's own seed.

    So an environment carries nothing over from one episode to the next, and its seed and actions are enough to return
    to the middle of an episode: physics and renderer need not be saved.
    """

    def __init__(self, env: gym.Env, run_seed: int) -> None:
        self.env, self._seed = env, run_seed
        self.index, self.length, self.total = -1, 0, 0.0
        self.background = "none"

    def begin(self, index: int) -> np.ndarray:
        """Reset for episode `index`."""
        self.index, self.length, self.total = index, 0, 0.0
        self.obs, info = self.env.reset(seed=seed_for(self._seed, "train", index))
        self.background = str(info.get("background", "none"))
        return self.obs

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.obs, reward, terminated, truncated, info = self.env.step(action)
        self.length, self.total = self.length + 1, self.total + float(reward)
        return self.obs, float(reward), terminated, truncated, info

    def summary(self) -> dict[str, Any]:
        """The episode as a line of metrics.jsonl."""
        return {
            "episode": self.index,
            "episode_return": self.total,
            "episode_length": self.length,
            "background": self.background,
        }

    def return_to(self, index: int, actions: np.ndarray, newest_frame: np.ndarray) -> None:
        """Replay episode `index` up to where the checkpoint was taken, and check that it comes out the same."""
        self.begin(index)
        for action in actions:
            self.step(action)
        if not np.array_equal(self.obs[-len(newest_frame) :], newest_frame):
            warnings.warn(
                "the environment showed another picture for the same seed and actions: it is not deterministic, "
                "so this run resumes, but will differ from an uninterrupted one",
                stacklevel=2,
            )
