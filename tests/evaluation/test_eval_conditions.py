"""`cbm eval` and `cbm record` in conditions that the agent was not trained in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cbm.cli import main
from cbm.config import read_config
from cbm.errors import CBMError
from cbm.evaluation.evaluate import evaluate, in_conditions
from cbm.system.jsonl import read_lines
from toy import finished_run, finished_suite_run


def played(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["eval", str(finished_suite_run()), "--episodes", "2", "--workers", "0", *words]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    """A folder with two training and two unseen clips of one colour each."""
    for index, name in enumerate(("train/red", "train/green", "unseen/blue", "unseen/grey")):
        folder = tmp_path / "videos" / name
        folder.mkdir(parents=True)
        for frame in range(3):
            Image.fromarray(np.full((40, 60, 3), 40 + 50 * index, np.uint8)).save(folder / f"{frame}.png")
    return tmp_path / "videos"


def test_nothing_said_is_as_in_training(capsys: pytest.CaptureFixture[str]) -> None:
    last = read_lines(finished_suite_run() / "evals.jsonl")[-1]
    assert played(capsys)["returns"] == last["train"]["returns"]
    for words in (["--videos", "unseen"], ["--split", "unseen"], ["--videos", "unseen", "--split", "unseen"]):
        assert played(capsys, *words)["returns"] == last["unseen"]["returns"]


def test_another_distraction_source_and_motion(capsys: pytest.CaptureFixture[str], videos: Path) -> None:
    usual = played(capsys)
    none = played(capsys, "--distraction", "none")
    assert set(none["backgrounds"]) == {"none"}
    assert none["conditions"]["task_kwargs"] == {"time_limit": 0.8}  # the task stays what it was
    assert none["lengths"] == usual["lengths"] == [10, 10]
    seen = played(capsys, "--videos", str(videos), "--split", "unseen")
    assert {Path(name).name for name in seen["backgrounds"]} <= {"blue", "grey"}
    assert seen["conditions"]["distraction"] == "easy"
    camera = played(capsys, "--distraction", "camera", "--camera-scale", "0.9", "--dynamic")
    assert (camera["conditions"]["camera_scale"], camera["conditions"]["dynamic"]) == (0.9, True)
    assert camera["returns"] != none["returns"]


def test_conditions_begin_anew_with_a_distraction_and_are_changed_without_one() -> None:
    config = read_config(finished_suite_run() / "config.json")
    config = in_conditions(config, {"scale": 0.7, "num_videos": 2})
    assert (config.env.distraction, config.env.scale, config.env.num_videos) == ("easy", 0.7, 2)
    changed = in_conditions(config, {"distraction": "camera"})
    assert (changed.env.scale, changed.env.num_videos) == (None, None)
    assert changed.agent == config.agent
    assert changed.env.size == config.env.size


@pytest.mark.parametrize(
    ("conditions", "split", "message"),
    [
        ({"distraction": "fog"}, "train", "unknown distraction 'fog'"),
        ({"distraction": "camera"}, "unseen", "shows no videos"),
        ({"distraction": "background", "scale": 0.2}, "train", "scale does nothing"),
        ({"camera_scale": 3.0}, "train", "camera_scale must be"),
        ({"colour_scale": 0.1}, "train", "Did you mean 'color_scale'"),
        ({"videos": "./nowhere"}, "train", "nowhere"),
    ],
)
def test_what_cannot_be_played_is_said_at_once(conditions: dict[str, Any], split: str, message: str) -> None:
    with pytest.raises(CBMError, match=message):
        evaluate(finished_suite_run(), 1, split, conditions=conditions)


def test_options_that_contradict_or_do_not_apply(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(finished_suite_run()), "--videos", "unseen", "--split", "train"]) == 1
    assert "contradict each other" in capsys.readouterr().err
    with pytest.raises(CBMError, match="dynamic: works only with tasks of the suite"):
        evaluate(finished_run(), 1, conditions={"dynamic": True})


def test_a_film_in_other_conditions_is_the_episode_of_eval(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = played(capsys, "--distraction", "color", "--scale", "0.6")
    words = ["--distraction", "color", "--scale", "0.6", "--episode", "1", "-o", str(tmp_path / "film.mp4")]
    assert main(["record", str(finished_suite_run()), *words]) == 0
    assert f"return {found['returns'][1]:.1f} in 10 agent steps" in capsys.readouterr().out
