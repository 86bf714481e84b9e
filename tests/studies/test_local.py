"""Studies on one machine: only what is missing runs, what dies goes on, what cannot work is set aside."""

from __future__ import annotations

import csv
import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from cbm.cli import main
from cbm.runs.directory import RunDir
from cbm.studies.define import Choice
from cbm.studies.drive import drive
from cbm.studies.file import read_study
from cbm.studies.launch import Resources, make_launcher
from cbm.studies.report import write_report
from cbm.studies.store import Store, last_line
from same_run import assert_same_run
from toy_study import finish, small_plan, start, wait_until, write_study

BROKEN = '{ good = { agent = "drqv2" }, broken = { agent = "drqv2", "agent.lr" = 1e30 } }'


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of a study with one method that works and one that cannot, computed in this folder."""
    folder = tmp_path_factory.mktemp("reference")
    plan, store = small_plan(folder, methods=BROKEN, seeds=1)
    result = drive(plan, store, make_launcher("local", Resources(store.root, jobs=2)))
    assert [state.kind for state in result.states.values()] == ["done", "set aside"]
    return folder


def test_three_failures_set_a_run_aside_with_its_error(reference: Path) -> None:
    plan, store = small_plan(reference, methods=BROKEN, seeds=1)
    good, broken = (store.state(run) for run in plan.runs)
    assert (good.kind, good.env_step) == ("done", 800)
    assert good.result is not None
    assert (broken.kind, broken.failures) == ("set aside", 3)
    assert "is not finite at environment step" in broken.error
    attempts = [json.loads(line) for line in (store.root / "attempts" / f"{plan.runs[1].name}.jsonl").open()]
    assert [attempt["outcome"] for attempt in attempts] == ["failed"] * 3


def test_an_archive_can_be_reported_on_and_counts_as_done(reference: Path, tmp_path: Path) -> None:
    plan, store = small_plan(reference, methods=BROKEN, seeds=1)
    study, archive = str(reference / "toy-study.toml"), Store(tmp_path / "archive")
    assert main(["study", "archive", study, "--root", str(store.root), "-o", str(archive.root)]) == 0
    assert [archive.state(run).kind for run in plan.runs] == ["done", "missing"]
    files = {path.name for path in archive.run_dir(plan.runs[0]).root.iterdir()}
    assert {"config.json", "evals.jsonl", "metrics.jsonl"} <= files
    assert not {"checkpoint", "replay"} & files
    for folder in (store, archive):
        write_report(plan, folder, tmp_path / folder.root.name / "report")
    tables = [(tmp_path / folder.root.name / "report" / "final.csv").read_text() for folder in (store, archive)]
    assert tables[0] == tables[1]
    archive.run_dir(plan.runs[0]).ended.unlink()  # a run that lost its checkpoint is not an archived one
    assert archive.state(plan.runs[0]).kind == "begun"
    assert main(["study", "archive", study, "--root", str(tmp_path / "none"), "-o", str(tmp_path / "x")]) == 1


def test_a_second_time_runs_nothing_and_retry_runs_what_was_set_aside(reference: Path) -> None:
    plan, store = small_plan(reference, methods=BROKEN, seeds=1)

    def never() -> None:
        raise AssertionError("there is nothing to launch")

    drive(plan, store, never)  # type: ignore[arg-type]
    store.forgive(plan.runs[1])
    assert store.state(plan.runs[1]).kind == "begun"
    for _ in range(3):
        store._append(plan.runs[1], {"outcome": "failed", "error": "again"})
    assert store.state(plan.runs[1]).kind == "set aside"
    output = finish(start(reference, "--methods", "broken"), code=1)
    assert "set aside after 3 failures: toy:PixelDot-v0, broken, seed 1: again" in output
    assert "--retry" in output


def test_a_changed_definition_never_meets_old_results(reference: Path) -> None:
    plan, store = small_plan(reference, methods=BROKEN, seeds=1)
    changed = store.plan(read_study(write_study(reference, methods=BROKEN, seeds=1, agent__lr=7e-3)), Choice())
    assert {store.state(run).kind for run in changed.runs if run.method == "good"} == {"missing"}
    assert not {run.name for run in plan.runs} & {run.name for run in changed.runs if run.method == "good"}
    assert small_plan(reference, methods=BROKEN, seeds=1)[0].runs == plan.runs


def test_a_plan_is_remembered_until_the_definition_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, store = small_plan(tmp_path)
    monkeypatch.setattr("cbm.studies.store.make_plan", lambda *_: pytest.fail("resolved again"))
    assert small_plan(tmp_path)[0].runs == plan.runs
    with pytest.raises(pytest.fail.Exception, match="resolved again"):
        small_plan(tmp_path, seeds=3)
    (store.root / "toy-study-laptop" / "plan.json").write_text("{")  # a crash, an editor
    with pytest.raises(pytest.fail.Exception, match="resolved again"):
        small_plan(tmp_path)


def test_the_report_says_what_the_runs_say(reference: Path, tmp_path: Path) -> None:
    plan, store = small_plan(reference, methods=BROKEN, seeds=1)
    written = write_report(plan, store, tmp_path / "report")
    assert all(path.exists() for path in written)
    last = last_line(store.run_dir(plan.runs[0]).evals)
    assert last is not None
    text = (tmp_path / "report" / "report.md").read_text()
    assert f"| good | {last['train']['mean']:.0f} (n=1) |" in text
    assert "1 of 2 runs are complete" in text
    assert "Set aside: toy:PixelDot-v0, broken, seed 1:" in text
    assert "![curves-PixelDot-v0](curves-PixelDot-v0.png)" in text
    (row,) = csv.DictReader((tmp_path / "report" / "final.csv").open())
    assert float(row["mean"]) == pytest.approx(last["train"]["mean"], abs=0.01)
    assert plan.runs[0].name in (tmp_path / "report" / "report.html").read_text()


def test_show_tells_what_is_there_and_measures_the_rest(reference: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_study(reference, methods=BROKEN, seeds=2)
    words = ["study", "show", str(reference / "toy-study.toml"), "--root", str(reference / "studies"), "--jobs", "1"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "4 runs: 1 done, 0 begun, 1 set aside, 2 missing" in shown
    assert "2 methods  good, broken" in shown
    assert "for the rest on this machine, 1 at a time" in shown
    (good,) = [line.split() for line in shown.splitlines() if line.startswith("good ")]
    assert 0 < int(good[1]) < 5_000  # milliseconds of an update of a tiny network
    write_study(reference, methods=BROKEN, seeds=1)


def test_ctrl_c_kill_minus_nine_and_two_drivers(reference: Path, tmp_path: Path) -> None:
    """One study through all of it: the driver killed, a second one refused, a worker killed, Ctrl-C; the same bits."""
    path = write_study(tmp_path, methods=BROKEN, seeds=1)
    store = Store(tmp_path / "studies")
    (run,) = store.plan(read_study(path), Choice(methods=("good",))).runs
    directory = store.run_dir(run)
    words = ("--methods", "good", "--jobs", "2")

    def at(step: int) -> bool:
        line = last_line(directory.metrics)
        return line is not None and line["env_step"] >= step and directory.owner() is not None

    driver = start(tmp_path, *words)
    wait_until(lambda: at(250), driver)
    refused = finish(start(tmp_path, *words), code=1)
    assert f"another `cbm study run` is running in studies, process {driver.pid}" in refused
    worker = psutil.Process(int(directory.owner() or 0))
    driver.kill()
    driver.communicate()
    worker.wait(30)  # it noticed, saved and ended
    assert json.loads(directory.ended.read_text()) == {"how": "stopped", "reason": "SIGTERM"}

    driver = start(tmp_path, *words)
    wait_until(lambda: at(450), driver)
    os.kill(int(directory.owner() or 0), signal.SIGKILL)
    wait_until(lambda: at(600), driver)
    driver.send_signal(signal.SIGINT)
    output = finish(driver, code=130)
    assert "its process was ended by SIGKILL" in output
    assert "the same command to resume" in output
    assert RunDir(directory.root).owner() is None

    assert "1 of 1 runs are done" in finish(start(tmp_path, *words))
    assert_same_run(directory.root, reference / "studies" / "runs" / run.name)
