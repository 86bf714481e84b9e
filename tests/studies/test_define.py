"""What a study runs, how its runs are named, and what is said about a file that is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cbm.agents import agent_names
from cbm.config import from_json, make_config
from cbm.envs.tasks import PAPER_TASKS
from cbm.errors import CBMError
from cbm.studies.define import SCALES, Choice, Grid, Study, count, make_plan, run_name
from cbm.studies.file import find_study, read_study
from cbm.studies.paper import METHODS, STUDIES

PAIR = Study(
    "pair", "Two", (Grid(("cartpole-swingup",), ("drqv2", "drqv2+cbm"), {"easy": {"env.distraction": "easy"}}),)
)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", STUDIES)
def test_every_study_of_the_paper_resolves(name: str, scale: str) -> None:
    seeds = Choice(scale, seeds=1)
    runs = make_plan(STUDIES[name], seeds).runs
    assert len(runs) * (count(STUDIES[name], scale) // len(runs)) == count(STUDIES[name], scale)
    for run in runs:
        config = from_json(run.config)
        assert run_name(config) == run.name
        assert config.agent_name in agent_names()


def test_multi_is_six_tasks_seven_methods_five_seeds() -> None:
    runs = make_plan(STUDIES["multi"], Choice("paper")).runs
    assert len(runs) == 6 * 7 * 5
    assert {run.task for run in runs} == set(PAPER_TASKS)
    assert {run.method for run in runs} == set(METHODS)
    assert {run.config["training"]["total_steps"] for run in runs} == {500_000}
    assert [run.seed for run in runs[:42]] == [1] * 42  # one seed of everything before the second of anything


def test_prototypes_change_k_and_leave_the_rest() -> None:
    runs = make_plan(STUDIES["prototypes"], Choice("laptop", tasks=("walker-walk",), seeds=1)).runs
    found = {run.method: (run.config["objective"] or {}).get("prototypes") for run in runs}
    assert found == {"K = 0": None, "K = 8": 8, "K = 32": 32, "K = 128": 128, "K = 512": 512}


def test_studies_share_the_runs_that_they_have_in_common() -> None:
    laptop = {name: {run.name for run in make_plan(STUDIES[name], Choice("laptop")).runs} for name in STUDIES}
    assert len(laptop["ablation"] & laptop["multi"]) == 2 * 2 * 2  # drqv2 and drqv2+cbm on two tasks, two seeds
    assert laptop["generalization"] < laptop["multi"]
    assert len(laptop["prototypes"] & laptop["ablation"]) == 2 * 2 * 2  # K = 128, and K = 0 as drqv2+dynamics


def test_a_name_changes_with_what_can_change_a_result_and_with_nothing_else() -> None:
    config = make_config("drqv2+cbm", preset="laptop", seed=1)
    names = {run_name(config)}
    for change in ({"threads": 7}, {"eval_workers": 3}, {"checkpoint_every": 5}, {"film": False}, {"device": "cuda"}):
        names.add(run_name(replace(config, training=replace(config.training, **change))))
    assert len(names) == 1
    names.add(run_name(replace(config, training=replace(config.training, total_steps=5))))
    names.add(run_name(replace(config, agent=replace(config.agent, lr=2 * config.agent.lr))))
    names.add(run_name(replace(config, seed=2)))
    assert len(names) == 4


def test_what_is_typed_wins_over_the_scale_over_the_method_over_the_study() -> None:
    grid = Grid(("cartpole-swingup",), {"a": {"agent": "drqv2", "agent.lr": 0.2, "agent.batch_size": 99}})
    study = Study("x", "x", (grid,), set={"agent.lr": 0.1, "agent.discount": 0.5})
    (run,) = make_plan(study, Choice("smoke", set=(("training.log_every", "7"),))).runs
    assert (run.config["agent"]["lr"], run.config["agent"]["discount"]) == (0.2, 0.5)
    assert run.config["agent"]["batch_size"] == 8
    assert run.config["training"]["log_every"] == 7


def test_a_part_of_a_study_can_be_asked_for() -> None:
    assert len(make_plan(PAIR, Choice("laptop")).runs) == 4
    (run,) = make_plan(PAIR, Choice("laptop", methods=("drqv2",), seeds=1)).runs
    assert (run.method, run.variant, run.seed) == ("drqv2", "easy", 1)
    with pytest.raises(CBMError, match=r"unknown method of the study pair 'drqv3'. Did you mean 'drqv2'"):
        make_plan(PAIR, Choice("laptop", methods=("drqv3",)))
    with pytest.raises(CBMError, match="--seeds must be at least 1"):
        make_plan(PAIR, Choice("laptop", seeds=0))


GOOD = """
title = "Does a larger batch help?"
tasks = ["cartpole-swingup", "walker-walk"]
seeds = 3
final_episodes = 20

