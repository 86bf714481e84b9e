"""The benchmark measures what it says, and its reference computes what ours computes."""

from __future__ import annotations

import torch

from cbm.agents import Setup, make_agent
from cbm.agents.drqv2 import DrQv2
from cbm.bench.plain import PlainUpdate
from cbm.bench.side import ACTION_DIM
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
