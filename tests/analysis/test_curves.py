"""Learning curves out of run directories."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from PIL import Image

from cbm.analysis.curves import mean_curve, read_curve
from cbm.cli import main


def write_run(path, agent, seed, evals, splits=("train", "unseen"), cut=False):
    path.mkdir()
    config = {
        "agent_name": agent,
        "preset": "laptop",
        "seed": seed,
        "env": {"task": "cartpole-swingup", "env_id": None, "distraction": "easy"},
        "training": {"seed_steps": 4000},
    }
    (path / "config.json").write_text(json.dumps(config))
    lines = [{"env_step": step, **{split: {"mean": value} for split in splits}} for step, value in evals]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (path / "evals.jsonl").write_text(text[:-9] if cut else text)
    episodes = [{"env_step": step, "episode_return": 100.0 + step} for step in (1000, 4000, 5000)]
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in episodes))
    return path


def test_a_curve_is_read_with_the_random_episodes_of_its_seed_steps(tmp_path):
    curve = read_curve(write_run(tmp_path / "a", "drqv2", 3, [(0, 10.0), (10_000, 50.0)]))
    assert curve.seed == 3
    np.testing.assert_array_equal(curve.env_steps, [0, 10_000])
    np.testing.assert_array_equal(curve.returns["unseen"], [10.0, 50.0])
    np.testing.assert_array_equal(curve.random_returns, [1100.0, 4100.0])


def test_the_mean_stops_where_the_shortest_run_stops(tmp_path):
    long = read_curve(write_run(tmp_path / "a", "drqv2", 0, [(0, 0.0), (10, 20.0), (20, 90.0)]))
    short = read_curve(write_run(tmp_path / "b", "drqv2", 1, [(0, 2.0), (10, 40.0)]))
    steps, mean = mean_curve([long, short], "train")
    assert steps.tolist() == [0, 10]
    assert mean.tolist() == [1.0, 30.0]


def test_plot_draws_a_picture_and_writes_its_numbers(tmp_path, capsys):
    runs = [
        write_run(tmp_path / "a", "drqv2", 0, [(0, 1.0), (10_000, 60.0)]),
        write_run(tmp_path / "b", "drqv2+cbm", 0, [(0, 2.0), (10_000, 160.0)], cut=True),  # killed in mid-line
    ]
    path = tmp_path / "out" / "curve.png"
    assert main(["plot", *map(str, runs), "-o", str(path)]) == 0
    assert Image.open(path).size == (1560, 540)
    rows = list(csv.DictReader(path.with_suffix(".csv").open()))
    assert {(row["run"], row["env_step"]) for row in rows} == {("a", "0"), ("a", "10000"), ("b", "0")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["nowhere"], "nowhere holds no run"), (["."], "holds no run"), (["nowhere", "-o", "x.gif"], "must end in .png")],
)
def test_bad_input_is_named(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["plot", *arguments]) == 1
    assert message in capsys.readouterr().err
