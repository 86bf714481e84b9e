"""The GPU path without a GPU: updates of tensors on PyTorch's device `meta`, which know their shape and have no values.

Whatever mixes devices fails here, and so does whatever would have to wait for a GPU, because there are no values to
wait for. What CUDA computes, how fast, and how its streams and pinned memory behave is not tested.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from cbm.agents import agent_names, configs, make_agent
from cbm.types import begin_episode
from small_agents import OBJECTIVE_SIZES, SETUP, SIZES, batch, sequences, shrunk

ELSEWHERE = torch.device("meta")


class CpuGenerator:
    of_the_cpu = torch.Generator

    def __new__(cls, device: object = "cpu") -> Any:
        return cls.of_the_cpu()


def agent_elsewhere(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An agent on that device, which has no random generators (those of the CPU take their place) and no autocast."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    config, objective = configs(name)
    if objective is not None:
        objective = shrunk(objective, OBJECTIVE_SIZES)
    own = {"proto": shrunk(config.proto, OBJECTIVE_SIZES)} if hasattr(config, "proto") else {}
    config = replace(shrunk(config, SIZES), batch_size=20, **own)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "Generator", CpuGenerator)
        return make_agent(name, replace(SETUP, device=ELSEWHERE), config, objective)


@pytest.mark.parametrize("name", agent_names())
def test_updates_stay_on_their_device_and_never_wait_for_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, steps = agent_elsewhere(name, monkeypatch), []

    def step(optimizer: torch.optim.Adam, closure: None = None) -> None:  # the fused one is made for real devices only
        gradients = [p.grad.device for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        steps.append(set(gradients))

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    for seed in range(2):
        metrics = agent.update(sequences(seed) if hasattr(agent.config, "length") else batch(seed, size=20), 0)
        assert {value.device for value in metrics.values()} == {ELSEWHERE}
    assert len(steps) >= 2
    assert all(devices == {ELSEWHERE} for devices in steps)
    assert {x.device for module in agent.modules.values() for x in module.parameters()} == {ELSEWHERE}


@pytest.mark.parametrize("name", ["drqv2+cbm", "drq", "tpc"])
def test_acting_waits_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the action, which the environment needs."""
    waits = []

    def fetch(x: torch.Tensor) -> torch.Tensor:
        waits.append(x.device)
        return torch.zeros(x.shape)

    agent = agent_elsewhere(name, monkeypatch)
    monkeypatch.setattr(torch.Tensor, "cpu", fetch)
    begin_episode(agent)
    for _ in range(2):
        assert agent.act(np.zeros(SETUP.obs_shape, np.uint8), 0, explore=True).shape == (2,)
    assert waits == [ELSEWHERE] * 2
