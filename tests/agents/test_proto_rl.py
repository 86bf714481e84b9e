"""Proto-RL against a numpy version written from its paper; its intrinsic reward and its pre-training."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch

from augmentation import random_shift
from cbm.agents import make_agent
from cbm.agents.proto_rl import ProtoRLConfig
from cbm.config import make_config
from cbm.errors import CBMError
from cbm.objectives.proto import Proto, ProtoConfig
from cbm.types import Batch
from small_agents import SETUP, agent, batch

B, D, K, P = 12, 5, 6, 7
SMALL = ProtoConfig(prototypes=K, projection_dim=P, predictor_hidden=8, queue=15)  # its authors'
GUARDED = SMALL.laptop()  # with what ours adds against collapse


def proto(config: ProtoConfig = SMALL) -> Proto:
    torch.manual_seed(0)
    objective = Proto(config, D)
    with torch.no_grad():
        weight = objective.target_projector.outer.weight
        weight.add_(0.1 * torch.randn_like(weight))  # so that it differs from the other one
        objective.prototypes.mul_(3.0)  # so that normalising them matters
    return objective


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def linear(layer: Any, x: np.ndarray) -> np.ndarray:
    return x @ layer.weight.detach().double().numpy().T + layer.bias.detach().double().numpy()


def project(projector: Any, x: np.ndarray, config: ProtoConfig) -> np.ndarray:
    if config.bottleneck:
        x = linear(projector.inner[0], x)
        x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)  # LayerNorm
        x = np.tanh(x)
    return linear(projector.outer, standard(x) if config.standardise else x)


def standard(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5)


def loss(objective: Proto, z: torch.Tensor, z_next: torch.Tensor) -> torch.Tensor:
    nothing = torch.zeros(len(z), 1)
    return objective.losses(z, nothing, nothing, z_next, lambda x: x)[0]["proto"]


@pytest.mark.parametrize("config", [SMALL, replace(GUARDED, standardise=False), GUARDED])
def test_the_loss_is_that_of_its_authors_with_what_ours_adds_or_without(config: ProtoConfig) -> None:
    objective = proto(config)
    z, z_next = 0.3 * torch.randn(2, B, D, generator=torch.Generator().manual_seed(1)) + 0.5
    c = unit(objective.prototypes.detach().double().numpy())
    x = project(objective.projector, z.double().numpy(), config)
    x_next = project(objective.target_projector, z_next.double().numpy(), config)
    hidden = np.maximum(linear(objective.predictor[0], x), 0)
    p = np.exp(unit(linear(objective.predictor[2], hidden)) @ c.T / 0.1)
    p = p / p.sum(axis=1, keepdims=True)
    q = np.exp(unit(x_next) @ c.T / 0.1)
    for _ in range(3):
        q = q / q.sum(axis=0) * B / K
        q = q / q.sum(axis=1, keepdims=True)
    expected = -np.mean((q * np.log(p)).sum(axis=1))
    assert loss(objective, z, z_next).item() == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(objective.prototypes.detach().norm(dim=1), 1.0, rtol=1e-5)


def test_who_learns_from_it() -> None:
    objective = proto()
    z, z_next = torch.randn(2, B, D).requires_grad_().unbind()
    z.retain_grad()
    z_next.retain_grad()
    loss(objective, z, z_next).backward()
    assert z.grad is not None
    assert z_next.grad is None
    without = {name for name, parameter in objective.named_parameters() if parameter.grad is None}
    assert without == {name for name, _ in objective.named_parameters() if name.startswith("target_projector")}


def test_a_projection_does_not_depend_on_its_company() -> None:
    objective = proto(GUARDED)
    g = torch.Generator().manual_seed(1)
    past = 0.3 * torch.randn(200, B, D, generator=g) + 0.5
    for z in past:
        loss(objective, z, z)
    z = past[-1]
    torch.testing.assert_close(objective.embed(z)[:1], objective.embed(z[:1]))
    together = objective.projector(past.flatten(0, 1))[-B:].detach()
    assert torch.cosine_similarity(together, objective.embed(z)).min() > 0.95  # not 1: the averages forget the past


def dots(seed: int, size: int = 32) -> Batch:
    """A dot that moves one pixel before a background that never changes."""
    g = torch.Generator().manual_seed(seed)
    shade = 8 * torch.arange(20)[None, :] + 4 * torch.arange(20)[:, None]
    obs, next_obs = shade.to(torch.uint8).repeat(2, size, 9, 1, 1)
    for i, (x, y) in enumerate(torch.randint(4, 14, (size, 2), generator=g).tolist()):
        obs[i, :, y : y + 2, x : x + 2] = 255
        next_obs[i, :, y : y + 2, x + 1 : x + 3] = 255
    return replace(batch(seed, n_step=1, size=size), obs=obs, next_obs=next_obs)


def test_projections_of_similar_images_do_not_become_one() -> None:
    spread = {}
    for standardise in (False, True):
        config = ProtoConfig(prototypes=32, projection_dim=16, predictor_hidden=32, queue=64).laptop()
        config = replace(config, standardise=standardise)
        a = agent("proto", proto=config, encoder_every=1, lr=1e-3, shift_pad=1, pixel_offset=0.5)
        for i in range(60):
            a.update(dots(i), 0)
        spread[standardise] = a.encode(dots(60).obs).std(dim=0).mean().item()
    assert spread[False] < 0.1 < 0.2 < spread[True], spread  # 0.25: all over the sphere of 16 dimensions


@pytest.mark.parametrize("own_candidates", [False, True])
def test_novelty_is_the_distance_to_the_third_nearest_candidate(own_candidates: bool) -> None:
    objective = proto(replace(SMALL, own_candidates=own_candidates))
    g = torch.Generator().manual_seed(0)
    for _ in range(4):
        z = torch.randn(B, D, generator=g)
        pointer = int(objective.pointer)
        before = objective.queue.clone()
        novelty = objective.novelty(z, g)
        x = unit(project(objective.projector, z.double().numpy(), SMALL))
        assert int(objective.pointer) == (pointer + K) % 15
        fresh = [(pointer + i) % 15 for i in range(K)]
        old = [i for i in range(15) if i not in fresh]
        assert torch.equal(objective.queue[old], before[old])
        for row in objective.queue[fresh].numpy():  # each is a projection of the batch
            assert np.abs(x - row).max(axis=1).min() < 1e-5
        candidates = objective.queue if own_candidates else before
        distance = np.linalg.norm(x[:, None] - candidates.double().numpy()[None], axis=2)
        np.testing.assert_allclose(novelty[:, 0], np.sort(distance, axis=1)[:, 2], rtol=1e-4, atol=1e-3)


def test_slow_copies_follow() -> None:
    a = agent("proto", encoder_rate=0.5)
    before = a.target_encoder.convs[0].weight.clone(), a.objective.target_projector.outer.weight.clone()
    a.update(batch(n_step=1), 0)
    torch.testing.assert_close(a.target_encoder.convs[0].weight, (before[0] + a.encoder.convs[0].weight) / 2)
    after = (before[1] + a.objective.projector.outer.weight) / 2
    torch.testing.assert_close(a.objective.target_projector.outer.weight, after)


def test_the_encoder_learns_every_second_update() -> None:
    a = agent("proto")
    moved = []
    for i in range(4):
        before = a.encoder.convs[0].weight.clone()
        metrics = a.update(batch(i, n_step=1), 0)
        moved.append(not torch.equal(before, a.encoder.convs[0].weight))
        assert ("loss/proto" in metrics) == moved[-1]
    assert moved == [True, False, True, False]


def test_the_critic_trains_the_last_layer_and_no_convolution() -> None:
    a = agent("proto", encoder_every=1000)
    a.update(batch(n_step=1), 0)  # the objective's turn
    before = a.encoder.convs[0].weight.clone(), a.encoder.projection[0].weight.clone()
    a.update(batch(n_step=1), 0)
    assert torch.equal(before[0], a.encoder.convs[0].weight)
    assert not torch.equal(before[1], a.encoder.projection[0].weight)


def test_the_paper_preset_is_its_authors() -> None:
    """Projections and latents by hand, from Proto-RL's code: Linear(feature maps); LayerNorm(Linear(feature maps))."""
    a, b = agent("proto"), batch(n_step=1)
    with torch.no_grad():
        x = b.obs.float() / 255
        for conv in a.encoder.convs:
            x = torch.relu(conv(x))
        x = x.permute(0, 2, 3, 1).flatten(1)
        z = torch.nn.functional.linear(x, a.encoder.projection[0].weight, a.encoder.projection[0].bias)
        z = (z - z.mean(dim=1, keepdim=True)) / (z.var(dim=1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        projected = linear(a.objective.projector.outer, x.double().numpy())
        torch.testing.assert_close(a.encoder(b.obs), z, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(a.encode(b.obs), unit(projected), rtol=1e-3, atol=1e-5)
    assert not list(a.objective.projector.inner.parameters())


def test_what_the_laptop_preset_adds_is_named() -> None:
    paper, laptop = (make_config("proto", preset=preset).agent for preset in ("paper", "laptop"))
    own = {"pixel_offset", "latent_tanh", "centre_maps", "proto"}
    sizes = {"conv_strides", "batch_size", "hidden_dim"}
    shared = sizes | {"lr", "updates_per_step", "colour_jitter", "colour_updates"}  # the same for every agent
    assert {f.name for f in fields(paper) if getattr(paper, f.name) != getattr(laptop, f.name)} == own | shared
    guards = {f.name for f in fields(paper.proto) if getattr(paper.proto, f.name) != getattr(laptop.proto, f.name)}
    assert guards == {"bottleneck", "standardise", "own_candidates"}


def test_the_critic_sees_what_the_encoder_has_just_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, seen = agent("proto", shift_pad=0, lr=1e-2), batch(n_step=1), []
    first, latent = a.encode(b.obs), a.encoder.latent
    monkeypatch.setattr(a.encoder, "latent", lambda maps: (seen.append(maps), latent(maps))[1])
    a.update(b, 0)
    torch.testing.assert_close(seen[0], a.encoder.maps(b.obs))
    assert not torch.allclose(a.encode(b.obs), first)


def test_the_latent_is_made_of_what_differs() -> None:
    a = agent("proto", centre_maps=True, latent_tanh=True, pretrain_steps=1)  # which is over: maps stay
    first, second = batch(0, n_step=1), batch(1, n_step=1)
    maps = []
    for b in (first, second):
        a.generator.manual_seed(7)
        with torch.no_grad():
            maps.append(a.encoder.maps(random_shift(b.obs, a.generator, a.config.shift_pad)).mean(dim=0))
        a.generator.manual_seed(7)
        a.update(b, 1)
    torch.testing.assert_close(a.encoder.average, 0.95 * maps[0] + 0.05 * maps[1])
    x = a.encoder.maps(first.obs)
    torch.testing.assert_close(a.encoder(first.obs), torch.tanh(a.encoder.projection(x - a.encoder.average)))


def test_pre_training_knows_no_task_and_leaves_a_fixed_encoder() -> None:
    b = batch(n_step=1)
    results = []
    for scale in (1.0, 50.0):
        a = agent("proto", pretrain_steps=100)
        a.update(replace(b, n_step_reward=scale * b.n_step_reward), 50)
        results.append(a.critic.q1[0].weight.clone())
    assert torch.equal(*results)
    before = a.encoder.convs[0].weight.clone()
    targets = [a.update(replace(b, n_step_reward=scale * b.n_step_reward), 100) for scale in (1.0, 50.0)]
    assert targets[1]["critic/target"] > targets[0]["critic/target"] + 1
    assert torch.equal(before, a.encoder.convs[0].weight)
    assert "loss/proto" not in targets[0]


def test_without_intrinsic_reward() -> None:
    a = agent("proto", intrinsic_weight=0.0)
    metrics = a.update(replace(batch(n_step=1), n_step_discount=torch.zeros(8, 1)), 0)
    assert "proto/novelty" not in metrics
    assert metrics["critic/target"].item() == pytest.approx(batch().reward.mean().item())
    with_it = agent("proto").update(replace(batch(n_step=1), n_step_discount=torch.zeros(8, 1)), 0)
    expected = batch().reward.mean() + 0.2 * with_it["proto/novelty"]
    assert with_it["critic/target"].item() == pytest.approx(expected.item(), rel=1e-5)


def test_bad_input() -> None:
    with pytest.raises(CBMError, match="prototypes must be 2 to"):
        ProtoConfig(prototypes=1)
    with pytest.raises(CBMError, match="at least 512 long, not 100"):
        ProtoConfig(queue=100)
    with pytest.raises(CBMError, match="bottleneck must be 0 to"):
        ProtoConfig(bottleneck=-1)
    with pytest.raises(CBMError, match="neighbours"):
        ProtoConfig(neighbours=0)
    with pytest.raises(CBMError, match="cannot carry"):
        make_agent("proto+cbm", SETUP)
    assert ProtoRLConfig().batch_size == 512
