"""The benchmark measures what it says, and its reference computes what ours computes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import Any

import pytest
import torch

from cbm.agents import Setup, make_agent
from cbm.agents.drqv2 import DrQv2
from cbm.bench.plain import PlainUpdate
from cbm.bench.side import ACTION_DIM, What, side
from cbm.bench.update import BFLOAT16_BAR, OBS_SHAPE, replay_rows, rows
from cbm.replay import Replay


def test_the_reference_encodes_as_we_do() -> None:
    agent = make_agent("drqv2+cbm", Setup(OBS_SHAPE, ACTION_DIM))
    assert isinstance(agent, DrQv2)
    encoder, plain = agent.encoder, PlainUpdate(agent)
    with torch.no_grad():
        for ours, theirs in zip(encoder.convs, plain.convs[::2], strict=True):
            theirs.load_state_dict(ours.state_dict())
        weight = (
            encoder.projection[0].weight.view(50, 35, 35, 32).permute(0, 3, 1, 2).flatten(1)
        )  # pixels first -> last
        plain.projection[0].weight.copy_(weight)
        plain.projection[0].bias.copy_(encoder.projection[0].bias)
        obs = torch.randint(0, 256, (2, *OBS_SHAPE), dtype=torch.uint8)
        torch.testing.assert_close(plain.encode(obs.float()), encoder(obs), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("plain", [False, True])
def test_a_side_makes_real_updates_in_its_own_process(plain: bool) -> None:
    with side(What(plain, "laptop" if not plain else "paper", 2, batch_size=8)) as ours:
        ours()
        start = perf_counter()
        ours()
    assert perf_counter() - start > 0.003  # two updates of eight images


class Clock:
    """Seconds that pass when a side computes."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def side(self, what: What) -> AbstractContextManager[Any]:
        """In place of a process: as many seconds a call as the kind of work is given here."""
        cost = 5.0 if what.plain else 0.5 if what.mixed_precision else 3.0 if what.threads == 1 else 1.0

        def call() -> None:
            self.seconds += cost

        return nullcontext(call)


def test_rows_say_what_the_sides_took(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    for module in ("cbm.bench", "cbm.bench.update"):
        monkeypatch.setattr(f"{module}.perf_counter", clock)
    monkeypatch.setattr("cbm.bench.update.side", clock.side)
    monkeypatch.setattr("cbm.bench.update.replay_rows", lambda stored: iter(()))
    told: list[str] = []
    found = list(rows(quick=True, report=told.append))
    assert len(told) == 5
    figures = [(row.ours, row.reference, row.ratio, row.bar, row.holds) for row in found]
    assert figures == [  # a call is two updates
        (0.5, 2.5, 5.0, ">= 4", True),
        (0.5, 2.5, 5.0, ">= 3.5", True),
        (0.25, 0.5, 2.0, BFLOAT16_BAR, True),
        (0.5, 1.5, 3.0, ">= 1.45", True),
    ]
    assert [row.value for row in found] == [row.ratio for row in found]


def test_replay_is_timed_and_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, sample = Clock(), Replay.sample

    def slow(*args: Any, **options: Any) -> Any:
        clock.seconds += 0.25
        return sample(*args, **options)

    monkeypatch.setattr("cbm.bench.update.perf_counter", clock)
    monkeypatch.setattr(Replay, "sample", slow)
    time, disk = replay_rows(stored=2_000, draws=3)
    assert (time.value, time.holds) == (250.0, False)
    frame = 3 * 84 * 84
    assert frame < disk.value < 1.02 * frame  # a small replay has relatively more of its last, half-empty blocks
