"""`cbm robustness`: a grid of conditions, kept cell by cell, drawn as a matrix that the page shows."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cbm.cli import main
from cbm.errors import CBMError
from cbm.evaluation.evaluate import evaluate
from cbm.evaluation.robustness import AS_TRAINED, Cell, grid, play_grid
from cbm.report.media import media_of
from cbm.runs.read import load_runs
from cbm.runs.zoo.add import add
from cbm.runs.zoo.entries import verify
from cbm.system.jsonl import read_lines
from toy import finished_suite_run

CELLS = [
    Cell(AS_TRAINED, "train"),
    Cell("none", "train", {"distraction": "none"}),
    Cell("camera 0.5", "train", {"distraction": "camera", "scale": 0.5, "dynamic": True}),
    Cell("easy", "unseen", {"distraction": "easy"}),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("replay", "tb")
    return Path(shutil.copytree(finished_suite_run(), tmp_path / "run", ignore=ignored))


def test_the_grid_has_every_distraction_alone_and_together_static_and_dynamic(tmp_path: Path) -> None:
    for index in range(3):
        (tmp_path / str(index)).mkdir()
        Image.fromarray(np.full((8, 8, 3), index, np.uint8)).save(tmp_path / str(index) / "0.png")
    cells = grid((0.1, 0.6), [str(tmp_path)])
    rows = [cell.row for cell in cells if not cell.dynamic]
    alone = ["background", f"background, {tmp_path.name}", "camera 0.1", "camera 0.6", "color 0.1", "color 0.6"]
    together = [row for name in ("easy", "medium", "hard") for row in (name, f"{name}, {tmp_path.name}")]
    assert rows == [AS_TRAINED, "none", *alone, *together]
    assert [cell.row for cell in cells if cell.dynamic] == [*alone, *together]
    assert {cell.split for cell in cells if cell.row.startswith(("easy", "background"))} == {"unseen"}


def test_a_cell_is_what_eval_plays_whatever_the_number_of_workers(run: Path) -> None:
    here = play_grid(run, CELLS, 2, workers=0)
    assert here.returns[AS_TRAINED, False] == read_lines(run / "evals.jsonl")[-1]["train"]["returns"]
    for cell in CELLS[1:]:
        alone = evaluate(run, 2, cell.split, 0, cell.conditions)
        assert here.returns[cell.row, cell.dynamic] == alone["returns"]
    (run / "robustness.jsonl").unlink()
    assert play_grid(run, CELLS, 2, workers=2) == here


def test_finished_cells_are_kept_and_not_played_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[tuple[str | None, bool]] = []

    def stop_after_three(cell: Cell | None, returns: list[float], fresh: bool) -> None:
        played.append((None if cell is None else cell.row, fresh))
        if len(played) == 5:  # in the middle of the third cell
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play_grid(run, CELLS, 2, workers=0, done=stop_after_three)
    assert [line["row"] for line in read_lines(run / "robustness.jsonl")] == [AS_TRAINED, "none"]
    played.clear()
    whole = play_grid(
        run, CELLS, 2, workers=0, done=lambda cell, returns, fresh: played.append((cell and cell.row, fresh))
    )
    assert [each for each in played if not each[1]] == [(AS_TRAINED, False), ("none", False)]
    assert len([each for each in played if each[1]]) == 4
    fewer = play_grid(run, CELLS, 1, workers=0, done=lambda cell, returns, fresh: played.append((None, fresh)))
    assert fewer.returns == {key: own[:1] for key, own in whole.returns.items()}
    other = json.loads((run / "robustness.jsonl").read_text().splitlines()[0])
    (run / "robustness.jsonl").write_text(json.dumps(other | {"env_step": 1}) + "\n")
    played.clear()
    play_grid(run, CELLS[:1], 2, workers=0, done=lambda cell, returns, fresh: played.append((None, fresh)))
    assert [fresh for _, fresh in played] == [True, True]  # another checkpoint is another matrix


def test_the_verb_prints_draws_and_is_on_the_page(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cbm.evaluation.robustness.grid", lambda scales, sources: CELLS)
    monkeypatch.setenv("CBM_ZOO", str(tmp_path / "zoo"))
    add(run, "mine")
    words = [str(run), "zoo:mine", "--episodes", "1", "--workers", "0", "-o", str(tmp_path / "out")]
    assert main(["robustness", *words]) == 0
    printed = capsys.readouterr()
    assert "camera 0.5" in printed.out
    assert "8 of 8 episodes, 0:00:00 left" in printed.err
    with (tmp_path / "out/robustness.csv").open() as file:
        lines: list[dict[str, Any]] = list(csv.DictReader(file))
    assert [line["condition"] for line in lines[:4]] == [AS_TRAINED, "none", "easy", "camera 0.5"]
    assert [line["mean"] for line in lines[:4]] == [line["mean"] for line in lines[4:]]  # the same agent, twice
    assert (tmp_path / "out/robustness.png").stat().st_size > 10_000
    media = media_of(load_runs([run]).runs[0], [])
    assert [medium.about["caption"] for medium in media if medium.name == "robustness"] == [
        "returns over a grid of conditions"
    ]
    verify(tmp_path / "zoo/mine")  # nothing was written into it


def test_what_cannot_be_played_is_one_error(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    config["env"]["env_id"] = "somewhere:Else-v0"
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(CBMError, match="Only tasks of the suite have conditions"):
        play_grid(run, CELLS, 1)
    for words, message in (
        (["nowhere"], "is not a run directory"),
        ([], "name at least one run"),
        ([str(finished_suite_run()), "--scales", "2"], "--scales must be"),
        ([str(finished_suite_run()), "--videos", "moon"], "unknown video source 'moon'"),
    ):
        assert main(["robustness", *words, "-o", str(tmp_path)]) == 1
        assert message in capsys.readouterr().err
