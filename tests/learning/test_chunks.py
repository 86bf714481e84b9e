"""Chunks: the values and gradients of one pass, the same bits on any number of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from cbm.learning import chunks, threads
from cbm.learning.chunks import SIZE, Work
from cbm.learning.nets import Encoder
from cbm.training import loop
from same_run import assert_same_run
from toy import tiny

COUNTS = [1, 2, 3, 8]


def observations(count: int) -> Tensor:
    return torch.randint(0, 256, (count, 9, 20, 20), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def small_encoder(mixed_precision: bool = False) -> Encoder:
    torch.manual_seed(0)
    return Encoder((9, 20, 20), latent_dim=7, channels=8, mixed_precision=mixed_precision)


@pytest.mark.parametrize("count", [SIZE, SIZE + 1, 3 * SIZE - 2])
@pytest.mark.parametrize("makes", ["latents", "maps", "both"])
def test_values_and_gradients_are_those_of_one_pass(count: int, makes: Any) -> None:
    encoder, obs = small_encoder(), observations(count)
    see: Callable[..., Tensor] = lambda obs, bright: (obs * bright[:, None, None, None]).clamp(max=255)  # noqa: E731
    bright = torch.arange(count) % 3
    learned, fixed = chunks.run(
        [encoder.work(obs, bright, see=see, makes=makes), encoder.work(obs, learns=False, makes=makes)]
    )
    if makes == "both":
        (learned, kept), (fixed, _) = learned, fixed
        assert not kept.requires_grad
        torch.testing.assert_close(kept, encoder.convs(see(obs, bright)).detach(), rtol=1e-4, atol=1e-5)
    at_once = encoder.convs(see(obs, bright)), encoder.convs(obs).detach()
    if makes != "maps":
        at_once = encoder.latent(at_once[0]), encoder.latent(at_once[1]).detach()
    torch.testing.assert_close((learned, fixed), at_once, rtol=1e-4, atol=1e-5)
    assert not fixed.requires_grad
    parameters = list((encoder.convs if makes == "maps" else encoder).parameters())
    ours = torch.autograd.grad((learned * fixed).sum(), parameters)
    for a, b in zip(ours, torch.autograd.grad((at_once[0] * at_once[1]).sum(), parameters), strict=True):
        assert (a - b).abs().max() < 1e-4 * b.abs().max()


def test_two_works_may_learn_and_each_waits_for_its_own_gradient() -> None:
    weight, other = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    x = torch.arange(60.0).view(20, 3)
    first, second, third = chunks.run(
        [
            Work(lambda x: x * weight, (x,), (weight,)),
            Work(lambda x: x * weight * other, (x,), (weight, other)),
            Work(lambda x: 2 * x * other, (x,), (other,)),
        ]
    )
    loss = first.sum() + 10 * second.sum()  # nothing of the third
    gradients = torch.autograd.grad(loss, (weight, other))
    torch.testing.assert_close(gradients, (11 * x.sum(0), 10 * x.sum(0)))
    with torch.no_grad():
        assert not chunks.run([Work(lambda x: x * weight, (x,), (weight,))])[0].requires_grad
    assert third.requires_grad


@pytest.mark.parametrize("mixed_precision", [False, True])
def test_bits_do_not_depend_on_threads(mixed_precision: bool) -> None:
    encoder, obs, found = small_encoder(mixed_precision), observations(5 * SIZE + 3), []
    for count in COUNTS:
        with threads.use(count):
            z = encoder(obs)
            found.append([z.detach(), *torch.autograd.grad(z.square().sum(), list(encoder.parameters()))])
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


def test_a_large_gradient_is_the_same_sum() -> None:
    weight = torch.randn(3, 1 << 19, requires_grad=True)
    x = torch.randn(2 * SIZE + 5, 3)
    for count in (1, 3):
        with threads.use(count):
            (y,) = chunks.run([Work(lambda x: x @ weight, (x,), (weight,))])
            (gradient,) = torch.autograd.grad(y[:, 0].sum() + 2 * y[:, -1].sum(), weight)
        parts = [cut.sum(0) for cut in x.split(SIZE)]
        expected = torch.zeros_like(gradient)
        expected[:, 0] = (parts[0] + parts[1]) + parts[2]
        expected[:, -1] = 2 * expected[:, 0]
        torch.testing.assert_close(gradient, expected)


def test_an_error_in_a_chunk_comes_out_forward_and_backward() -> None:
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, *gradients: Tensor) -> Tensor:
            raise ArithmeticError("backward")

    def forward_fails(x: Tensor) -> Tensor:
        raise ArithmeticError("forward")

    weight, x = torch.ones(1, requires_grad=True), torch.ones(3 * SIZE, 1)
    with threads.use(2):
        with pytest.raises(ArithmeticError, match="forward"):
            chunks.run([Work(forward_fails, (x,), (weight,))])
        (y,) = chunks.run([Work(lambda x: Fails.apply(x * weight), (x,), (weight,))])
        with pytest.raises(ArithmeticError, match="backward"):
            y.sum().backward()


def test_something_else_is_done_along_with_the_chunks() -> None:
    """At the same time if there are two threads, and once in any case, with gradients of its own."""
    weight, met = torch.ones(1, requires_grad=True), threading.Barrier(2, timeout=60)
    gradients: list[Tensor] = []

    def beside() -> None:
        gradients.extend(torch.autograd.grad((3 * weight).sum(), weight))

    def meet(x: Tensor) -> Tensor:
        if x[0] == 0:
            met.wait()
        return x * weight

    with threads.use(2):
        chunks.run([Work(meet, (torch.arange(3.0 * SIZE),), (weight,))], lambda: (met.wait(), beside())[1])
    for rows in (3 * SIZE, SIZE):
        chunks.run([Work(lambda x: x * weight, (torch.ones(rows),), (weight,))], beside)
    assert [g.item() for g in gradients] == [3.0] * 3
    with pytest.raises(ZeroDivisionError):
        chunks.run([Work(lambda x: x, (torch.ones(3 * SIZE),))], lambda: 1 / 0)  # type: ignore[arg-type, return-value]


SIZES = {"agent__batch_size": 2 * SIZE + 5, "training__total_steps": 120, "training__film": False}
SIZES |= {"training__eval_every": 10_000, "training__eval_episodes": 1, "agent__conv_channels": 4}


def test_a_run_may_go_on_with_another_number_of_threads(tmp_path: Path) -> None:
    for count in (1, 2):
        loop.train(tiny("drqv2+cbm", training__threads=count, **SIZES), tmp_path / f"{count}", quiet=True)
    loop.resume(tmp_path / "1", total_steps=140, overrides={"training.threads": "3"}, quiet=True)
    loop.resume(tmp_path / "2", total_steps=140, quiet=True)
    assert_same_run(tmp_path / "1", tmp_path / "2")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("cbm-")]


def test_an_error_in_a_chunk_ends_the_run_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Encoder, maps: Tensor) -> Tensor:
        if threading.current_thread() is not threading.main_thread():
            raise ArithmeticError("in a chunk")
        return self.projection(maps)

    monkeypatch.setattr(Encoder, "latent", broken)
    with pytest.raises(ArithmeticError, match="in a chunk"):
        loop.train(tiny("drqv2", training__threads=2, **SIZES), tmp_path / "run", quiet=True)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("cbm-")]
