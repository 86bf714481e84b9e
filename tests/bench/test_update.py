"""The benchmark measures what it says, and its reference computes what ours computes."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from typing import Any

import psutil
import pytest
import torch

from cbm.agents import Setup, make_agent
from cbm.agents.drqv2 import DrQv2
from cbm.bench.plain import PlainUpdate
from cbm.bench.side import ACTION_DIM, Competitor, Load, Side
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


def test_a_side_counts_what_it_computes_and_a_competitor_stops() -> None:
    competitor = Competitor(nice=10)
    with closing(competitor), Side(Load("ours", "laptop", 2, batch_size=20)) as ours:
        with competitor:
            ours()
        assert psutil.Process(competitor.pid).status() == psutil.STATUS_STOPPED
        # Two updates of 20 images each, and of critic and actor with 40 latents; 64 images take 4.6e9 an update.
        assert 0.5e9 < ours.operations < 5e9
    assert not psutil.pid_exists(competitor.pid)


@pytest.mark.slow  # four processes that import PyTorch
def test_what_each_kind_of_side_computes() -> None:
    sides = (Load(), Load("shared"), Load(mixed_precision=True), Load("plain"))
    found = []
    for what in sides:
        with Side(replace(what, batch_size=8)) as side:
            side()
            found.append(side.operations)
    assert found[0] == found[1] == found[2]
    assert found[3] > 1.5 * found[0]  # gradients of all images, of which those of the next ones reach nothing
    with Side(Load("product")) as product:
        assert product.operations == 2 * 2048**3


class Clock:
    """Seconds that pass when a side computes, twice as many beside a competitor."""

    seconds, slower = 0.0, 1.0

    def __call__(self) -> float:
        return self.seconds

    def side(self, what: Load) -> AbstractContextManager[Any]:
        """In place of a process: as many seconds a call as the kind of work is given here."""
        kind = "bfloat16" if what.mixed_precision else "one" if what.threads == 1 else what.kind
        cost = {"ours": 1.0, "plain": 5.0, "bfloat16": 0.5, "shared": 4.0, "one": 3.0, "product": 10.0}[kind]

        def call() -> None:
            self.seconds += cost * self.slower

        call.operations = 40e9 if kind == "product" else 3e9  # type: ignore[attr-defined]
        return nullcontext(call)

    def competitor(self, nice: int) -> Any:
        clock = self

        class Beside(nullcontext[None]):
            def __enter__(self) -> None:
                clock.slower = 2.0

            def __exit__(self, *error: object) -> None:
                clock.slower = 1.0

            def close(self) -> None: ...

        return Beside()


def test_rows_say_what_the_sides_took(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    for module in ("cbm.bench", "cbm.bench.update"):
        monkeypatch.setattr(f"{module}.perf_counter", clock)
    monkeypatch.setattr("cbm.bench.update.Side", clock.side)
    monkeypatch.setattr("cbm.bench.update.Competitor", clock.competitor)
    told: list[str] = []
    monkeypatch.setattr("cbm.bench.update.replay_rows", lambda size, rounds: iter(()))
    found = list(rows(quick=True, report=told.append))
    assert told[1:] == ["plain", "bfloat16", "thread", "busy"]
    figures = [(row.ours, row.reference, row.ratio, row.bar, row.holds) for row in found]
    assert figures == [  # a call is two updates
        (0.5, 2.5, 5.0, ">= 4", True),
        (0.5, 2.5, 5.0, ">= 3.5", True),
        (0.25, 0.5, 2.0, BFLOAT16_BAR, True),
        (0.5, 2.0, 4.0, ">= 1", True),
        (0.5, 1.5, 3.0, ">= 1.45", True),
        (3.0, 4.0, 0.75, ">= 0.75", True),  # GFLOP/s
        (3.0, 4.0, 0.75, ">= 0.75", True),
        (1.0, 0.5, 2.0, "<= 2", True),
        (1.0, 0.5, 2.0, "<= 2.5", True),
    ]
    assert [row.value for row in found] == [row.ratio for row in found]


def test_replay_is_timed_and_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, sample = Clock(), Replay.sample

    def slow(*args: Any, **options: Any) -> Any:
        clock.seconds += 0.25
        return sample(*args, **options)

    monkeypatch.setattr("cbm.bench.perf_counter", clock)
    monkeypatch.setattr(Replay, "sample", slow)
    time, disk = replay_rows(size=8, rounds=1, draws=3)
    assert (time.value, time.holds) == (250.0, False)
    frame = 3 * 84 * 84
    assert frame < disk.value < 1.02 * frame  # a small replay has relatively more of its last, half-empty blocks
