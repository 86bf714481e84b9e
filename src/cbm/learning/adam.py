"""The optimizers of agents and objectives."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim import Adam

_SMALLEST_NORMAL = sys.float_info.min


@contextmanager
def _flushed_denormals() -> Iterator[None]:
    """Inside, this thread computes with 0 instead of numbers that are too small for their exponent."""
    before = _SMALLEST_NORMAL / 2 == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


class _Adam(Adam):
    """Adam that takes numbers below 1.2e-38 as zero.

    The mean gradient of a weight that gets none any more becomes such a number within 900 steps and then stays one:
    rounded, 0.9 times the smallest one is itself. Most processors take hundreds of cycles for each of them.
    """

    def step(self, closure: Any = None) -> Any:
        with _flushed_denormals():
            return super().step(closure)


def adam(parameters: Iterable[nn.Parameter], lr: float, beta1: float = 0.9) -> Adam:
    return _Adam(list(parameters), lr=lr, betas=(beta1, 0.999), fused=True)


def adams(lr: float, **modules: nn.Module) -> dict[str, Adam]:
    """An optimizer for each of the modules, by the same names."""
    return {name: adam(module.parameters(), lr) for name, module in modules.items()}


def encoder_optimizer(encoder: nn.Module, objective: nn.Module | None, lr: float) -> Adam:
    """Of the encoder and of what the objective learns."""
    own = [] if objective is None else [p for p in objective.parameters() if p.requires_grad]
    return adam([*encoder.parameters(), *own], lr)
