"""A run that somebody else made: none of its files is run, and none of its links is followed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from cbm.errors import CBMError
from cbm.runs.trust import check_trusted
from cbm.system.current_folder import without_current_folder
from cbm.system.files import write_whole
from cbm.training import loop
from toy import TINY, finished_run, with_toy

# Modules that the verbs import, or that Python's own do.
MODULES = ("numpy", "mujoco", "torch", "gymnasium", "tyro", "safetensors", "matplotlib", "av", "toml", "socket", "csv")
SCRIPT = [str(Path(sys.executable).parent / "cbm")]
MODULE = [sys.executable, "-m", "cbm.cli"]


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A real run, with Python files in it that leave a mark when they are run."""
    run = Path(shutil.copytree(finished_run(), tmp_path / "run"))
    for name in MODULES:
        (run / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__)\nraise SystemExit(99)\n")
    return run


def in_folder(run: Path, program: list[str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [*program, *words]
    result = subprocess.run(command, cwd=run, env=with_toy(), capture_output=True, text=True, timeout=300)
    assert not (run.parent / "ran").exists(), (run.parent / "ran").read_text()
    return result


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (SCRIPT, ["eval", ".", "--episodes", "2", "--workers", "1", "--trust", "toy"]),
        (SCRIPT, ["record", ".", "-o", "film.mp4", "--trust", "toy"]),
        (SCRIPT, ["analyze", ".", "--only", "ch_index", "--trust", "toy"]),
        (SCRIPT, ["report", ".", "-o", "report.html"]),
        (MODULE, ["train", "--resume", ".", "--steps", "810", "--trust", "toy"]),
    ],
    ids=lambda value: value[0] if value not in (SCRIPT, MODULE) else "script" if value is SCRIPT else "module",
)
def test_no_verb_runs_what_lies_in_a_run(hostile: Path, program: list[str], words: list[str]) -> None:
    if words[0] == "train":
        config = json.loads((hostile / "config.json").read_text())
        config["training"]["eval_workers"] = 1
        (hostile / "config.json").write_text(json.dumps(config))
    result = in_folder(hostile, program, *words)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("launcher", ["local", pytest.param("ray", marks=pytest.mark.slow)])
def test_no_study_runs_what_lies_in_the_folder_it_is_started_from(hostile: Path, launcher: str) -> None:
    sizes = TINY | {"training.film": False, "training.total_steps": 20, "training.eval_workers": 1}
    lines = [f'"{name}" = {json.dumps(value)}' for name, value in sizes.items()]
    head = 'tasks = ["toy:PixelDot-v0"]\nmethods = ["drqv2"]\nseeds = 1\n\n[set]\n'
    (hostile / "mine.toml").write_text(head + "\n".join(lines) + "\n")
    result = in_folder(hostile, SCRIPT, "study", "run", "mine.toml", "--launcher", launcher)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("verb", ["eval", "train"])
def test_a_module_that_a_run_names_is_imported_only_if_the_user_says_so(hostile: Path, verb: str) -> None:
    config = json.loads((hostile / "config.json").read_text())
    config["env"]["env_id"] = "toml:PixelDot-v0"
    (hostile / "config.json").write_text(json.dumps(config))
    result = in_folder(hostile, SCRIPT, *(["train", "--resume", "."] if verb == "train" else [verb, "."]))
    assert result.returncode == 1
    assert "wants to import the Python module 'toml'" in result.stderr
    assert "--trust toml" in result.stderr
    assert "Traceback" not in result.stderr


def test_what_is_loaded_or_needs_no_module_is_trusted(tmp_path: Path) -> None:
    for env_id in (None, "CartPole-v1", "toy:PixelDot-v0"):
        check_trusted(env_id, tmp_path)
    with pytest.raises(CBMError, match="--trust evil"):
        check_trusted("evil:CartPole-v1", tmp_path)  # Gymnasium imports the module whatever the ID


def test_the_current_folder_is_left_off_the_path_unless_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = ["", str(tmp_path), "/elsewhere", f"{tmp_path}/."]
    for unset in ("", ":/elsewhere:"):  # an empty entry means the current folder, and hardly anybody means that
        monkeypatch.setenv("PYTHONPATH", unset)
        assert without_current_folder(path) == ["/elsewhere"]
    for asked in (".", str(tmp_path)):
        monkeypatch.setenv("PYTHONPATH", asked)
        assert without_current_folder(path) == [str(tmp_path), "/elsewhere", f"{tmp_path}/."]


