"""CBM against a numpy version written from the paper."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cbm.agents import split_name
from cbm.errors import CBMError, UnknownChoice
from cbm.learning.ops import share_between, sinkhorn
from cbm.objectives import OBJECTIVES
from cbm.objectives.cbm import CBM, CBMConfig, average_rewards, log_assignment
from cbm.types import Context, Later
from small import A, B, D, batch, deviations, policy, run_net, trained, unit

K = 6
SMALL = CBMConfig(prototypes=K, transition_hidden=8)


def cbm(config: CBMConfig = SMALL, seed: int = 0) -> CBM:
    torch.manual_seed(seed)
    return CBM(config, latent_dim=D, action_dim=A, reward_scale=0.25)


def to_come(seed: int = 5) -> Later:
    """What the transitions of `batch` lead to, in one to three steps."""
    g = torch.Generator().manual_seed(seed)
    actions, steps = torch.rand(B, 3, A, generator=g), 1 + torch.arange(B) % 3
    actions[:, 0] = batch()[1]
    return Later(torch.randn(B, D, generator=g), actions, steps)


def numpy_losses(objective: CBM, episode: np.ndarray) -> tuple[float, float, np.ndarray]:
    """L_P, L_CBM and the prototype rewards after one batch, by the paper's formulas."""
    scale = unit if objective.config.unit_latents else (lambda x: x)
    z, action, reward, z_next = (t.detach().double().numpy() for t in batch())
    c = objective.prototypes.detach().double().numpy()

    def model(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        change = run_net(objective.transition.net, np.concatenate([x, a], axis=1))
        return change + x if objective.config.residual_transition else change

    later = to_come()
    actions, steps, z_later = (x.double().numpy() for x in (later.actions, later.steps, later.z))
    further = []
    for i in range(B):
        x = z[i : i + 1]
        for action_k in actions[i, : int(steps[i])]:
            x = model(x, action_k[None])
        further.append(x[0])

    r = 0.25 * reward[:, 0]
    r_c = r[:K]  # "randomly sampling from the replay buffer"
    c_next, predicted = model(c, np.tanh(c[:, :A])), model(z, action)
    if objective.config.centred:
        episode = episode if objective.config.episode_means else np.zeros(B)
        z, c = deviations(z, episode), c - z.mean(axis=0)
        z_next, c_next = deviations(z_next, episode), c_next - z_next.mean(axis=0)
        predicted = deviations(predicted, episode)
        further, z_later = deviations(np.array(further), episode), deviations(z_later, episode)
    d = np.array(
        [[abs(r[i] - r_c[j]) + np.linalg.norm(scale(z_next)[i] - scale(c_next)[j]) for j in range(K)] for i in range(B)]
    )
    q = np.exp(-d / 0.05)
    for _ in range(3):
        q = q / q.sum(axis=0) * B / K
        q = q / q.sum(axis=1, keepdims=True)
    p = np.exp(scale(z) @ scale(c).T / 0.1)
    p = p / p.sum(axis=1, keepdims=True)
    cluster = -np.mean((q * np.log(p)).sum(axis=1))
    dynamics = 0.0
    pairs = [(predicted, z_next), (np.array(further), z_later)][: 1 if objective.config.steps_ahead == 1 else 2]
    for query, key in pairs:
        f = np.exp(unit(query) @ unit(key).T / 0.1)
        dynamics -= np.mean(np.log(np.diag(f) / f.sum(axis=1)))
    r_hat = np.array([q[:, k] @ r / q[:, k].sum() for k in range(K)])
    return dynamics, cluster, 0.01 * r_hat + 0.99 * r_c


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"centred": True},
        {"centred": True, "episode_means": True},
        {"residual_transition": True},
        {"steps_ahead": 3},
        {"steps_ahead": 3, "centred": True, "episode_means": True, "residual_transition": True},
        {"episode_weight": 4.0},
    ],
)
@pytest.mark.parametrize("unit_latents", [True, False])
def test_losses_are_those_of_the_paper(unit_latents: bool, settings: dict[str, Any]) -> None:
    objective = cbm(replace(SMALL, unit_latents=unit_latents, **settings))
    episode = np.array([7, 7, 3, 7, 3, 3, 9, 9, 7, 3, 9, 7])
    dynamics, cluster, r_c = numpy_losses(objective, episode)
    losses, _ = objective.losses(*batch(), policy, Context(torch.from_numpy(episode), to_come()))
    assert losses["dynamics"].item() == pytest.approx(dynamics, rel=1e-5)
    assert losses["cluster"].item() == pytest.approx(cluster, rel=1e-5)
    np.testing.assert_allclose(objective.r_c, r_c, rtol=1e-5)
    assert losses.keys() == objective.weights.keys()
    if objective.config.episode_weight:
        z = batch()[0].detach().double().numpy()
        means = z - deviations(z, episode)
        between = np.square(means - z.mean(axis=0)).sum() / np.square(z - z.mean(axis=0)).sum()
        assert losses["episodes"].item() == pytest.approx(between, rel=1e-5)
        assert objective.weights["episodes"] == 4.0


