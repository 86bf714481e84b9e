"""`cbm bench train` on the toy task: shares are shares, and both sides are of one kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from cbm.bench.train import overlap_row, share_outside_update
from cbm.config import EnvConfig, RunConfig, make_config
from toy import TINY


def tiny(**changes: object) -> RunConfig:
    values = TINY | {key.replace("__", "."): value for key, value in changes.items()}
    env = EnvConfig(env_id="toy:PixelDot-v0")
    return make_config("drqv2", env, overrides=[(key, str(value)) for key, value in values.items()])


def test_the_share_of_a_short_run_that_is_no_update(tmp_path: Path) -> None:
    assert 0 < share_outside_update(tiny(agent__updates_per_step=0.5), tmp_path / "run", updates=6) < 1


def test_overlap_is_set_against_the_same_without() -> None:
    row = overlap_row(tiny(), rounds=1, updates=3)
    assert row.reference is not None
    assert row.ratio == pytest.approx(row.ours / row.reference)
    assert row.value == row.ratio
