"""What a person sees of a study: the verbs, the live table, the paper's numbers."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console

from cbm.cli import main
from cbm.errors import CBMError
from cbm.studies import board as board_module
from cbm.studies.board import Board
from cbm.studies.define import Choice, make_plan
from cbm.studies.paper import STUDIES
from cbm.studies.report import FinalReturns, _in_paper, draw_variants, write_report
from cbm.studies.store import Ended, State, Store

SHORT = (("training.total_steps", "100000"),)
PLAN = make_plan(STUDIES["ablation"], Choice("laptop", tasks=("cartpole-swingup",), set=SHORT))
STATES = [
    State("begun", 30_000, 150.25),
    State("begun", 10_000),
    State("done", 100_000, 240.0),
    State("set aside", 500, None, 3, "a loss is not finite"),
    *[State("missing")] * 4,
]


def shown(terminal: bool, height: int = 40) -> tuple[Board, io.StringIO]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=120, height=height, color_system=None)
    return Board(PLAN, Store(Path("studies")), console=console), out


def states() -> dict[str, State]:
    return dict(zip((run.name for run in PLAN.runs), STATES, strict=True))


def test_the_table_has_progress_return_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    board, out = shown(terminal=True)
    now = iter([0.0, 10.0])
    running = {PLAN.runs[0].name, PLAN.runs[1].name}
    monkeypatch.setattr(board_module.time, "monotonic", lambda: next(now))
    before = states() | {PLAN.runs[0].name: State("begun", 29_000, 150.25), PLAN.runs[1].name: State("begun", 10_000)}
    board.update(before, running)
    board.update(states(), running)  # 1000 steps in ten seconds: 70 000 more take 700 seconds
    board.console.print(board.render(states(), running))
    lines = out.getvalue().splitlines()
    (first,) = [line for line in lines if "30,000 of 100,000" in line][-1:]
    assert first.split() == [
        "cartpole-swingup",
        "drqv2",
        "easy",
        "1",
        "running",
        "30,000",
        "of",
        "100,000",
        "150.2",
        "0:11:40",
    ]
    assert any("set aside" in line and "drqv2+bisim-nce" in line for line in lines)
    # 70 000 + 90 000 + 4 x 100 000 at 100 a second
    assert "ablation-laptop: 1 done, 4 missing, 1 set aside, 2 running of 8 runs; about 1:33:20 left" in lines


def test_a_low_terminal_shows_what_runs_first() -> None:
    board, out = shown(terminal=True, height=7)
    board.console.print(board.render(states(), {PLAN.runs[7].name}))
    assert "running" in out.getvalue().splitlines()[1]
    assert "... and 5 more" in out.getvalue()


def test_a_file_gets_plain_lines() -> None:
    board, out = shown(terminal=False)
    run = PLAN.runs[0]
    with board:
        board.ended(run, Ended("done"), State("done", 100_000, 240.0))
        board.ended(run, Ended("lost", "its node is gone"), State("begun"))
        board.ended(run, Ended("failed", "boom"), State("begun", failures=1, error="boom"))
        board.ended(run, Ended("failed", "boom"), State("set aside", failures=3, error="boom"))
    lines = out.getvalue().splitlines()
    assert lines[0] == "done: cartpole-swingup, drqv2, easy, seed 1, return 240.0"
    assert lines[1].endswith("its node is gone; it will resume elsewhere")
    assert lines[2].endswith("boom; trying again from its last checkpoint")
    assert lines[3].startswith("set aside after 3 failures: cartpole-swingup, drqv2, easy, seed 1: boom")


def test_the_list_names_every_study_and_its_place_in_the_paper(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    assert main(["study", "list"]) == 0
    out = capsys.readouterr().out
    for study in STUDIES.values():
        (line,) = [line for line in out.splitlines() if line.startswith(f"{study.name} ")]
        assert study.source in line
    assert [line.split()[-3:] for line in out.splitlines() if line.startswith("multi ")] == [["210", "84", "42"]]


def test_the_papers_number_stands_beside_ours_and_beside_nothing_else() -> None:
    runs = make_plan(STUDIES["multi"], Choice("paper", tasks=("walker-walk",), seeds=1)).runs
    found = {run.method: _in_paper(run, "unseen") for run in runs}
    assert found["drqv2+cbm"].startswith("629 ± 119")
    assert found["drq"] == found["svea"] == ""
    assert _in_paper(next(run for run in runs if run.method == "drq"), "train").startswith("44 ± 14")
    clean = make_plan(STUDIES["clean"], Choice("paper", tasks=("walker-walk",), seeds=1)).runs
    assert {_in_paper(run, "train") for run in clean} == {""}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "multy"], "unknown study 'multy'. Did you mean 'multi'"),
        (["run", "multi", "--address", "auto"], "--address works only with --launcher ray"),
        (["run", "multi", "--launcher", "ray", "--address", "ray://x:1"], "start the study on a node of the cluster"),
        (["run", "multi", "--agent.nope", "1"], "unknown setting 'agent.nope'"),
        (["report", "multi"], "Run it first: cbm study run multi"),
    ],
)
def test_mistakes_are_explained(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", *words, "--root", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CBMError, match="has no evaluation yet"):
        write_report(PLAN, Store(tmp_path), tmp_path / "report")


def test_magnitudes_are_drawn_as_means_over_tasks(tmp_path: Path) -> None:
    values = {"a": (100.0, 300.0), "b": (50.0,)}
    rows = [FinalReturns(task, "drqv2", "camera 0.1", "train", returns) for task, returns in values.items()]
    rows += [
        FinalReturns("a", "drqv2", "camera 0.2", "train", (80.0,)),
        FinalReturns("a", "drqv2", "camera 0.1", "unseen", (999.0,)),
    ]
    assert str(rows[0]) == "200 ± 141 (n=2)"
    table = list(csv.DictReader(draw_variants(rows, tmp_path)[-1].open()))
    assert [(line["variant"], float(line["mean"]), line["tasks"]) for line in table] == [
        ("camera 0.1", 125.0, "2"),
        ("camera 0.2", 80.0, "1"),
    ]
