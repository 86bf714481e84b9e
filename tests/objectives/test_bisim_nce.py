"""The contrastive ablation against a numpy version written from the paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from cbm.objectives.bisim_nce import BisimNCE, BisimNCEConfig, nearest
from cbm.types import Context
from small import A, B, D, arrays, batch, deviations, policy, run_net, trained, unit

SMALL = BisimNCEConfig(transition_hidden=8)


def bisim_nce(config: BisimNCEConfig = SMALL) -> BisimNCE:
    torch.manual_seed(0)
    return BisimNCE(config, latent_dim=D, action_dim=A, reward_scale=0.25)


@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        replace(SMALL, unit_latents=False),
        replace(SMALL, residual_transition=True),
        replace(SMALL, centred=True, episode_means=True),
    ],
)
def test_losses_are_those_of_the_paper(config: BisimNCEConfig) -> None:
    objective = bisim_nce(config)
    z, action, reward, z_next = arrays()
    r = 0.25 * reward[:, 0]
    scale = unit if config.unit_latents else (lambda x: x)
    predicted = run_net(objective.transition.net, np.concatenate([z, action], axis=1))
    if config.residual_transition:
        predicted = predicted + z
    if config.centred:
        z, z_next, predicted = (deviations(x, np.arange(B) % 3) for x in (z, z_next, predicted))

    def distance(i: int, j: int) -> float:
        return abs(r[i] - r[j]) + np.linalg.norm(scale(z_next)[i] - scale(z_next)[j])

    contrast = []
    for i in range(B):
        others = [j for j in range(B) if j != i]
        closest = min(others, key=lambda j, i=i: distance(i, j))
        f = {j: np.exp(unit(z)[i] @ unit(z)[j] / 0.1) for j in others}
        contrast.append(-np.log(f[closest] / sum(f.values())))
    f = np.exp(unit(predicted) @ unit(z_next).T / 0.1)
    losses, metrics = objective.losses(*batch(), policy, Context(torch.arange(B) % 3))
    assert losses["contrast"].item() == pytest.approx(np.mean(contrast), rel=1e-5)
    assert losses["dynamics"].item() == pytest.approx(-np.mean(np.log(np.diag(f) / f.sum(axis=1))), rel=1e-5)
    every = [distance(i, j) for i in range(B) for j in range(B) if i != j]
    assert metrics["bisim-nce/distance"].item() == pytest.approx(np.mean(every), rel=1e-4)
    assert metrics["bisim-nce/positive_distance"] < metrics["bisim-nce/distance"]


def test_which_loss_trains_what() -> None:
    objective = bisim_nce()
    z, action, reward, z_next = batch()
    losses, _ = objective.losses(z, action, reward, z_next.requires_grad_(), policy)
    targets = {"z": z, "P": objective.transition.net[0].weight, "z_next": z_next}
    assert trained(losses, targets) == {"dynamics": {"z", "P"}, "contrast": {"z"}}


def test_the_nearest_is_another_one() -> None:
    d = torch.tensor([[0.0, 3.0, 1.0], [3.0, 0.0, 2.0], [1.0, 2.0, 0.0]])
    assert nearest(d).tolist() == [2, 2, 0]
