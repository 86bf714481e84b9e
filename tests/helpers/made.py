"""A probe and agents made by hand, for tests that need no environment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cbm.agents import Setup, configs, make_agent
from cbm.analysis.probing.probe import Probe


def make_probe(episodes=4, moments=40, backgrounds=("fog", "sea", "wood"), states=3, seed=0):
    """Observations without pictures: every moment before every background."""
    rng = np.random.default_rng(seed)
    parts = []
    for episode in range(episodes):
        state = rng.normal(size=(moments, states))
        for name in backgrounds:
            parts.append(
                Probe(
                    obs=np.zeros((moments, 3, 4, 4), np.uint8),
                    state=state,
                    background=np.array([name] * moments, dtype=object),
                    moment=episode * 1000 + np.arange(moments),
                    episode=np.full(moments, episode),
                    step=np.arange(moments),
                    to_go=np.zeros(moments),
                    by_agent=np.full(moments, episode >= episodes // 2),
                )
            )
    return Probe.join(parts)


def tiny_agent(name, **objective):
    setup = Setup((3, 24, 24), action_dim=2, seed=3)
    config, own = configs(name)
    config = replace(config, hidden_dim=16, conv_channels=4)
    return make_agent(name, setup, config, None if own is None else replace(own, **objective))
