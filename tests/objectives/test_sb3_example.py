"""The example in docs/ runs, and CBM, not SAC, trains its encoder."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

pytest.importorskip("stable_baselines3")
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "sb3_sac_cbm.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sb3_sac_cbm", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sb3_sac_cbm"] = module
    spec.loader.exec_module(module)
    return module


def small(example: ModuleType) -> object:
    env = example.MovingDot(size=32, length=10)
    return example.make_model(env, prototypes=8, learning_starts=20, batch_size=16, buffer_size=200)


def test_learns_for_a_few_steps(example: ModuleType) -> None:
    model = small(example)
    before = [p.clone() for p in model.cbm_optimizer.param_groups[0]["params"]]
    model.learn(60)
    assert all(torch.isfinite(p).all() for p in model.policy.parameters())
    after = model.cbm_optimizer.param_groups[0]["params"]
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    logged = model.logger.name_to_value
    assert {"loss/dynamics", "loss/cluster", "cbm/agreement"} <= logged.keys()
    action, _ = model.predict(model.env.reset())
    assert action.shape == (1, 1)


def test_sac_does_not_move_the_encoder(example: ModuleType) -> None:
    model = small(example)
    model.learn(30)
    model.train_encoder = lambda batch_size: {}
    encoder = [p.clone() for p in model.blocked.encoder.parameters()]
    critic = [p.clone() for p in model.critic.qf0.parameters()]
    model.train(gradient_steps=2, batch_size=16)
    assert all(torch.equal(a, b) for a, b in zip(encoder, model.blocked.encoder.parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(critic, model.critic.qf0.parameters(), strict=True))


def test_one_encoder_for_actor_and_critic_in_one_optimizer(example: ModuleType) -> None:
    model = small(example)
    assert model.critic.features_extractor is model.actor.features_extractor
    encoder = {id(p) for p in model.blocked.encoder.parameters()}
    for optimizer in (model.actor.optimizer, model.critic.optimizer):
        assert not encoder & {id(p) for group in optimizer.param_groups for p in group["params"]}
