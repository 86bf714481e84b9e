"""Callbacks: when they are called, how they stop a run, and that they change nothing else."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cbm
from cbm.errors import CBMError
from cbm.runs.directory import saved_steps
from cbm.system.jsonl import read_lines
from cbm.training.callbacks import LiveRun
from same_run import assert_same_run
from toy import finished_run, tiny

TRAINING_PAGE = Path(__file__).parents[2] / "docs" / "training.md"


class Watch(cbm.Callback):
    """Writes everything down, draws random numbers, has the agent play, and stops at an environment step."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.stop_at = stop_at
        self.steps: list[tuple[int, int, int]] = []
        self.returns: list[float | None] = []
        self.evaluations: list[dict[str, Any]] = []
        self.ends: list[str | None] = []
        self.drawn: list[tuple[float, float, float]] = []

    def on_step(self, run: LiveRun) -> None:
        self.steps.append((run.env_step, run.agent_step, run.updates))
        self.returns.append(run.episode_return)
        self.drawn.append((random.random(), float(np.random.rand()), float(torch.rand(1))))  # noqa: NPY002
        run.agent.predict(np.zeros((9, 24, 24), np.uint8))
        if run.env_step == self.stop_at:
            run.stop("seen enough")

    def on_evaluation(self, run: LiveRun, results: Mapping[str, Mapping[str, Any]]) -> None:
        counts = {"env_step": run.env_step, "agent_step": run.agent_step, "updates": run.updates}
        self.evaluations.append(counts | dict(results))

    def on_end(self, run: LiveRun) -> None:
        self.ends.append(run.stopped)
        assert saved_steps(run.directory / "checkpoint")[-1] == run.env_step


def seed_the_program() -> None:
    random.seed(7)
    np.random.seed(7)  # noqa: NPY002
    torch.manual_seed(7)


def test_a_run_that_a_callback_stops_resumes_and_equals_one_without_callbacks(tmp_path: Path) -> None:
    config, run, first, second = tiny("drqv2+cbm", training__analyze_every=400), tmp_path / "run", Watch(300), Watch()
    seed_the_program()
    outcome = cbm.train(config, run, callbacks=[first], quiet=True)
    assert (outcome.at.env_step, outcome.stopped, outcome.signal) == (300, "seen enough", None)
    assert json.loads((run / "ended.json").read_text()) == {"how": "stopped", "reason": "seen enough"}
    outcome = cbm.resume(run, callbacks=[second, cbm.Callback()], quiet=True)
    assert (outcome.at.env_step, outcome.stopped) == (800, None)
    assert_same_run(run, finished_run())

    assert first.ends == ["seen enough"]
    assert second.ends == [None]
    steps = first.steps + second.steps
    assert [step[0] for step in steps] == list(range(2, 802, 2))
    assert [step[1] for step in steps] == list(range(1, 401))
    assert steps[-1][2] == outcome.at.updates > 300
    assert first.evaluations + second.evaluations == read_lines(run / "evals.jsonl")
    ended = [line for line in read_lines(run / "metrics.jsonl") if "episode" in line]
    assert first.returns[:10] == [None] * 9 + [ended[0]["episode_return"]]
    assert second.returns[-1] == ended[-1]["episode_return"]

    seed_the_program()  # the numbers that callbacks drew are those of the program, one after the other
    expected = [(random.random(), float(np.random.rand()), float(torch.rand(1))) for _ in steps]  # noqa: NPY002
    assert first.drawn + second.drawn == expected


class Broken(cbm.Callback):
    def on_evaluation(self, run: LiveRun, results: Mapping[str, Mapping[str, Any]]) -> None:
        if run.env_step > 0:
            raise ZeroDivisionError("of a callback")

    def on_end(self, run: LiveRun) -> None:
        raise AssertionError("an error is not an end")


def test_an_error_in_a_callback_ends_the_run_and_the_last_checkpoint_stays(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(ZeroDivisionError, match="of a callback"):
        cbm.train(tiny("drqv2+cbm", training__analyze_every=400), run, callbacks=[Broken()], quiet=True)
    assert json.loads((run / "ended.json").read_text()) == {
        "how": "failed",
        "reason": "ZeroDivisionError: of a callback",
    }
    assert saved_steps(run / "checkpoint")[-1] == 300
    cbm.resume(run, quiet=True)
    assert_same_run(run, finished_run())


class Stops(cbm.Callback):
    def on_evaluation(self, run: LiveRun, results: Mapping[str, Mapping[str, Any]]) -> None:
        if run.updates > 0:
            run.stop()


def test_stopping_at_the_end_is_no_interruption(tmp_path: Path) -> None:
    config = tiny(training__total_steps=120, training__eval_every=1000, training__eval_episodes=1)
    outcome = cbm.train(config, tmp_path / "run", callbacks=[Stops()], quiet=True)
    assert outcome.stopped is None
    assert list((tmp_path / "run" / "videos").glob("best-*.mp4"))


@pytest.mark.parametrize(("wrong", "message"), [(print, "not <built-in"), (Watch, "Did you mean to call it")])
def test_what_is_no_callback_is_refused_before_anything_is_written(wrong: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(CBMError, match=message):
        cbm.train(tiny(), tmp_path / "run", callbacks=[wrong], quiet=True)
    assert not (tmp_path / "run").exists()


def test_the_example_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = TRAINING_PAGE.read_text().split("\n## Callbacks\n")[1].split("\n## ")[0]
    (example,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"config": tiny(training__total_steps=240, training__film="false")}
    exec(example, names)
    printed = capsys.readouterr().out
    for line in (r"environment step 0: \d", r"5\d updates, last return 1\d\.", "environment step 240: "):
        assert re.search(f"^{line}", printed, re.MULTILINE), printed
    assert "\nruns/with-callbacks: complete\n" in printed
    assert names["outcome"].stopped is None
    high_enough = cbm.train(names["config"], "stopped", callbacks=[names["StopAt"](5)], quiet=True)
    assert (high_enough.stopped, high_enough.at.env_step) == ("a mean return of 5", 0)
