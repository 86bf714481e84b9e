"""`train` in a program leaves the program's threads, random numbers, figures and signals as they were."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pytest
import torch

import cbm
from toy import tiny


class Surroundings(NamedTuple):
    torch_threads: int
    threads: set[str]
    python_random: Any
    numpy_random: list[Any]
    torch_random: list[int]
    backend: str
    figure_settings: dict[str, Any]
    handlers: dict[int, Any]


def look() -> Surroundings:
    numpy_state: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    return Surroundings(
        torch.get_num_threads(),
        {thread.name for thread in threading.enumerate()},
        random.getstate(),
        [numpy_state["state"]["key"].tolist(), numpy_state["state"]["pos"], numpy_state["gauss"]],
        torch.get_rng_state().tolist(),
        matplotlib.get_backend(),
        dict(matplotlib.rcParams),
        {number: signal.getsignal(number) for number in signal.valid_signals()},
    )


class Fails(cbm.Callback):
    def on_step(self, run: Any) -> None:
        if run.updates > 3:
            raise ZeroDivisionError


@pytest.fixture(scope="module", params=["complete", "failed"])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Surroundings]]:
    """What there was before and after a run, in a program with settings of its own."""

    def handler(number: int, frame: Any) -> None:
        raise AssertionError(number)

    before, backend, handlers = torch.get_num_threads(), matplotlib.get_backend(), []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        handlers.append((number, signal.signal(number, handler)))
    torch.set_num_threads(3)
    matplotlib.use("svg")
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    np.random.normal()  # noqa: NPY002 - it keeps a second number for later
    torch.manual_seed(1)
    config = tiny(training__total_steps=160, training__eval_episodes=1, training__analyze_every=160)
    run = tmp_path_factory.mktemp("surroundings") / "run"
    train: Callable[[], Any] = lambda: cbm.train(config, run, callbacks=failing, quiet=True)  # noqa: E731
    failing = [Fails()] if request.param == "failed" else []
    around = [look()]
    if failing:
        with pytest.raises(ZeroDivisionError):
            train()
    else:
        assert train().stopped is None
        assert (run / "analysis.jsonl").stat().st_size
        assert list((run / "videos").glob("*.mp4"))
    around.append(look())
    yield around
    torch.set_num_threads(before)
    matplotlib.use(backend)
    for number, old in handlers:
        signal.signal(number, old)


def test_threads(seen: list[Surroundings]) -> None:
    before, after = seen
    assert after.torch_threads == before.torch_threads == 3
    assert after.threads <= before.threads


def test_random_numbers(seen: list[Surroundings]) -> None:
    before, after = seen
    assert after.python_random == before.python_random
    assert after.numpy_random == before.numpy_random
    assert after.torch_random == before.torch_random


def test_figures(seen: list[Surroundings]) -> None:
    before, after = seen
    assert after.backend == before.backend == "svg"
    assert after.figure_settings == before.figure_settings


def test_signal_handlers(seen: list[Surroundings]) -> None:
    before, after = seen
    assert after.handlers == before.handlers