def test_what_an_episode_has_to_itself_leaves_the_latents() -> None:
    """Down the share of the variance between episodes, walls matter less and less beside what moves before them."""
    torch.manual_seed(0)
    episode = torch.arange(3).repeat_interleave(8)
    walls, states = torch.randn(3, 4)[episode], torch.randn(24, 4)
    encoder = torch.nn.Linear(8, D)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=0.05)

    def effect_of_walls() -> float:
        of_walls, of_states = encoder.weight.detach().split(4, dim=1)
        return ((walls @ of_walls.T).var(dim=0).sum() / (states @ of_states.T).var(dim=0).sum()).item()

    before = effect_of_walls()
    for _ in range(30):
        loss = share_between(encoder(torch.cat([walls, states], dim=1)), episode)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert effect_of_walls() < 0.2 * before


def test_some_losses_need_to_know_more() -> None:
    for settings in ({"steps_ahead": 3}, {"episode_weight": 1.0}):
        with pytest.raises(CBMError, match="need the `context`"):
            cbm(replace(SMALL, **settings)).losses(*batch(), policy)


def test_a_residual_model_finds_the_next_latent_before_it_has_learned() -> None:
    z, action, reward, _ = batch()
    found = []
    for residual in (True, False):
        objective = cbm(replace(SMALL, centred=True, residual_transition=residual))
        _, metrics = objective.losses(z, action, reward, 1.01 * z, policy)
        found.append(metrics["cbm/dynamics_accuracy"].item())
    assert found[0] > 0.8 > 0.4 > found[1]


def test_centred_losses_do_not_see_what_all_latents_share() -> None:
    """A background moves all latents of an episode alike. The model sees it, so what it predicts stays as it was."""
    z, action, reward, z_next = batch()
    shared, objectives = torch.full((1, D), 3.0), [cbm(replace(SMALL, centred=centred)) for centred in (True, False)]
    same = []
    for objective in objectives:
        objective.transition.forward = lambda x, a: x  # type: ignore[method-assign]
        plain, _ = objective.losses(z, action, reward, z_next, policy)
        moved, _ = objective.losses(z + shared, action, reward, z_next + shared, policy)
        same.append(torch.allclose(plain["dynamics"], moved["dynamics"], rtol=1e-4))
    assert same == [True, False]


def test_losses_with_episode_means_do_not_see_what_an_episode_has_to_itself() -> None:
    z, action, reward, z_next = batch()
    objective = cbm(replace(SMALL, centred=True, episode_means=True))
    objective.transition.forward = lambda x, a: x  # type: ignore[method-assign]
    episode = torch.arange(B) % 3
    walls = torch.randn(3, D)[episode]
    plain, _ = objective.losses(z, action, reward, z_next, policy, Context(episode))
    moved, _ = objective.losses(z + walls, action, reward, z_next + walls, policy, Context(episode))
    assert torch.allclose(plain["dynamics"], moved["dynamics"], rtol=1e-4)
    with pytest.raises(CBMError, match="need the `context`"):
        objective.losses(z, action, reward, z_next, policy)


