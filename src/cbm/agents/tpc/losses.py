"""The losses of TPC, and the returns of imagined trajectories. Pure functions: tensors in, tensors out."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_LOG_2PI = math.log(2.0 * math.pi)


def gaussian_log_prob(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """log N(x; mean, diag(std^2)), summed over the last axis."""
    return -(0.5 * ((x - mean) / std).square() + std.log() + 0.5 * _LOG_2PI).sum(dim=-1)


def pairwise_log_prob(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """log N(x_i; mean_j, std_j) for all pairs of (..., N, S): (..., N, N).

    By products of matrices, in double precision because the squares that they subtract are large.
    """
    x, mean, std = x.double(), mean.double(), std.double()
    precision = std.pow(-2)
    of_j = (0.5 * mean.square() * precision + std.log() + 0.5 * _LOG_2PI).sum(dim=-1)
    return x @ (mean * precision).mT - 0.5 * x.square() @ precision.mT - of_j[..., None, :]


def predictive_coding(code: Tensor, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
    """-mean_i log( N(code_i; mean_i, std_i) / sum_j N(code_i; mean_j, std_j) ) for (..., N, S), and its accuracy.

    The InfoNCE bound of the paper with a Gaussian critic, negated, without the constant log N. Leading axes hold
    separate problems. The accuracy is how often the own Gaussian is the likeliest.
    """
    scores = pairwise_log_prob(code, mean, std)
    own = torch.arange(scores.shape[-1], device=scores.device).expand(scores.shape[:-1])
    loss = -scores.log_softmax(dim=-1).diagonal(dim1=-2, dim2=-1).mean()
    return loss.float(), (scores.detach().argmax(dim=-1) == own).float().mean()


def consistency(code: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """-mean log N(code; mean, std): the prior must predict codes, not only tell them apart."""
    return -gaussian_log_prob(code, mean, std).mean()


def unit_gaussian(mean: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """-mean of weight * log N(target; mean, 1), up to a constant: the loss of reward and value."""
    loss = 0.5 * (target - mean).square()
    return loss.mean() if weight is None else (weight * loss).mean()


def centring(code: Tensor) -> Tensor:
    """|| mean of all codes ||^2, for (..., S)."""
    return code.flatten(0, -2).mean(dim=0).square().sum()


def lambda_returns(reward: Tensor, value: Tensor, discount: float, lambda_: float) -> Tensor:
    """R_t = r_t + gamma ((1 - lambda) v_{t+1} + lambda R_{t+1}), R_{T-1} = v_{T-1}; for (T, ...) gives (T - 1, ...).

    Unrolled, with d = gamma lambda: R_t = sum_{k >= t} d^{k-t} (r_k + (gamma - d) v_{k+1}) + d^{T-1-t} v_{T-1}, so
    all of them are one product with a triangular matrix.
    """
    steps = torch.arange(len(reward) - 1, device=reward.device, dtype=reward.dtype)
    decay = discount * lambda_  # d
    weights = (decay ** (steps - steps[:, None])).triu()  # (t, k)
    added = reward[:-1] + (discount - decay) * value[1:]
    added[-1] += decay * value[-1]  # what follows the last step
    return (weights @ added.flatten(1)).view_as(added)
