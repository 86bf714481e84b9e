"""SimSR against a numpy version written from its paper."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cbm.errors import CBMError
from cbm.objectives.simsr import SimSR, SimSRConfig
from small import A, B, D, arrays, batch, gaussian, policy, trained, unit

SMALL = SimSRConfig(hidden=8, models=3)


def simsr(config: SimSRConfig = SMALL) -> SimSR:
    torch.manual_seed(0)
    return SimSR(config, latent_dim=D, action_dim=A, reward_scale=0.25)


def test_losses_are_those_of_its_authors() -> None:
    objective = simsr()
    z, action, reward, z_next = arrays()
    r, z, z_next = 0.25 * reward[:, 0], unit(z), unit(z_next)
    models = [gaussian(model.net, z, action) for model in objective.transitions]
    g = objective.random.generator.clone_state()
    mean, std = models[int(torch.randint(3, (), generator=g))]
    sampled = unit(mean + std * torch.randn(B, D, generator=g).double().numpy())
    errors = [
        1 - z[i] @ z[j] - abs(r[i] - r[j]) - 0.99 * (1 - sampled[i] @ sampled[j]) for i in range(B) for j in range(B)
    ]
    huber = [0.5 * e**2 if abs(e) < 1 else abs(e) - 0.5 for e in errors]
    likelihood = [np.mean(0.5 * ((z_next - mean) / std) ** 2 + np.log(std)) for mean, std in models]
    losses, _ = objective.losses(*batch(), policy)
    assert losses["bisimulation"].item() == pytest.approx(np.mean(huber), rel=1e-5)
    assert losses["transition"].item() == pytest.approx(np.mean(likelihood), rel=1e-5)


def test_which_loss_trains_what() -> None:
    objective = simsr()
    z, action, reward, z_next = batch()
    losses, _ = objective.losses(z, action, reward, z_next.requires_grad_(), policy)
    models = {f"P{i}": model.net[0].weight for i, model in enumerate(objective.transitions)}
    expected = {"bisimulation": {"z"}, "transition": {"z", "P0", "P1", "P2"}}
    assert trained(losses, {"z": z, "z_next": z_next} | models) == expected


def test_every_model_is_drawn() -> None:
    objective = simsr()
    assert {objective.random.below(3) for _ in range(40)} == {0, 1, 2}


def test_bad_input() -> None:
    with pytest.raises(CBMError, match="models must be 1 to"):
        SimSRConfig(models=0)
