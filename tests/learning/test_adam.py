"""Adam and the numbers that are too small for their exponent."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from cbm.learning.adam import adam

SMALLEST_NORMAL = torch.finfo(torch.float32).tiny


def flushed() -> bool:
    """Whether this thread takes denormal numbers as zero."""
    return bool(torch.tensor(SMALLEST_NORMAL) / 2 == 0)


@pytest.fixture(params=[False, True])
def before(request: pytest.FixtureRequest) -> Iterator[bool]:
    """What the program had chosen."""
    torch.set_flush_denormal(request.param)
    yield request.param
    torch.set_flush_denormal(False)


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot")
def test_no_denormal_number_stays_in_its_memory(before: bool) -> None:
    weight = nn.Parameter(torch.ones(4))
    optimizer = adam([weight], lr=1e-3)
    weight.grad = torch.tensor([1.0, 1.0, 0.0, 0.0])
    optimizer.step()
    weight.grad = torch.tensor([1.0, 0.0, 0.0, 0.0])  # the second weight gets none any more
    for _ in range(1_200):
        optimizer.step()
    mean = optimizer.state[weight]["exp_avg"]
    assert mean[0] > 0.5
    assert mean[1] == 0.0 or mean[1] >= SMALLEST_NORMAL
    assert mean[1:].tolist() == [0.0, 0.0, 0.0]
    assert flushed() == before == (sys.float_info.min / 2 == 0.0)


def test_it_is_pytorch_s_adam_in_all_else() -> None:
    torch.manual_seed(0)
    ours, theirs = (nn.Parameter(torch.ones(64, 8)) for _ in range(2))
    steps = adam([ours], lr=1e-3, beta1=0.5), torch.optim.Adam([theirs], lr=1e-3, betas=(0.5, 0.999), fused=True)
    for _ in range(20):
        ours.grad = torch.randn(64, 8)
        theirs.grad = ours.grad.clone()
        for step in steps:
            step.step()
        assert torch.equal(ours, theirs)
