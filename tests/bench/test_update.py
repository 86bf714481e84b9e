"""The benchmark measures what it says, and its reference computes what ours computes."""

from __future__ import annotations

from contextlib import closing

import psutil
import pytest
import torch

from cbm.agents import Setup, make_agent
from cbm.agents.drqv2 import DrQv2
from cbm.bench.plain import PlainUpdate
from cbm.bench.side import ACTION_DIM, Competitor, Side, What
from cbm.bench.update import BFLOAT16_BAR, OBS_SHAPE, rows


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
    with closing(competitor), Side(What("ours", "laptop", 2, batch_size=20)) as ours:
        with competitor:
            ours()
        assert psutil.Process(competitor.pid).status() == psutil.STATUS_STOPPED
        assert 0.5e9 < ours.operations < 3e9  # two updates of 20 images each; 64 images take 4.6e9 an update
    assert not psutil.pid_exists(competitor.pid)


@pytest.mark.slow  # fifteen processes that import PyTorch
def test_rows() -> None:
    told: list[str] = []
    found = list(rows(quick=True, report=told.append))
    threads = [">= 1", ">= 1.45", ">= 0.75", ">= 0.75"]
    assert [row.bar for row in found] == [
        "<= 10",
        "<= 21300",
        ">= 4",
        ">= 3.5",
        BFLOAT16_BAR,
        *threads,
        "<= 2",
        "<= 2.5",
    ]
    assert found[1].value < 21_400  # a small replay has relatively more of its last, half-empty blocks
    assert all(row.ours > 0 for row in found)
    assert told == ["replay", "plain", "bfloat16", "thread", "busy"]
