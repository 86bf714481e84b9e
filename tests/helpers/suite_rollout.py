"""What an environment of the suite shows and gives under a fixed row of actions."""

from __future__ import annotations

import numpy as np


def rollout(env, seed, steps=12):
    obs, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    seen = [obs]
    for _ in range(steps):
        obs, reward, _, _, info = env.step(env.action_space.sample())
        seen += [obs, np.float64(reward), info["state"]]
    return b"".join(np.asarray(x).tobytes() for x in seen)
