"""The shared functions, against numpy and torch versions written from the formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.distributions import Normal, TanhTransform, TransformedDistribution

from cbm.learning.ops import (
    cosine,
    entropy,
    info_nce,
    linear_schedule,
    noisy_action,
    sinkhorn,
    soft_cross_entropy,
    soft_update,
    squashed_gaussian,
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("batch", "prototypes"), [(12, 5), (8, 8), (6, 20)])
def test_sinkhorn_marginals(batch: int, prototypes: int) -> None:
    q = sinkhorn(torch.rand(batch, prototypes, generator=generator()), epsilon=0.05, iterations=200)
    torch.testing.assert_close(q.sum(dim=1), torch.ones(batch))  # each observation has one unit to give
    torch.testing.assert_close(q.sum(dim=0), torch.full((prototypes,), batch / prototypes))  # Eq. 3's remark


def test_sinkhorn_is_the_textbook_iteration() -> None:
    scores = torch.rand(7, 4, generator=generator(), dtype=torch.float64)
    q = np.exp(scores.numpy() / 0.1)
    for _ in range(3):
        q = q / q.sum(axis=0) * (7 / 4)
        q = q / q.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(sinkhorn(scores, 0.1, 3), q, rtol=1e-10)


def test_sinkhorn_survives_a_small_epsilon() -> None:
    q = sinkhorn(100 * torch.rand(16, 4, generator=generator()), epsilon=1e-3, iterations=3)
    assert torch.isfinite(q).all()
    torch.testing.assert_close(q.sum(dim=1), torch.ones(16))


def test_info_nce() -> None:
    query, key = torch.randn(2, 6, 3, generator=generator(), dtype=torch.float64)
    a, b = query.numpy(), key.numpy()
    f = (a / np.linalg.norm(a, axis=1, keepdims=True)) @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T
    weights = np.exp(f / 0.1)
    loss, accuracy = info_nce(query, key, 0.1)
    assert loss.item() == pytest.approx(-np.log(np.diag(weights) / weights.sum(axis=1)).mean())
    assert accuracy.item() == pytest.approx((f.argmax(axis=1) == np.arange(6)).mean())
    assert info_nce(key, key, 0.1)[1] == 1


def test_cosine_ignores_length() -> None:
    a, b = torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 2.0], [-1.0, 0.0], [1.0, 1.0]])
    torch.testing.assert_close(cosine(a, b), torch.tensor([[0.0, -1.0, 2**-0.5]]))


def test_entropy_and_cross_entropy() -> None:
    p = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    assert entropy(p).item() == pytest.approx(np.log(2) / 2)
    uniform = torch.full((2, 3), 1 / 3)
    assert soft_cross_entropy(uniform.log(), p).item() == pytest.approx(np.log(3))


def test_soft_update() -> None:
    target = [torch.zeros(2)]
    soft_update(target, [torch.ones(2)], 0.25)
    soft_update(target, [torch.ones(2)], 0.25)
    torch.testing.assert_close(target[0], torch.full((2,), 0.4375))


@pytest.mark.parametrize(("step", "value"), [(0, 1.0), (50, 0.55), (100, 0.1), (1000, 0.1)])
def test_linear_schedule(step: int, value: float) -> None:
    assert linear_schedule(1.0, 0.1, 100, step) == pytest.approx(value)


def test_noise_is_clipped_and_the_gradient_passes_the_border() -> None:
    mean = torch.tensor([0.0, 0.95]).repeat(500, 1).requires_grad_()
    action = noisy_action(mean, 1.0, generator(), clip=0.3)
    assert action.abs().max() <= 1
    assert (action - mean).abs().max() <= 0.3 + 1e-6
    action.sum().backward()
    torch.testing.assert_close(mean.grad, torch.ones_like(mean))
    assert noisy_action(mean, 1.0, generator()).abs().max() == 1  # without a clip, only the border holds it


def test_squashed_gaussian_log_probability() -> None:
    mean, log_std = torch.randn(2, 50, 3, generator=generator(), dtype=torch.float64)
    action, log_pi = squashed_gaussian((mean, log_std), generator(1))
    expected = TransformedDistribution(Normal(mean, log_std.exp()), TanhTransform()).log_prob(action)
    torch.testing.assert_close(log_pi, expected.sum(dim=1, keepdim=True), rtol=1e-6, atol=1e-6)


def test_bounded_tanh_is_tanh_inside_and_always_leads_back():
    from cbm.learning.ops import bounded_tanh

    x = torch.tensor([-2.0, 0.5, 3.0, 20.0, -4.5], requires_grad=True)
    y = bounded_tanh(x, 3.0)
    torch.testing.assert_close(y, torch.tanh(x.detach().clamp(-3, 3)))
    slope = 1 - torch.tanh(torch.tensor([-2.0, 0.5, 3.0, 3.0, 3.0])).square()
    (up,) = torch.autograd.grad(y.sum(), x, retain_graph=True)  # a descent step makes every x smaller
    torch.testing.assert_close(up, slope * torch.tensor([1.0, 1.0, 1.0, 1.0, -0.5]))
    (down,) = torch.autograd.grad(-y.sum(), x)
    torch.testing.assert_close(down, -slope * torch.tensor([1.0, 1.0, 1.0, -1.0, 1.0]))


def test_an_actor_that_was_driven_to_the_end_comes_back():
    """With a plain tanh the second half of this does nothing: its slope is exactly 0 in float32."""
    from cbm.learning.nets import DeterministicActor

    torch.manual_seed(0)
    actor = DeterministicActor(8, 1, 64)
    optimizer = torch.optim.Adam(actor.parameters(), 5e-3)
    z = torch.randn(32, 8)
    for sign in (1.0, -1.0):
        for _ in range(300):
            loss = -sign * actor(z).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert (sign * actor(z) > 0.9).all()