[methods]
plain = { agent = "drqv2" }
"CBM, batch 256" = { agent = "drqv2+cbm", "agent.batch_size" = 256, objective.temperature = 0.2 }

[variants]
easy = { env.distraction = "easy" }
moving = { env.distraction = "easy", env.dynamic = true }

[laptop]
tasks = ["cartpole-swingup"]
seeds = 1
"""


def test_a_file_says_the_same_as_the_lines_of_the_paper(tmp_path: Path) -> None:
    path = tmp_path / "batch.toml"
    path.write_text(GOOD)
    study = find_study(str(path))
    runs = make_plan(study, Choice("paper")).runs
    assert len(runs) == 2 * 2 * 2 * 3
    run = next(run for run in runs if run.method.startswith("CBM") and run.variant == "moving")
    assert run.config["agent"]["batch_size"] == 256
    assert run.config["objective"]["temperature"] == 0.2
    assert run.config["env"]["dynamic"] is True
    assert run.final_episodes == 20
    assert len(make_plan(study, Choice("laptop")).runs) == 4
    assert make_plan(study, Choice()).scale == "laptop"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tasks = [", "task = [", "unknown setting 'task'. Did you mean 'tasks'"),
        ('tasks = ["cartpole-swingup", "walker-walk"]', "", r'name the tasks: tasks = \["cartpole-swingup"\]'),
        ("seeds = 3", "seeds = 0", "seeds must be at least 1, not 0"),
        ("seeds = 3", 'seeds = "many"', "seeds must be a whole number, not 'many'"),
        ('{ agent = "drqv2" }', "{ }", "methods.plain needs an agent"),
        (
            '{ agent = "drqv2" }',
            '{ agent = "drqv2", agent.lr = 1 }',
            "settings of an agent in quotes",
        ),
        ('{ agent = "drqv2" }', '"drqv2"', "methods.plain must be a table of settings"),
        ('agent = "drqv2" }', 'agent = "drqv3" }', "unknown agent 'drqv3'"),
        ('"walker-walk"', '"walker-wlk"', "unknown task 'walker-wlk'. Did you mean 'walker-walk'"),
        ('"agent.batch_size" = 256', '"agent.batch" = 256', "unknown setting 'agent.batch'. Did you mean 'batch_size'"),
        ('"agent.batch_size" = 256', '"agent.batch_size" = "x"', "agent.batch_size must be a whole number, not 'x'"),
        ("[laptop]", "[labtop]", "unknown setting 'labtop'. Did you mean 'laptop'"),
        ("[laptop]", "[laptop]\nsteps = 5", "unknown setting 'laptop.steps'"),
        ("title =", "title", "is not TOML"),
    ],
)
def test_a_file_that_is_wrong_is_told_what_to_write(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "batch.toml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(CBMError, match=message):
        make_plan(read_study(path), Choice("paper"))


def test_names_that_do_not_exist(tmp_path: Path) -> None:
    with pytest.raises(CBMError, match=r"unknown study 'mutli'. Did you mean 'multi'.*my-study.toml"):
        find_study("mutli")
    with pytest.raises(CBMError, match=r"there is no file .*nowhere.toml"):
        find_study(str(tmp_path / "nowhere.toml"))
    (tmp_path / "multi.toml").write_text(GOOD)
    with pytest.raises(CBMError, match="the name of a study of the paper"):
        find_study(str(tmp_path / "multi.toml"))
