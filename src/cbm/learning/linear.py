"""Fully connected layers whose products oneDNN computes.

PyTorch leaves products of matrices in 32 bits to MKL, which keeps to AVX2 on processors that are not Intel's. oneDNN,
which computes PyTorch's convolutions, uses AVX-512 wherever there is any: on an AMD EPYC it takes half the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

AVAILABLE = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
_WORTH = 1 << 20  # multiplications; oneDNN needs longer to begin
_WORTH_ALONE = 1 << 23  # the same for one layer, whose backward pass begins in Python


class Linear(nn.Linear):
    """As PyTorch's; large products by oneDNN."""

    def forward(self, x: Tensor) -> Tensor:
        if not _fits(x, self.weight) or x.numel() * self.out_features < _WORTH_ALONE:
            return F.linear(x, self.weight, self.bias)
        y: Tensor = _Linear.apply(x.flatten(0, -2), self.weight, self.bias)  # type: ignore[no-untyped-call]
        return y.view(*x.shape[:-1], self.out_features)


class MLP(nn.Sequential):
    """Three fully connected layers: the shape of every head in the paper."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        first, second = Linear(inputs, hidden), Linear(hidden, hidden)
        super().__init__(first, nn.ReLU(), second, nn.ReLU(), Linear(hidden, outputs))

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """Weight and bias of each layer: `parameters()`, without a search."""
        layers = [layer for layer in self if isinstance(layer, Linear)]
        return tuple(p for layer in layers for p in (layer.weight, layer.bias))

    def forward(self, x: Tensor) -> Tensor:
        weights = self.weights
        if not _fits(x, weights[0]) or x.ndim != 2 or len(x) * weights[2].numel() < _WORTH:
            y: Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        else:
            y = _MLP.apply(x, *weights)  # type: ignore[no-untyped-call]
        return y


@contextmanager
def fixed(module: nn.Module) -> Iterator[None]:
    """Inside, nothing learns from what the module computes: gradients pass through it, but it gets none."""
    learning = [p for p in module.parameters() if p.requires_grad]
    for parameter in learning:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)


def _fits(x: Tensor, weight: Tensor) -> bool:
    if not AVAILABLE or torch.compiler.is_compiling():  # an exported policy has PyTorch's own operations
        return False
    return x.device.type == "cpu" and x.dtype == weight.dtype == torch.float32


def _product(a: Tensor, b: Tensor, bias: Tensor | None = None, then: str = "none") -> Tensor:
    """a (N, I) times the transpose of b (O, I), plus a bias (O,); `then` "relu" or "none"."""
    if a.numel() * len(b) < _WORTH:
        y = F.linear(a, b, bias)
        return y.relu_() if then == "relu" else y
    large: Tensor = torch.ops.mkldnn._linear_pointwise(a, b, bias, then, [], "")
    return large


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient, (of_x, of_weight, of_bias) = gradients[0].contiguous(), ctx.needs_input_grad
        return (
            _product(gradient, weight.T) if of_x else None,
            _product(gradient.T, x.T) if of_weight else None,
            gradient.sum(dim=0) if of_bias else None,
        )


class _MLP(torch.autograd.Function):
    """One node of the graph in place of five. All weights and biases learn, or none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *weights: Tensor) -> Tensor:
        w1, b1, w2, b2, w3, b3 = weights
        h1 = _product(x, w1, b1, "relu")
        h2 = _product(h1, w2, b2, "relu")
        ctx.save_for_backward(x, h1, h2, w1, w2, w3)
        return _product(h2, w3, b3)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, h1, h2, w1, w2, w3 = ctx.saved_tensors
        of_x, learns, *_ = ctx.needs_input_grad
        g3 = gradients[0].contiguous()
        g2 = torch.ops.aten.threshold_backward(_product(g3, w3.T), h2, 0)
        g1 = torch.ops.aten.threshold_backward(_product(g2, w2.T), h1, 0)
        found: list[Tensor | None] = [_product(g1, w1.T) if of_x else None]
        for g, h in ((g1, x), (g2, h1), (g3, h2)):
            found += [_product(g.T, h.T), g.sum(dim=0)] if learns else [None, None]
        return tuple(found)
