"""Products by oneDNN against PyTorch's own in 64 bits, and who gets a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from cbm.bench.side import operations_of
from cbm.learning import linear
from cbm.learning.linear import MLP, Linear, fixed

needs_onednn = pytest.mark.skipif(not linear.AVAILABLE, reason="this PyTorch has no oneDNN")
LARGE, SMALL = 300, 2  # rows: by oneDNN, and by PyTorch's own products


def makers() -> list[Callable[[], nn.Module]]:
    return [
        lambda: MLP(56, 256, 1),
        lambda: MLP(20, 200, 130),
        lambda: Linear(1_000, 50),
        lambda: Linear(600, 64, False),
    ]


def results(module: nn.Module, x: Tensor) -> list[Tensor]:
    """What a module makes of x, and the gradients of a sum of its sines with respect to x and the parameters."""
    x = x.clone().requires_grad_()
    y = module(x)
    return [y, *torch.autograd.grad(y.sin().sum(), [x, *module.parameters()])]


@pytest.mark.parametrize("make", makers())
@pytest.mark.parametrize("rows", [LARGE, SMALL])
def test_values_and_gradients_are_those_in_64_bits(make: Callable[[], nn.Module], rows: int) -> None:
    torch.manual_seed(0)
    module = make()
    x = torch.randn(rows, next(module.parameters()).shape[1])
    ours, theirs = results(module, x), results(module.double(), x.double())
    for mine, exact in zip(ours, theirs, strict=True):
        assert mine.dtype == torch.float32
        assert torch.allclose(mine.double(), exact, rtol=1e-4, atol=1e-4 * exact.abs().max().item())


class Calls(TorchDispatchMode):
    """The names of all operations."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@needs_onednn
@pytest.mark.parametrize("make", makers())
def test_large_products_are_onednn_s_and_are_counted(
    make: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = make()
    x = torch.randn(LARGE, next(module.parameters()).shape[1])

    def update() -> None:
        module(x).sum().backward()

    def calls() -> tuple[bool, int]:
        with Calls() as mode:
            update()
        return "mkldnn._linear_pointwise.default" in mode.names, operations_of(update)

    ours = calls()
    monkeypatch.setattr(linear, "AVAILABLE", False)
    theirs = calls()
    assert ours == (True, theirs[1])
    assert theirs[0] is False
    assert theirs[1] > 0


def test_it_is_a_sequence_of_layers_as_before() -> None:
    module = MLP(5, 8, 3)
    assert list(module.state_dict()) == [f"{layer}.{part}" for layer in (0, 2, 4) for part in ("weight", "bias")]
    assert [id(p) for p in module.weights] == [id(p) for p in module.parameters()]


@pytest.mark.parametrize("rows", [LARGE, SMALL])
def test_through_a_fixed_module_gradients_pass_and_it_gets_none(rows: int) -> None:
    torch.manual_seed(0)
    module, x = MLP(56, 256, 4), torch.randn(rows, 56, requires_grad=True)
    (expected,) = torch.autograd.grad(module(x).square().sum(), x)
    with fixed(module):
        y = module(x)
        assert not any(p.requires_grad for p in module.parameters())
    assert all(p.requires_grad for p in module.parameters())
    y.square().sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, expected)
    assert all(p.grad is None for p in module.parameters())


def test_a_module_that_does_not_learn_stays_so() -> None:
    module = MLP(5, 8, 3).requires_grad_(False)
    with fixed(module):
        pass
    assert not any(p.requires_grad for p in module.parameters())