SECRET = b"root:x:0:0:the content of a file that is none of the run's business"


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A run whose films, figures and records are links to a file outside of it."""
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "folder").mkdir()
    for name in ("other.mp4", "other.svg"):
        (tmp_path / "folder" / name).write_bytes(SECRET)
    run = Path(shutil.copytree(finished_run(), tmp_path / "runs" / "run"))
    (run / "figures").mkdir(exist_ok=True)
    for name in ("videos/a.mp4", "figures/a.png", "figures/b.svg", "figures/tsne.csv", "figures/tsne_frames.json"):
        (run / name).symlink_to(tmp_path / "secret")
    for name in ("ended.json", "timings.jsonl", "analysis.jsonl"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(tmp_path / "secret")
    return run


def test_no_page_shows_what_a_link_points_to(linked: Path, tmp_path: Path) -> None:
    from cbm.report.page import write_page
    from cbm.report.server import LiveData
    from cbm.runs.read import load_runs

    second = Path(shutil.copytree(finished_run(), tmp_path / "runs" / "second"))
    shutil.rmtree(second / "videos")
    (second / "videos").symlink_to(tmp_path / "folder")
    (second / "figures").symlink_to(tmp_path / "folder")
    (tmp_path / "runs" / "third").symlink_to(second)
    os.mkfifo(linked / "figures" / "fifo.svg")  # reading it would never end
    loaded = load_runs([tmp_path / "runs"])
    assert [run.name for run in loaded.runs] == ["run", "second"]
    reported = {problem.path.name for problem in loaded.problems}
    assert {
        "a.mp4",
        "a.png",
        "b.svg",
        "tsne.csv",
        "timings.jsonl",
        "videos",
        "figures",
        "fifo.svg",
        "third",
    } <= reported
    page = write_page(loaded, tmp_path / "page.html", "title", 10_000_000).path.read_text()
    assert SECRET.decode() not in page
    assert base64.b64encode(SECRET).decode()[:40] not in page
    board = LiveData([tmp_path / "runs"], "title")
    assert SECRET.decode() not in board.data()[0]
    assert not any(medium.path.is_symlink() for medium in board._media.values())


RECORDS = (".lock", "config.json", "ended.json", "evals.jsonl", "metrics.jsonl", "analysis.jsonl", "timings.jsonl")
REPLAY = ("replay/frames.npy", "replay/steps.npy", "replay/replay.json", "replay")
FOLDERS = ("checkpoint", "checkpoint/{newest}", "checkpoint/.000000810.7", "videos", "videos/best-000000810.mp4", "tb")


@pytest.mark.parametrize("place", RECORDS + REPLAY + FOLDERS)
def test_resume_writes_through_no_link(place: str, tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished_run(), tmp_path / "run"))
    path = run / place.format(newest=max(path.name for path in (run / "checkpoint").iterdir()))
    target = tmp_path / "elsewhere"
    if path.exists():
        shutil.move(path, target)
    else:
        target.mkdir() if place == "checkpoint/.000000810.7" else target.write_bytes(SECRET)
    path.symlink_to(target)
    before = contents(target)
    with contextlib.suppress(CBMError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loop.resume(run, total_steps=810, quiet=True)
    assert contents(target) == before


def contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(inner for inner in path.rglob("*") if inner.is_file())
    return {str(file.relative_to(path.parent)): file.read_bytes() for file in files} | {"": str(path.is_dir()).encode()}


def test_a_whole_file_replaces_a_link_and_a_device_is_only_written_to(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "own")
    write_whole(tmp_path / "link", b"run's", tmp_path)  # of a run: the link goes, its target stays
    assert ((tmp_path / "own").read_text(), (tmp_path / "link").is_symlink()) == ("old", False)
    (tmp_path / "mine").symlink_to(tmp_path / "own")
    write_whole(tmp_path / "mine", b"user's")  # named by the user: the target is what is meant
    assert ((tmp_path / "own").read_text(), (tmp_path / "mine").is_symlink()) == ("user's", True)
    write_whole(Path("/dev/null"), b"gone")
    assert Path("/dev/null").is_char_device()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
