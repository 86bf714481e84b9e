"""The networks of the appendix."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from cbm.errors import CBMError
from cbm.learning.nets import Critic, DeterministicActor, Encoder, GaussianActor, Transition


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def obs(batch: int, size: int = 20) -> torch.Tensor:
    return torch.randint(0, 256, (batch, 9, size, size), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def plain(encoder: Encoder, images: torch.Tensor) -> torch.Tensor:
    """The encoder in ordinary layout; its projection reads pixels before channels."""
    x = images.float() / 255 - 0.5
    for conv in encoder.convs:
        x = F.relu(F.conv2d(x, conv.weight, conv.bias, conv.stride))
    return torch.tanh(encoder.projection(x.permute(0, 2, 3, 1).reshape(len(x), -1)))


def test_paper_sizes() -> None:
    encoder = Encoder((9, 84, 84))
    assert [(c.in_channels, c.out_channels, c.kernel_size, c.stride) for c in encoder.convs] == [
        (9, 32, (3, 3), (2, 2)),
        *[(32, 32, (3, 3), (1, 1))] * 3,
    ]
    assert encoder.projection[0].in_features == 32 * 35 * 35
    assert encoder(obs(2, 84)).shape == (2, 50)
    hidden = [layer.out_features for layer in Critic(50, 6).q1 if isinstance(layer, torch.nn.Linear)]
    assert hidden == [1024, 1024, 1]
    assert [m.out_features for m in Transition(50, 6).net if isinstance(m, torch.nn.Linear)] == [256, 256, 50]


def test_layout_and_chunks_do_not_change_the_latent() -> None:
    encoder = Encoder((9, 20, 20), latent_dim=7, channels=8)
    images = obs(150)  # more than two chunks
    with torch.no_grad():
        chunked = encoder(images)
    torch.testing.assert_close(encoder(images), chunked, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(plain(encoder, images), chunked, rtol=1e-4, atol=1e-5)


def test_gradient_matches_the_plain_layout() -> None:
    encoder = Encoder((9, 20, 20), latent_dim=7, channels=8)
    ours = torch.autograd.grad(encoder(obs(5)).square().sum(), list(encoder.parameters()))
    theirs = torch.autograd.grad(plain(encoder, obs(5)).square().sum(), list(encoder.parameters()))
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).abs().max() < 1e-4 * b.abs().max()  # rounding, measured by the largest entry


def test_bfloat16_rounds_and_does_nothing_else() -> None:
    encoder, mixed = (Encoder((9, 20, 20), latent_dim=7, channels=8, mixed_precision=m) for m in (False, True))
    mixed.load_state_dict(encoder.state_dict())
    z, z_mixed = encoder(obs(5)), mixed(obs(5))
    assert z_mixed.dtype == torch.float32
    assert 0.0 < (z - z_mixed).abs().max() < 0.05  # eight bits of a number, four layers
    gradients = (torch.autograd.grad(x[:, 0].sum(), list(e.parameters())) for x, e in ((z, encoder), (z_mixed, mixed)))
    for a, b in zip(*gradients, strict=True):
        assert b.dtype == torch.float32
        assert F.cosine_similarity(a.flatten(), b.flatten(), dim=0) > 0.98


def test_initialisation_is_orthogonal() -> None:
    weight = DeterministicActor(50, 2, 16).net[2].weight
    torch.testing.assert_close(weight @ weight.T, torch.eye(16), rtol=1e-4, atol=1e-5)
    kernel = Encoder((9, 20, 20)).convs[1].weight.flatten(1)
    torch.testing.assert_close(kernel @ kernel.T, 2 * torch.eye(32), rtol=1e-4, atol=1e-5)


def test_what_other_methods_have_otherwise() -> None:
    """Proto-RL and SVEA: pixels / 255, no ReLU after the last convolution, no tanh."""
    encoder = Encoder((9, 20, 20), latent_dim=7, channels=8, pixel_offset=0.0, last_relu=False, tanh=False)
    x = obs(5).float() / 255
    *others, last = encoder.convs
    for conv in others:
        x = F.relu(conv(x))
    x = last(x).permute(0, 2, 3, 1).flatten(1)
    assert (x < 0).any()
    torch.testing.assert_close(encoder.maps(obs(5)), x, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(encoder(obs(5)), encoder.projection(x), rtol=1e-4, atol=1e-5)


def test_delta_orthogonal_kernels_mix_the_channels_of_one_pixel() -> None:
    convs = Encoder((9, 20, 20), channels=16, delta=True).convs
    for conv in convs:
        middle = conv.weight[:, :, 1, 1]
        assert conv.weight.count_nonzero() == middle.count_nonzero() > 0
        small, n = (middle @ middle.T, 16) if conv.in_channels == 16 else (middle.T @ middle, 9)
        torch.testing.assert_close(small, 2 * torch.eye(n), rtol=1e-4, atol=1e-5)
    x = torch.randn(2, 16, 5, 5)
    expected = torch.einsum("oi,bihw->bohw", convs[1].weight[:, :, 1, 1], x[:, :, 1:-1, 1:-1])
    torch.testing.assert_close(convs[1](x), expected, rtol=1e-4, atol=1e-5)


def test_actors_stay_in_the_box() -> None:
    z = 100 * torch.randn(20, 5)
    assert DeterministicActor(5, 2, 8)(z).abs().max() <= 1
    actor = GaussianActor(5, 2, 8)
    assert actor.mean(z).abs().max() <= 1
    low, high = actor.log_std_range
    assert low <= actor(z)[1].min()
    assert actor(z)[1].max() <= high


def test_a_small_image_is_refused() -> None:
    with pytest.raises(CBMError, match="too small"):
        Encoder((9, 10, 10), strides=(2, 2, 2, 2))
