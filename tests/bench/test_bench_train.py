"""`cbm bench train` on the toy task: the figures are of the right run and add up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cbm.bench.train import DEMO_STEPS, costs, overlap_row, share_of_evaluation
from cbm.config import EnvConfig, RunConfig, make_config
from toy import TINY


def tiny(**changes: object) -> RunConfig:
    values = TINY | {key.replace("__", "."): value for key, value in changes.items()}
    env = EnvConfig(env_id="toy:PixelDot-v0")
    return make_config("drqv2", env, overrides=[(key, str(value)) for key, value in values.items()])


def test_the_demo_is_the_one_that_is_measured() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    assert re.search(r"^DEMO_STEPS \?= (\d+)$", makefile, re.MULTILINE).group(1) == str(DEMO_STEPS)  # type: ignore[union-attr]
    assert "--preset laptop" in makefile
    assert "--training." not in makefile  # evaluations as often as the preset has them


def test_seconds_of_a_short_run(tmp_path: Path) -> None:
    config = tiny(agent__updates_per_step=0.5)
    found = costs(config, tmp_path / "costs", updates=6)
    assert 0 < found.update < found.step
    assert found.evaluation > 0
    assert found.analysis == 0  # the toy's settings have none
    share = share_of_evaluation(config, tmp_path / "share", total_steps=2_000, updates=6)
    assert 0 < share < 1


def test_overlap_is_set_against_the_same_without() -> None:
    row = overlap_row(tiny(), rounds=1, updates=3)
    assert row.reference is not None
    assert row.ratio == pytest.approx(row.ours / row.reference)
    assert row.value == row.ratio
