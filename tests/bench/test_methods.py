"""The cost of every method's update: what is counted, against counts by hand."""

from __future__ import annotations

import pytest

from cbm.bench import methods
from cbm.config import make_config
from cbm.objectives.cbm import DynamicsConfig


@pytest.mark.parametrize(
    ("name", "encoded", "with_gradient"),
    [
        ("drqv2", 2, 1),  # o_t with gradient, o_{t+3}
        ("drqv2+cbm", 3, 1),  # and o_{t+1}
        ("drq", 4, 2),  # two shifts each of o_t and o_{t+1}
        ("drq+cbm", 5, 1),  # and o_{t+3}; the critic's second shift carries no gradient
    ],
)
def test_images_are_counted(name: str, encoded: int, with_gradient: int) -> None:
    method, batch = methods.Method(name), make_config(name, preset="laptop").agent.batch_size
    assert (method.encoded, method.with_gradient) == (encoded * batch, with_gradient * batch)


def test_operations_are_those_of_the_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    """`drqv2+dynamics` encodes one batch more than `drqv2`; beside it, its transition model is small.

    It is applied once and then three times, and its backward pass has two products for each of the forward pass.
    """
    monkeypatch.setattr(DynamicsConfig, "laptop_agent", {"batch_episodes": 4})  # no further updates of critic and actor
    more = [methods.Method(name).operations for name in ("drqv2+dynamics", "drqv2")]
    config = make_config("drqv2", preset="laptop")
    side, channels, per_image = config.env.size, 9, 0
    for stride in config.agent.conv_strides:
        side = (side - 3) // stride + 1
        per_image += 2 * side * side * 9 * channels * 32
        channels = 32
    per_image += 2 * side * side * 32 * 50
    model = 2 * (56 * 256 + 256 * 256 + 256 * 50)
    assert more[0] - more[1] == pytest.approx(config.agent.batch_size * (per_image + 4 * 3 * model), rel=0.01)


def test_a_row_compares_time_with_arithmetic() -> None:
    reference = methods.Method("drqv2+cbm")
    row = methods.method_row("drqv2+cbm", reference, rounds=1, megabytes=None)
    assert row.details is not None
    assert row.reference == pytest.approx(row.details["seconds_of_drqv2_cbm"])  # its own arithmetic
    assert row.value == pytest.approx(row.ours / row.reference)


def test_memory_is_that_of_the_method_alone() -> None:
    """However large this process is: a child begins with its parent's peak."""
    ballast = bytearray(2_000_000_000)
    ballast[::4096] = b"x" * len(ballast[::4096])
    megabytes = methods.memory("drqv2")
    del ballast
    assert 10 < megabytes < 500  # 64 images' activations alone are 11 MB
