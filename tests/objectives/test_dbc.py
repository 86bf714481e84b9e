"""DBC against a numpy version of what its authors run, and of the formula in their paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from cbm.objectives.dbc import DBC, DBCConfig
from small import A, B, D, arrays, batch, gaussian, policy, run_net, trained

SMALL = DBCConfig(hidden=8)


def dbc(config: DBCConfig = SMALL) -> DBC:
    torch.manual_seed(0)
    return DBC(config, latent_dim=D, action_dim=A, reward_scale=0.25)


def smooth(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 1, 0.5 * x**2, np.abs(x) - 0.5)


@pytest.mark.parametrize("config", [SMALL, replace(SMALL, distance="norm")])
def test_losses_are_those_of_its_authors(config: DBCConfig) -> None:
    objective = dbc(config)
    z, action, reward, z_next = arrays()
    r, partner = 0.25 * reward, np.roll(np.arange(B), 1)
    mean, std = gaussian(objective.transition.net, z, action)
    terms = []
    for i, j in enumerate(partner):
        w2 = np.sqrt((mean[i] - mean[j]) ** 2 + (std[i] - std[j]) ** 2)  # of each dimension
        if config.distance == "norm":
            terms.append((np.abs(z[i] - z[j]).sum() - abs(r[i] - r[j]) - 0.99 * np.sqrt((w2**2).sum())) ** 2)
        else:
            terms.append((smooth(z[i] - z[j]) - smooth(r[i] - r[j]) - 0.99 * w2) ** 2)
    likelihood = np.mean(0.5 * ((z_next - mean) / std) ** 2 + np.log(std))
    noise = torch.randn(B, D, generator=objective.random.generator.clone_state()).double().numpy()
    predicted = run_net(objective.reward_model, mean + std * noise)
    losses, _ = objective.losses(*batch(), policy)
    assert losses["bisimulation"].item() == pytest.approx(np.mean(terms), rel=1e-5)
    assert losses["transition"].item() == pytest.approx(likelihood, rel=1e-5)
    assert losses["reward"].item() == pytest.approx(np.mean((predicted - r) ** 2), rel=1e-5)
    assert objective.weights == {"bisimulation": 0.5, "transition": 1.0, "reward": 1.0}


def test_which_loss_trains_what() -> None:
    objective = dbc()
    z, action, reward, z_next = batch()
    losses, _ = objective.losses(z, action, reward, z_next.requires_grad_(), policy)
    targets = {
        "z": z,
        "P": objective.transition.net[0].weight,
        "R": objective.reward_model[0].weight,
        "z_next": z_next,
    }
    expected = {"bisimulation": {"z"}, "transition": {"z", "P"}, "reward": {"z", "P", "R"}}
    assert trained(losses, targets) == expected


def test_equal_behaviour_means_equal_latents() -> None:
    """Two kinds of transitions, each seen under several disguises: disguises fall together, the kinds do not."""
    torch.manual_seed(0)
    objective, encoder = dbc(replace(SMALL, hidden=32, distance="norm")), torch.nn.Linear(20, D)
    kind = torch.arange(2).repeat(6)
    observation, action = torch.randn(B, 20), torch.zeros(B, A)
    reward = 4.0 * kind[:, None]
    optimizer = torch.optim.Adam([*objective.parameters(), *encoder.parameters()], lr=1e-2)
    for step in range(300):
        shuffled = torch.randperm(B, generator=torch.Generator().manual_seed(step))
        z = torch.tanh(encoder(observation))[shuffled]
        following = torch.zeros(B, D)  # the end of the episode, say
        losses, _ = objective.losses(z, action, reward[shuffled], following, policy)
        optimizer.zero_grad()
        sum(losses.values()).backward()  # type: ignore[union-attr]
        optimizer.step()
    measured = torch.cdist(torch.tanh(encoder(observation)), torch.tanh(encoder(observation)), p=1)
    same = kind[:, None] == kind
    assert measured[same].mean() < 0.3
    assert measured[~same].mean().item() == pytest.approx(1.0, abs=0.3)  # rewards differ by 1
