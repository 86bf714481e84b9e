"""A run that is killed and resumed equals one that was left alone, bit for bit."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import tyro

from cbm.cli.train import TrainArgs, expand_overrides, run_config
from cbm.config import read_provenance
from cbm.system.jsonl import read_lines
from cbm.training import loop
from same_run import assert_same_run, interrupt, load
from toy import TINY, cbm, finished_run, tiny_options


def test_killed_and_stopped_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = [
        *tiny_options(training__eval_workers=1, training__analyze_every=400),
        "--out",
        run,
    ]  # the other run had none: it must not matter
    code, _ = interrupt(run, signal.SIGKILL, random.randint(12, 30), words)
    assert code == -signal.SIGKILL
    code, output = interrupt(run, signal.SIGTERM, random.randint(32, 40), ["--resume", run])
    assert code == 128 + signal.SIGTERM, output
    assert f"cbm train --resume {run}" in output
    stopped_at = load(run)[0]
    assert f"stopped at environment step {stopped_at:,}, saved" in output
    process = cbm("train", "--resume", run)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 0, output
    assert f"resuming from the checkpoint at environment step {stopped_at:,}" in output
    assert_same_run(run, finished_run())


def test_killed_before_the_first_checkpoint_starts_over(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = tiny_options(training__total_steps=200, training__eval_every=10_000, training__film=False)
    process = cbm("train", *words, "--out", run)
    while not (run / "config.json").exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.005)
    process.kill()
    process.communicate()
    process = cbm("train", "--resume", run)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 0, output
    assert [line["env_step"] for line in read_lines(run / "evals.jsonl")] == [0, 200]
    # A shorter run is the beginning of a longer one.
    longer = read_lines(finished_run() / "metrics.jsonl")
    assert read_lines(run / "metrics.jsonl") == [line for line in longer if line["env_step"] <= 200]


def test_a_stop_in_the_middle_of_an_evaluation_saves_and_plays_it_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = cbm("train", *tiny_options(training__eval_episodes=2_000), "--out", run)
    while not (run / "evals.jsonl").exists():  # opened just before the first evaluation
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 128 + signal.SIGINT, output
    assert "stopped at environment step 0, saved" in output
    assert read_lines(run / "evals.jsonl") == []
    assert load(run)[1]["at"]["evaluated"] == -1


def test_a_damaged_checkpoint_costs_only_time(tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished_run(), tmp_path / "run"))
    newest = max((run / "checkpoint").iterdir())
    (newest / "tensors.safetensors").write_bytes(b"rubbish")
    with pytest.warns(UserWarning, match=f"{newest.name} is damaged"):
        assert loop.resume(run, quiet=True).at.env_step == 800
    assert_same_run(run, finished_run())


def test_a_finished_run_has_nothing_more_to_do_and_can_be_prolonged(tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = run_config(
        tyro.cli(TrainArgs, args=expand_overrides(tiny_options(training__total_steps=400, training__analyze_every=400)))
    )
    assert loop.train(config, run, quiet=True).at.env_step == 400
    origin = read_provenance(run / "config.json")
    assert loop.resume(run, quiet=True).at.env_step == 400
    assert loop.resume(run, total_steps=800, quiet=True).at.env_step == 800
    assert [line["env_step"] for line in read_lines(run / "evals.jsonl")] == [0, 400, 800]
    assert json.loads((run / "config.json").read_text())["training"]["total_steps"] == 800
    assert read_provenance(run / "config.json") == origin
    assert_same_run(run, finished_run())


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["drq", "drqv2", "drq+cbm"])
def test_every_agent_resumes_exactly_after_many_kills(tmp_path: Path, agent: str) -> None:
    runs = tmp_path / "killed", tmp_path / "whole"
    process = cbm("train", *tiny_options(agent), "--out", runs[1])
    assert process.communicate(timeout=180)[0]
    words: list[Any] = [*tiny_options(agent), "--out", runs[0]]
    for lines in sorted(random.sample(range(2, 50), 4)):
        interrupt(runs[0], signal.SIGKILL, lines, words)
        words = ["--resume", runs[0]]
    process = cbm("train", *words)
    assert process.communicate(timeout=180)[0]
    assert process.returncode == 0
    assert_same_run(*runs)


@pytest.mark.slow
def test_the_suite_under_moving_distractions_resumes_exactly(tmp_path: Path) -> None:
    runs = tmp_path / "killed", tmp_path / "whole"
    sizes = TINY | {"training.total_steps": 2400, "training.eval_every": 2400, "training.eval_episodes": 1}
    del sizes["env.action_repeat"]
    options = ["--task", "cartpole-swingup", "--distraction", "easy", "--dynamic", "--prototypes", "8"]
    options += [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    process = cbm("train", *options, "--out", runs[1])
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 0, output
    interrupt(runs[0], signal.SIGKILL, random.randint(10, 30), [*options, "--out", runs[0]])
    process = cbm("train", "--resume", runs[0])
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 0, output
    assert "not deterministic" not in output
    assert_same_run(*runs)
