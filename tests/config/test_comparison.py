"""What differs between methods besides the method."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cbm.agents import agent_names
from cbm.config import EnvConfig, effect_of, make_config, to_json
from cbm.config.comparison import describe, differences
from cbm.schema.tree import Effect, flatten
from cbm.training.loop import train


def test_the_reference_differs_in_nothing() -> None:
    config = make_config("drqv2+cbm", preset="laptop")
    assert differences(config) == {}
    assert "laptop" in describe(config, {})


def test_its_base_differs_in_batches_shifts_and_updates_alone() -> None:
    found = differences(make_config("drqv2", preset="laptop"))
    assert found == {
        "agent.alike_shifts": (0.0, 0.5),
        "agent.batch_episodes": (0, 4),
        "agent.head_updates": (0, 8),
        "updates_per_agent_step": (0.5, 0.25),
    }
    assert not differences(make_config("drqv2"))
    assert "no difference" in describe(make_config("drqv2"), {})


def test_settings_of_the_authors_are_named_with_both_values() -> None:
    found = differences(make_config("svea", preset="paper"))
    assert found["agent.lr"] == (1e-3, 5e-4)
    assert "agent.lr 0.001 (there 0.0005)" in describe(make_config("svea"), found)
    assert "agent.temperature_lr" not in found  # DrQ-v2 has no temperature: that is the method


def test_an_option_of_the_user_is_named() -> None:
    config = make_config("drqv2+cbm", overrides=[("training.seed_steps", "8000"), ("training.threads", "1")])
    assert set(differences(config)) == {"training.seed_steps"}


def test_updates_are_compared_by_what_is_done_not_by_how_it_is_said() -> None:
    found = differences(make_config("tpc", EnvConfig(task="cartpole-swingup")))
    assert found["updates_per_agent_step"] == (pytest.approx(0.8), 1.0)


@pytest.mark.parametrize("name", agent_names())
def test_every_method_is_compared_by_what_it_shares_with_the_reference(name: str) -> None:
    """In both presets, against their settings as they are written: a difference that is found, and no other."""
    for preset in ("paper", "laptop"):
        config, reference = make_config(name, preset=preset), make_config("drqv2+cbm", preset=preset)
        ours, theirs = (flatten(to_json(each)) for each in (config, reference))
        found = differences(config)
        for key in (key for key in ours.keys() & theirs.keys() if key.startswith(("agent.", "env.", "training."))):
            expected = ours[key] != theirs[key] and effect_of(key) > Effect.ROUNDING
            assert (key in found) == (expected and key != "agent.updates_per_step"), key
        text = describe(config, found)
        for key, (own, there) in found.items():
            assert f"{key} {own} (there {there})" in text
        assert ("no difference" in text) == (not found and name != "drqv2+cbm")


def test_a_run_stores_and_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {"agent.batch_size": "4", "env.size": "32", "training.film": "false", "training.eval_episodes": "1"}
    config = make_config("drqv2", overrides=[*sizes.items(), ("training.total_steps", "8")])
    train(config, tmp_path / "run")
    assert "agent.batch_size 4 (there 128)" in capsys.readouterr().out
    stored = json.loads((tmp_path / "run" / "config.json").read_text())["provenance"]["differences"]
    assert stored["agent.batch_size"] == [4, 128]
