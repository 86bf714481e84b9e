"""Small pure functions on tensors that the objectives and the agents share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Cosine similarity of every row of `a` (N, D) with every row of `b` (M, D): (N, M)."""
    return F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T


def distance_parts(
    reward: Tensor, z_next: Tensor, r_c: Tensor, c_next: Tensor, unit_latents: bool
) -> tuple[Tensor, Tensor]:
    """The two terms of d(z_i, c_j) = |r_i - r_j^c| + ||z_i' - c_j'||, for rewards (B,) and (K,), latents (B, D) and
    (K, D): (B, K) each."""
    if unit_latents:
        z_next, c_next = F.normalize(z_next, dim=-1), F.normalize(c_next, dim=-1)
    return (reward[:, None] - r_c[None, :]).abs(), torch.cdist(z_next, c_next)


def sinkhorn(scores: Tensor, epsilon: float, iterations: int) -> Tensor:
    """Target codes Q = Diag(u) exp(scores / epsilon) Diag(v), Eq. 2, for scores (B, K).

    Each of the B rows of the result sums to 1 (exactly: it is normalised last), and each of the K columns to B / K (in
    the limit of many iterations). In the logarithm, so that no epsilon overflows.
    """
    log_q = scores / epsilon
    batch, prototypes = log_q.shape
    log_share = math.log(batch / prototypes)
    for _ in range(iterations):
        log_q = log_q - torch.logsumexp(log_q, dim=0, keepdim=True) + log_share
        log_q = log_q - torch.logsumexp(log_q, dim=1, keepdim=True)
    return log_q.exp()


def deviation(x: Tensor, group: Tensor | None = None) -> Tensor:
    """Of each row of `x` (B, D) from the mean of all rows, or of those that are in the same `group` (B,)."""
    if group is None:
        return x - x.mean(dim=0)
    same = (group[:, None] == group).to(x.dtype)
    return x - same @ x / same.sum(dim=1, keepdim=True)


def share_between(x: Tensor, group: Tensor) -> Tensor:
    """How much of the variance of rows `x` (B, D) lies between the groups (B,): 0 to 1."""
    return 1.0 - deviation(x, group).square().sum() / deviation(x).square().sum().clamp_min(1e-8)


def info_nce(query: Tensor, key: Tensor, temperature: float, positive: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """-mean_i log softmax_k(cos(query_i, key_k) / tau)[i], and how often the own key is the most similar one.

    The paper's L_P (appendix, "Dynamics Model Optimization"), with the minus sign that it leaves out, as a mean.
    With `positive` (B,), key positive_i is the one to find instead of key i, and key i takes no part.
    """
    logits = cosine(query, key) / temperature
    own = torch.arange(len(query), device=query.device)
    if positive is not None:
        logits, own = logits.masked_fill(own[:, None] == own, -torch.inf), positive
    return F.cross_entropy(logits, own), (logits.detach().argmax(dim=1) == own).float().mean()


def soft_cross_entropy(log_p: Tensor, q: Tensor) -> Tensor:
    """-mean_i sum_k q_ik log p_ik, for two distributions (B, K)."""
    return -(q * log_p).sum(dim=1).mean()


def gaussian_loss(mean: Tensor, std: Tensor, target: Tensor) -> Tensor:
    """Mean over all entries of -log N(target; mean, std^2), up to a constant."""
    return (0.5 * ((target - mean) / std).square() + std.log()).mean()


def entropy(p: Tensor) -> Tensor:
    """Mean entropy, in nats, of the rows of `p` (B, K)."""
    return -torch.xlogy(p, p).sum(dim=1).mean()


def channels_last(obs: Tensor) -> Tensor:
    """The same images (B, C, H, W), with the channels of a pixel side by side in memory.

    As one transposition of matrices, pixels by channels: four times faster on CPU than PyTorch's own conversion.
    """
    if obs.is_contiguous(memory_format=torch.channels_last):
        return obs
    images: Tensor = obs.flatten(2).transpose(1, 2).contiguous().unflatten(1, obs.shape[2:]).permute(0, 3, 1, 2)
    return images


@torch.no_grad()
def soft_update(target: Iterable[Tensor], source: Iterable[Tensor], rate: float) -> None:
    """target <- rate * source + (1 - rate) * target, in place."""
    torch._foreach_lerp_(list(target), list(source), rate)


def linear_schedule(start: float, end: float, duration: int, step: int) -> float:
    """From `start` at step 0 to `end` at step `duration`, and `end` ever after."""
    share = min(max(step / duration, 0.0), 1.0) if duration > 0 else 1.0
    return start + share * (end - start)


def noisy_action(mean: Tensor, std: float, generator: torch.Generator, clip: float | None = None) -> Tensor:
    """`mean` + Gaussian noise (clipped to +-`clip`), kept inside [-1, 1].

    The gradient with respect to `mean` is 1 also where the border cuts the value off, as in DrQ-v2.
    """
    noise = std * torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
    if clip is not None:
        noise = noise.clamp(-clip, clip)
    noisy = mean + noise
    return noisy + (noisy.clamp(-1.0, 1.0) - noisy).detach()


class _BoundedTanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bound: float) -> Tensor:
        y = torch.tanh(x.clamp(-bound, bound))
        ctx.save_for_backward(x, y)
        ctx.bound = bound
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        x, y = ctx.saved_tensors
        beyond = (x.abs() / ctx.bound - 1.0).clamp(0.0, 1.0)
        outward = (beyond > 0) & (gradient * x < 0)  # a descent step would take x further out
        return torch.where(outward, -beyond, 1.0) * gradient * (1.0 - y.square()), None


def bounded_tanh(x: Tensor, bound: float) -> Tensor:
    """tanh(x) for |x| <= bound and tanh(+-bound) beyond, with a gradient that can always lead back.

    In float32 the slope of tanh is exactly 0 from |x| = 9 on: a policy that went there early, while the critic was
    still wrong, would never come back. Beyond the bound the slope is that at the bound; a gradient that leads further
    out is reversed, the more the further out x is ("inverting gradients", Hausknecht and Stone, 2016).
    """
    y: Tensor = _BoundedTanh.apply(x, bound)  # type: ignore[no-untyped-call]
    return y


def squashed_gaussian(gaussian: tuple[Tensor, Tensor], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """a = tanh(u), u ~ N(mean, exp(log_std)), reparametrised, for (mean, log_std); and log pi(a), (B, 1)."""
    mean, _ = gaussian
    noise = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
    return squashed_action(gaussian, noise), squashed_log_prob(gaussian, noise)


def squashed_action(gaussian: tuple[Tensor, Tensor], noise: Tensor) -> Tensor:
    """The action that standard normal noise becomes."""
    mean, log_std = gaussian
    return torch.tanh(mean + log_std.exp() * noise)


def squashed_log_prob(gaussian: tuple[Tensor, Tensor], noise: Tensor) -> Tensor:
    """log pi of that action, summed over the last axis, which stays."""
    mean, log_std = gaussian
    u = mean + log_std.exp() * noise
    log_normal = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    log_slope = 2.0 * (math.log(2.0) - u - F.softplus(-2.0 * u))  # log(1 - tanh(u)^2), without cancellation
    return (log_normal - log_slope).sum(dim=-1, keepdim=True)