@pytest.mark.parametrize("centred", [False, True])
def test_analyses_see_the_clusters_of_training(centred: bool) -> None:
    objective, z = cbm(replace(SMALL, centred=centred)), 0.1 * batch()[0].detach() + 3.0
    space = objective.prototype_space(policy)
    assert torch.equal(space.similarity(z).argmax(dim=1), space.log_p(z).argmax(dim=1))
    assert torch.equal(space.log_p(z), log_assignment(z, objective.prototypes, objective.config))


def test_average_rewards_is_equation_3_for_balanced_codes() -> None:
    g = torch.Generator().manual_seed(0)
    reward, scores = torch.rand(B, generator=g), torch.rand(B, K, generator=g)
    balanced, letter = sinkhorn(scores, 0.05, 500), replace(SMALL, reward_average="balanced")
    equation_3 = K / B * balanced.T @ reward
    torch.testing.assert_close(average_rewards(balanced, reward, SMALL), equation_3)
    torch.testing.assert_close(average_rewards(balanced, reward, letter), equation_3)


def test_of_unbalanced_codes_only_the_actual_sum_makes_an_average() -> None:
    g = torch.Generator().manual_seed(0)
    reward, scores = torch.rand(B, generator=g), torch.rand(B, K, generator=g)
    q, letter = sinkhorn(10 * scores, 0.05, 1), replace(SMALL, reward_average="balanced")
    average = average_rewards(q, reward, SMALL)
    assert reward.min() <= average.min()
    assert average.max() <= reward.max()
    torch.testing.assert_close(average_rewards(q, reward, letter), K / B * q.T @ reward)
    assert not torch.allclose(average_rewards(q, reward, letter), average, rtol=0.1)


def test_which_loss_trains_what() -> None:
    objective = cbm()
    z, action, reward, z_next = batch()
    z_next.requires_grad_()
    bias = torch.zeros(A, requires_grad=True)  # stands for the policy's parameters
    losses, _ = objective.losses(z, action, reward, z_next, lambda x: policy(x) + bias)
    model = objective.transition.net[0].weight
    targets = {"z": z, "c": objective.prototypes, "P": model, "z_next": z_next, "policy": bias}
    assert trained(losses, targets) == {"dynamics": {"z", "P"}, "cluster": {"z", "c"}}


def test_prototype_rewards_converge_to_cluster_means() -> None:
    """Three well separated groups of transitions, one prototype for each."""
    objective = cbm(replace(SMALL, prototypes=3, reward_rate=0.2, sinkhorn_iterations=50))
    corners = 5 * torch.eye(D)[:3]
    groups = torch.arange(3).repeat_interleave(6)
    objective.transition.forward = lambda c, a: c  # type: ignore[method-assign]
    with torch.no_grad():
        objective.prototypes.copy_(corners)
    g = torch.Generator().manual_seed(0)
    for _ in range(100):
        reward = torch.tensor([0.0, 2.0, 4.0])[groups] + 0.1 * torch.randn(18, generator=g)
        objective.losses(corners[groups], torch.zeros(18, A), reward[:, None], corners[groups], policy)
    torch.testing.assert_close(objective.r_c, torch.tensor([0.0, 0.5, 1.0]), rtol=0, atol=0.02)


def test_prototype_rewards_rest_in_evaluation_and_live_in_the_state() -> None:
    objective = cbm()
    objective.losses(*batch(), policy)
    before = objective.r_c.clone()
    objective.eval()
    objective.losses(*batch(1), policy)
    assert torch.equal(objective.r_c, before)
    other = cbm(seed=5)
    other.load_state_dict(objective.state_dict())
    assert torch.equal(other.r_c, before)
    other.losses(*batch(2), policy)  # it follows the batch slowly, and does not start anew
    assert 0 < (other.r_c - before).abs().max() < 0.02


def test_more_prototypes_than_observations() -> None:
    objective = cbm(replace(SMALL, prototypes=40))
    z, action, reward, z_next = batch()
    losses, metrics = objective.losses(z, action, reward, z_next, policy)
    assert all(torch.isfinite(value) for value in metrics.values())
    (gradient,) = torch.autograd.grad(losses["cluster"], objective.prototypes)
    assert gradient.any(dim=1).all()
    first = (0.25 * reward.flatten())[torch.arange(40) % B]  # a reward of the batch for each, then Eq. 4 once
    assert (objective.r_c != first).all()
    assert (objective.r_c - first).abs().max() <= 0.01 * (first.max() - first.min())


