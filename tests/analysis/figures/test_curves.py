"""Learning curves and scores out of run directories."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from PIL import Image

from cbm.analysis.figures.curves import group_runs, scores_so_far
from cbm.analysis.figures.style import STYLES, style
from cbm.analysis.published import PUBLISHED, published
from cbm.cli import main
from cbm.errors import CBMError
from cbm.runs.read import load_runs


def write_run(
    path,
    agent="drqv2",
    seed=0,
    evals=((0, 1.0),),
    splits=("train", "unseen"),
    cut=False,
    task=None,
    batch=64,
    mixed=False,
    **env,
):
    path.mkdir(parents=True)
    config = {
        "agent_name": agent,
        "agent": {"batch_size": batch, "mixed_precision": mixed},
        "preset": "laptop",
        "seed": seed,
        "env": {"task": task or "cartpole-swingup", "env_id": None, "distraction": "easy", **env},
        "training": {"seed_steps": 4000, "total_steps": 10_000},
    }
    (path / "config.json").write_text(json.dumps(config))
    lines = [{"env_step": step, **{split: {"mean": value} for split in splits}} for step, value in evals]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (path / "evals.jsonl").write_text(text[:-9] if cut else text)
    episodes = [{"env_step": step, "episode_return": 100.0 + step} for step in (1000, 4000, 5000)]
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in episodes))
    return path


def load(path):
    return load_runs([path]).runs


def test_random_actions_are_the_episodes_of_the_seed_steps(tmp_path):
    write_run(tmp_path / "a")
    assert load(tmp_path)[0].random_returns == [1100.0, 4100.0]


def test_runs_that_differ_in_their_seed_alone_are_one_group(tmp_path):
    write_run(tmp_path / "a", "drqv2", 1)
    write_run(tmp_path / "b", "drqv2", 0)
    write_run(tmp_path / "c", "drqv2+cbm", 0)
    write_run(tmp_path / "d", "drqv2", 0, task="walker-walk")
    write_run(tmp_path / "e", "drqv2", 0, dynamic=True, scale=0.2)
    groups = group_runs(load(tmp_path))
    found = {(group.method, group.task, group.distraction): [run.seed for run in group.runs] for group in groups}
    assert found == {
        ("drqv2", "cartpole-swingup", "easy"): [0, 1],
        ("drqv2+cbm", "cartpole-swingup", "easy"): [0],
        ("drqv2", "walker-walk", "easy"): [0],
        ("drqv2", "cartpole-swingup", "easy, scale 0.2, dynamic"): [0],
    }


def test_a_run_with_other_settings_is_no_seed_of_the_others(tmp_path):
    write_run(tmp_path / "a", seed=0)
    write_run(tmp_path / "b", seed=1)
    write_run(tmp_path / "c", seed=2, batch=128)
    write_run(tmp_path / "d", seed=3, mixed=True)
    groups = group_runs(load(tmp_path))
    assert {group.method: [run.seed for run in group.runs] for group in groups} == {
        "drqv2": [0, 1],
        "drqv2 (batch_size 128)": [2],
        "drqv2 (mixed_precision True)": [3],
    }


def test_runs_alike_even_in_their_seed_are_told_apart_by_their_folders(tmp_path):
    for folder in ("before", "after"):
        for seed in (0, 1):
            write_run(tmp_path / folder / f"s{seed}", seed=seed)
    write_run(tmp_path / "after" / "wide", seed=0, batch=128)
    groups = group_runs(load(tmp_path))
    assert {group.method: [run.seed for run in group.runs] for group in groups} == {
        "drqv2 (before)": [0, 1],
        "drqv2 (after)": [0, 1],
        "drqv2 (batch_size 128)": [0],
    }


def test_twice_the_same_run_beside_another_seed_is_three_lines(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_run(tmp_path / name, seed=seed)
    groups = group_runs(load(tmp_path))
    assert [group.method for group in groups] == ["drqv2 (a)", "drqv2 (b)", "drqv2 (c)"]


def test_a_group_ends_where_its_shortest_run_ends(tmp_path):
    write_run(tmp_path / "a", seed=0, evals=[(0, 0.0), (10, 20.0), (20, 90.0)])
    write_run(tmp_path / "b", seed=1, evals=[(0, 2.0), (10, 40.0)])
    (group,) = group_runs(load(tmp_path))
    steps, values = group.curve("train")
    assert steps.tolist() == [0, 10]
    assert values.tolist() == [[0.0, 2.0], [20.0, 40.0]]


def test_methods_are_compared_at_a_step_that_all_have_reached(tmp_path):
    write_run(tmp_path / "a", "drqv2", 0, [(0, 0.0), (10, 20.0), (20, 90.0)])
    write_run(tmp_path / "b", "drqv2+cbm", 0, [(0, 2.0), (10, 40.0)])
    write_run(tmp_path / "c", "drqv2", 0, [(0, 5.0), (30, 6.0)], task="walker-walk")
    write_run(tmp_path / "d", "drqv2+cbm", 0, [(0, 7.0), (30, 8.0)], task="walker-walk")
    write_run(tmp_path / "e", "proto", 0, [(0, 5.0), (30, 6.0)], task="walker-walk")
    now = scores_so_far(group_runs(load(tmp_path)), "unseen")
    assert now.steps == {("cartpole-swingup", "easy"): 10, ("walker-walk", "easy"): 30}
    assert {method: [task.tolist() for task in tasks] for method, tasks in now.scores.items()} == {
        "drqv2": [[20.0], [6.0]],
        "drqv2+cbm": [[40.0], [8.0]],
    }
    assert now.incomplete == ["proto"]


def test_plot_draws_pictures_and_writes_their_numbers(tmp_path, capsys):
    for seed, value in enumerate((100.0, 140.0, 220.0)):
        write_run(tmp_path / "runs" / f"cbm-{seed}", "drqv2+cbm", seed, [(0, 2.0), (10_000, value)])
    write_run(tmp_path / "runs" / "cut", "drqv2", 0, [(0, 1.0), (10_000, 60.0)], cut=True)  # killed in mid-line
    write_run(tmp_path / "runs" / "young", "drqv2", 1, [])
    (tmp_path / "runs" / "rubbish").mkdir()
    path = tmp_path / "out" / "curve.png"
    assert main(["plot", str(tmp_path / "runs"), "-o", str(path)]) == 0
    told = capsys.readouterr().err
    assert "rubbish: is empty" in told
    assert "young: left out, it has no evaluation yet" in told
    assert "cut/evals.jsonl: its last line was cut short" in told
    assert Image.open(path).width > 1000
    assert path.with_suffix(".svg").read_text().startswith("<?xml")
    rows = list(csv.DictReader(path.with_suffix(".csv").open()))
    own = {row["env_step"]: row for row in rows if row["method"] == "drqv2+cbm" and row["split"] == "train"}
    assert own["10000"]["returns"] == "100 140 220"
    assert float(own["10000"]["iqm"]) == pytest.approx(np.mean([100, 140, 220]), rel=1e-5)
    assert 100 <= float(own["10000"]["low"]) < 153 < float(own["10000"]["high"]) <= 220
    assert {row["env_step"] for row in rows if row["method"] == "drqv2"} == {"0"}


def test_scores_are_drawn_on_demand(tmp_path):
    for agent, level in (("drqv2", 100.0), ("drqv2+cbm", 300.0)):
        for seed in range(2):
            write_run(tmp_path / f"{agent}-{seed}", agent, seed, [(0, 2.0), (10_000, level + seed)])
    assert main(["plot", str(tmp_path), "-o", str(tmp_path / "c.png"), "--scores"]) == 0
    rows = list(csv.DictReader((tmp_path / "c-scores.csv").open()))
    table = {(row["panel"], row["method"]): row for row in rows if row["panel"] != "profile"}
    assert table["improvement", "drqv2+cbm"]["against"] == "drqv2"
    assert float(table["improvement", "drqv2+cbm"]["value"]) == 1.0
    assert float(table["iqm", "drqv2+cbm"]["value"]) == 300.5
    assert table["steps_to_return", "drqv2+cbm"]["value"] == "10000"
    assert table["steps_to_return", "drqv2"]["value"] == ""  # never reached 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: does not exist"),
        (["."], "no runs to draw"),
        (["nowhere", "-o", "x.gif"], "must end in .png"),
    ],
)
def test_bad_input_is_named(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["plot", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_runs_without_an_evaluation_say_so(tmp_path):
    write_run(tmp_path / "a", evals=[])
    with pytest.raises(CBMError, match="none of these runs has an evaluation"):
        group_runs(load(tmp_path))


def test_the_papers_numbers():
    table = {(entry.task, entry.agent, entry.split, "(DCS)" in entry.source): entry for entry in PUBLISHED}
    assert len(table) == 24
    assert table["cartpole-swingup", "drqv2+cbm", "unseen", False][4:6] == (485, 99)
    assert table["walker-walk", "drq+cbm", "unseen", False][4:6] == (30, 9)
    assert table["ball_in_cup-catch", "drq", "train", True][4:6] == (138, 20)
    assert {entry.agent for entry in published("cheetah-run", "easy", "unseen")} == {"drq+cbm", "drqv2+cbm"}
    assert published("cheetah-run", "hard") == []


def test_no_two_of_many_methods_are_drawn_alike() -> None:
    assert len({style(index) for index in range(40)}) == 40
    assert [style(index) for index in range(len(STYLES))] == list(STYLES)
