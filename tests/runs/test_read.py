"""Run directories in every state that a disk can show them in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tyro

from cbm.cli.train import TrainArgs, expand_overrides, run_config
from cbm.errors import CBMError
from cbm.runs.directory import RunDir
from cbm.runs.provenance import RECORDS_VERSION
from cbm.runs.read import load_runs
from cbm.training import loop
from toy import finished_run, tiny_options


def eval_line(step, mean=1.0):
    return {"env_step": step, "agent_step": step, "updates": 0, "train": {"mean": mean, "returns": [mean]}}


def text_of(*lines):
    return "".join(json.dumps(line) + "\n" for line in lines)


def write_run(path, evals=(0, 10, 20), seed=0, total=20, **changes):
    """A run directory by hand."""
    path.mkdir(parents=True)
    config = {
        "agent_name": "drqv2",
        "seed": seed,
        "env": {"task": "cartpole-swingup", "distraction": "easy", "env_id": None},
        "training": {"total_steps": total, "seed_steps": 4},
        "provenance": {"records": RECORDS_VERSION},
    }
    (path / "config.json").write_text(json.dumps(config | changes))
    (path / "evals.jsonl").write_text(text_of(*map(eval_line, evals)))
    return path


def one(path):
    loaded = load_runs([path])
    assert len(loaded.runs) == 1
    return loaded.runs[0], [str(problem) for problem in loaded.problems]


def test_a_real_run_is_read_whole():
    run, problems = one(finished_run())
    assert not problems
    assert (run.agent, run.task, run.seed, run.env_step, run.total_steps) == ("drqv2+cbm", "PixelDot-v0", 0, 800, 800)
    assert run.status.state == "complete"
    assert run.splits == ("train",)
    steps, returns = run.curve("train")
    assert steps == [0, 400, 800]
    assert returns == [line["train"]["mean"] for line in run.evals]
    assert [film.name for film in run.films] == ["best-000000800.mp4"]
    assert run.metrics
    assert run.timings
    assert run.provenance["versions"]["torch"]


def test_folders_are_searched_and_what_is_no_run_is_named(tmp_path):
    write_run(tmp_path / "runs" / "a")
    write_run(tmp_path / "runs" / "deeper" / "a", seed=1)
    (tmp_path / "runs" / "empty").mkdir()
    (tmp_path / "runs" / "begun").mkdir()
    (tmp_path / "runs" / "begun" / ".lock").touch()
    (tmp_path / "runs" / "foreign").mkdir()
    (tmp_path / "runs" / "foreign" / "thesis.doc").touch()
    (tmp_path / "file").touch()
    loaded = load_runs([tmp_path / "runs", tmp_path / "runs" / "a", tmp_path / "absent", tmp_path / "file"])
    assert [run.name for run in loaded.runs] == ["runs/a", "deeper/a"]  # one of them was given twice
    told = {problem.path.name: problem.what for problem in loaded.problems}
    assert told == {
        "empty": "is empty",
        "begun": "a run that was started but never got its config.json",
        "foreign": "holds no run (no config.json in it)",
        "absent": "does not exist",
        "file": "is a file, not a run directory",
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"agent_name": "drq', "is not JSON, or was cut short"),
        ("", "is not JSON, or was cut short"),
        ("[1, 2]", "is not a JSON object"),
        (b"\xff\xfe\x00", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"model_type": "bert", "seed": true}', "agent_name, seed, env.task, training.total_steps missing or wrong"),
        ('{"provenance": {"records": 99}}', "version 99, but this cbm-rl reads up to 1"),
        ('{"provenance": {"records": "two"}}', "version 'two'"),
    ],
)
def test_a_config_that_is_none_of_ours_is_skipped_by_name(content, message, tmp_path):
    (write_run(tmp_path / "bad") / "config.json").write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )
    write_run(tmp_path / "good")
    loaded = load_runs([tmp_path])
    assert [run.name for run in loaded.runs] == ["good"]
    assert [problem.path for problem in loaded.problems] == [tmp_path / "bad"]
    assert message in loaded.problems[0].what


def test_keys_that_this_version_does_not_know_do_no_harm(tmp_path):
    run, problems = one(write_run(tmp_path / "run", flux={"capacitor": 1.21}))
    assert not problems
    assert run.config["flux"] == {"capacitor": 1.21}


def test_lines_that_are_cut_broken_or_of_another_form_are_left_out_and_counted(tmp_path):
    path = write_run(tmp_path / "run")
    good = json.dumps(eval_line(0)), json.dumps(eval_line(20))
    odd = ['{"step": 3, "return": 4}', '{"env_step": 5, "train": 17.0}', '{"env_step": 6, "train": {"mean": NaN}}']
    (path / "evals.jsonl").write_text("\n".join([good[0], '{"env_step": ', *odd, "[1]", good[1], '{"env_st']))
    (path / "metrics.jsonl").write_text('{"env_step": 1, "loss": NaN}\n{"env_step": true}\n')
    run, problems = one(path)
    assert [line["env_step"] for line in run.evals] == [0, 20]
    assert run.metrics == ({"env_step": 1, "loss": None},)
    assert problems == [
        f"{path}/evals.jsonl: its last line was cut short and is left out",
        f"{path}/evals.jsonl: line 2 not JSON; left out",
        f"{path}/evals.jsonl: 4 lines (first: 3) not in the form that this version writes; left out",
        f"{path}/metrics.jsonl: line 2 not in the form that this version writes; left out",
    ]


def test_a_file_that_grew_is_read_again(tmp_path):
    path = write_run(tmp_path / "run", evals=(0,))
    assert len(one(path)[0].evals) == 1
    with (path / "evals.jsonl").open("a") as file:
        file.write(text_of(eval_line(10)))
    assert len(one(path)[0].evals) == 2


def test_a_run_under_way_is_told_from_one_that_died(tmp_path):
    path = write_run(tmp_path / "run", evals=(0,))
    (path / "metrics.jsonl").write_text('{"env_st')
    with RunDir(path).locked():
        run, problems = one(path)
        assert str(run.status) == f"running (process {os.getpid()})"
        assert not problems  # its writer may be in the middle of that line
    run, problems = one(path)
    assert run.status.state == "stopped"
    assert "without a word" in run.status.reason
    assert len(problems) == 1
    assert RunDir(path).owner() is None


def test_looking_at_a_lock_does_not_keep_a_run_from_starting(tmp_path):
    """`owner` holds the lock for a moment; whoever wants to train waits for that moment to pass."""
    (tmp_path / ".lock").touch()
    script = (
        f"import os, fcntl, time; h = os.open({str(tmp_path / '.lock')!r}, os.O_RDONLY); fcntl.flock(h, fcntl.LOCK_SH)"
    )
    code = f"{script}; print('held', flush=True); time.sleep(0.1)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as looker:
        assert looker.stdout is not None
        assert looker.stdout.readline() == b"held\n"
        with RunDir(tmp_path).locked():
            pass


def test_a_run_that_fails_leaves_its_reason(tmp_path):
    options = tiny_options("drqv2", agent__lr=1e30, training__total_steps=400, training__seed_steps=20)
    config = run_config(tyro.cli(TrainArgs, args=expand_overrides(options)))
    with pytest.raises(CBMError, match="not finite"):
        loop.train(config, tmp_path / "run", quiet=True)
    run, _ = one(tmp_path / "run")
    assert run.status.state == "failed"
    assert "is not finite at environment step" in run.status.reason


def test_a_run_that_is_stopped_says_by_what(tmp_path):
    path = write_run(tmp_path / "run", evals=(0,))
    (path / "ended.json").write_text('{"how": "stopped", "reason": "SIGTERM"}')
    assert str(one(path)[0].status) == "stopped (SIGTERM)"
    (path / "ended.json").write_text("rubb")
    assert one(path)[0].status.state == "stopped"


def test_figures_are_listed_by_name(tmp_path):
    path = write_run(tmp_path / "run")
    (path / "figures").mkdir()
    for name in ("tsne.csv", "tsne_value.png", "tsne_value.svg", "notes.txt"):
        (path / "figures" / name).touch()
    figures = one(path)[0].figures
    assert {name: [file.suffix for file in files] for name, files in figures.items()} == {
        "tsne": [".csv"],
        "tsne_value": [".png", ".svg"],
    }


@pytest.mark.parametrize(
    "change",
    [
        lambda config: config["agent"].update(hidden_dim=float("inf")),
        lambda config: config["agent"].update(hidden_dim=10**400),
        lambda config: config["training"].update(total_steps=10**400),
        lambda config: config["training"].update(seed_steps=[]),
        lambda config: config.update(seed=-(10**30)),
        lambda config: config["env"].update(scale={"a": {"b": []}}),
        lambda config: config.update(agent=json.loads('{"a":' * 400 + "1" + "}" * 400)),
    ],
)
def test_one_bad_run_hides_no_other(tmp_path, change):
    from cbm.report.page import write_page
    from cbm.report.server import LiveData

    shutil.copytree(finished_run(), tmp_path / "runs" / "good", ignore=shutil.ignore_patterns("replay", "checkpoint"))
    bad = Path(shutil.copytree(tmp_path / "runs" / "good", tmp_path / "runs" / "bad"))
    config = json.loads((bad / "config.json").read_text())
    change(config)
    (bad / "config.json").write_text(json.dumps(config).replace("Infinity", "1e999"))
    page = write_page(load_runs([tmp_path / "runs"]), tmp_path / "page.html", "title", 10_000_000).path.read_text()
    assert '"name":"good"' in page
    assert '"name":"good"' in LiveData([tmp_path / "runs"], "title").data()[0]