def test_metrics_mean_what_they_say() -> None:
    objective, (z, action, reward, z_next) = cbm(), batch()
    _, metrics = objective.losses(z, action, reward, z_next, policy)
    assert not any(value.requires_grad for value in metrics.values())
    with torch.no_grad():
        c = objective.prototypes
        p = log_assignment(z, c, SMALL).exp()
        r, unit_next = 0.25 * reward[:, 0], F.normalize(z_next, dim=1)
        away = (unit_next[:, None] - F.normalize(objective.transition(c, policy(c)), dim=1)).norm(dim=2)
        gap = (r[:, None] - r[:K]).abs()  # prototypes start with rewards of the batch
        q = sinkhorn(-(gap + away), 0.05, 3)
        guess = (F.normalize(objective.transition(z, action), dim=1) @ unit_next.T).argmax(dim=1)
        expected = {
            "cbm/p_entropy": -(p * p.log()).sum(dim=1).mean(),
            "cbm/q_entropy": -(q * q.log()).sum(dim=1).mean(),
            "cbm/prototypes_used": (-(p.mean(dim=0) * p.mean(dim=0).log()).sum()).exp(),
            "cbm/agreement": (p.argmax(dim=1) == q.argmax(dim=1)).float().mean(),
            "cbm/dynamics_accuracy": (guess == torch.arange(B)).float().mean(),
            "cbm/prototype_reward_std": objective.r_c.std(),
            "cbm/reward_distance": gap.mean(),
            "cbm/latent_distance": away.mean(),
        }
    assert metrics.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(metrics[name], value, msg=name)


def test_a_small_batch_is_learned() -> None:
    torch.manual_seed(0)
    objective, encoder = cbm(replace(SMALL, transition_hidden=64)), torch.nn.Linear(20, D)
    observation, following = torch.randn(2, B, 20)
    _, action, reward, _ = batch()
    optimizer = torch.optim.Adam([*objective.parameters(), *encoder.parameters()], lr=3e-3)
    history = []
    for _ in range(200):
        losses, metrics = objective.losses(encoder(observation), action, reward, encoder(following), policy)
        optimizer.zero_grad()
        sum(losses.values()).backward()  # type: ignore[union-attr]
        optimizer.step()
        history.append({name: loss.item() for name, loss in losses.items()})
    assert history[-1]["dynamics"] < 0.3 * history[0]["dynamics"]
    assert history[-1]["cluster"] < 0.7 * history[0]["cluster"]
    assert metrics["cbm/dynamics_accuracy"] > 0.9


def test_bad_input() -> None:
    with pytest.raises(CBMError, match="prototypes must be 2 to 65,536, not 1"):
        CBMConfig(prototypes=1)
    with pytest.raises(UnknownChoice, match="Did you mean 'cbm'"):
        split_name("drqv2+cmb")


@pytest.mark.parametrize("name", OBJECTIVES)
def test_contract(name: str) -> None:
    """What holds for every objective in the registry."""
    entry = OBJECTIVES[name]
    torch.manual_seed(0)
    objective = entry.build(entry.config(), latent_dim=D, action_dim=A, reward_scale=0.25)
    z, action, reward, z_next = batch()
    losses, metrics = objective.losses(z, action, reward, z_next.requires_grad_(), policy)
    assert losses.keys() == objective.weights.keys()
    total = sum(losses.values())
    assert torch.isfinite(total)  # type: ignore[arg-type]
    total.backward()  # type: ignore[union-attr]
    assert z.grad is not None
    assert z.grad.any()
    assert z_next.grad is None
    assert all(parameter.grad is not None for parameter in objective.parameters())
    assert all(metric.ndim == 0 and not metric.requires_grad for metric in metrics.values())
    other = entry.build(entry.config(), latent_dim=D, action_dim=A, reward_scale=0.25)
    other.load_state_dict(objective.state_dict())  # random numbers are drawn from where they were
    again, same = objective.losses(*batch(1), policy)[0], other.losses(*batch(1), policy)[0]
    assert all(torch.equal(again[key], same[key]) for key in again)
