"""A small batch of latents for the tests of the objectives, and a network by hand."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

B, D, A = 12, 5, 2


def policy(z: Tensor) -> Tensor:
    return torch.tanh(z[:, :A])


def batch(seed: int = 0, size: int = B) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """z, action, reward (summed over 4 repeats), z_next."""
    g = torch.Generator().manual_seed(seed)
    z, z_next = torch.tanh(torch.randn(2, size, D, generator=g))
    return z.requires_grad_(), torch.rand(size, A, generator=g) * 2 - 1, 4 * torch.rand(size, 1, generator=g), z_next


def arrays(seed: int = 0, size: int = B) -> tuple[np.ndarray, ...]:
    """The same in numpy, in double precision."""
    return tuple(t.detach().double().numpy() for t in batch(seed, size))


def deviations(x: np.ndarray, episode: np.ndarray) -> np.ndarray:
    """Of rows from the mean of their episode."""
    return np.stack([row - x[episode == own].mean(axis=0) for row, own in zip(x, episode, strict=True)])


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def run_net(net: nn.Sequential, x: np.ndarray) -> np.ndarray:
    """Linear, ReLU and LayerNorm layers in numpy."""
    for layer in net:
        if isinstance(layer, nn.ReLU):
            x = np.maximum(x, 0)
            continue
        weight, bias = (p.detach().double().numpy() for p in layer.parameters())
        if isinstance(layer, nn.LayerNorm):
            centred = x - x.mean(axis=1, keepdims=True)
            x = weight * centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + layer.eps) + bias
        else:
            x = x @ weight.T + bias
    return x


def gaussian(net: nn.Sequential, z: np.ndarray, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (between 1e-4 and 10) that a `GaussianTransition` says."""
    mean, raw = np.split(run_net(net, np.concatenate([z, action], axis=1)), 2, axis=1)
    return mean, 10 ** (-4 + 5 * (np.tanh(raw) + 1) / 2)


def trained(losses: dict[str, Tensor], targets: dict[str, Tensor]) -> dict[str, set[str]]:
    """Which loss gives which tensor a gradient."""
    return {
        name: {
            key
            for key, tensor in targets.items()
            if torch.autograd.grad(loss, tensor, retain_graph=True, allow_unused=True)[0] is not None
        }
        for name, loss in losses.items()
    }
