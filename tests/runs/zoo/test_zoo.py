"""The zoo: agents that say how they were made, play as they did, and are refused where a file is not what it was."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import tyro

import cbm
import toy
from cbm.analysis.analyze import analyze
from cbm.cli import main
from cbm.cli.train import TrainArgs, expand_overrides, run_config
from cbm.config import read_config, to_json
from cbm.errors import CBMError
from cbm.evaluation.evaluate import evaluate
from cbm.evaluation.record import film
from cbm.runs.load import load_run
from cbm.runs.read import load_runs
from cbm.runs.zoo.add import add, train_command
from cbm.runs.zoo.entries import folders, list_entries, open_entry, verify
from cbm.system.jsonl import read_lines
from cbm.training.loop import resume
from hub_server import Hub
from toy import finished_run

NAME = "PixelDot-v0/drqv2+cbm"


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A zoo with one agent."""
    monkeypatch.setenv("CBM_ZOO", str(tmp_path / "zoo"))
    monkeypatch.setenv("CBM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("cbm.runs.zoo.entries.__file__", str(tmp_path / "a/b/c/d/entries.py"))  # no clone
    add(finished_run())
    return tmp_path / "zoo"


def test_an_entry_has_weights_without_optimizers_records_and_its_origin(zoo: Path) -> None:
    entry = open_entry(NAME)
    last = read_lines(finished_run() / "evals.jsonl")[-1]
    assert entry.root == zoo / NAME
    assert list(entry.about.returns["train"]) == last["train"]["returns"]
    assert {"config.json", "evals.jsonl", "metrics.jsonl", "analysis.jsonl"} <= set(entry.about.files)
    state = json.loads((entry.root / "checkpoint/000000800/state.json").read_text())
    assert set(state) == {"config", "shapes", "agent"}
    assert "optimizers" not in state["agent"]
    assert "critic" in state["agent"]["modules"]
    assert "target_critic" not in state["agent"]["modules"]  # only learning needs it
    weights = "checkpoint/000000800/tensors.safetensors"
    assert (entry.root / weights).stat().st_size < (finished_run() / weights).stat().st_size / 2
    config = json.loads((entry.root / "config.json").read_text())
    assert entry.about.made.seed == config["seed"]
    assert entry.about.made.commit == config["provenance"]["git"]
    assert not any(str(word).startswith("/") for word in config["provenance"]["command"])


def test_the_stored_returns_are_played_again_bit_for_bit(zoo: Path) -> None:
    """In a folder of its own and without the run that it was made from."""
    found = evaluate(f"zoo:{NAME}", 3, workers=0)
    assert found["returns"][:2] == read_lines(finished_run() / "evals.jsonl")[-1]["train"]["returns"]
    assert found["stored"]["reproduced"] is True
    assert found["made"]["command"].startswith("cbm train --env toy:PixelDot-v0 --agent drqv2+cbm")
    path = zoo / NAME / "entry.json"
    about = json.loads(path.read_text())
    about["returns"]["train"][1] += 1e-9
    path.write_text(json.dumps(about))
    assert evaluate(f"zoo:{NAME}", 2, workers=0)["stored"]["reproduced"] is False


def test_a_run_directory_and_a_name_are_the_same_to_all_who_take_one(zoo: Path, tmp_path: Path) -> None:
    obs = np.random.default_rng(0).integers(0, 256, (9, 24, 24), dtype=np.uint8)
    agents = [cbm.load_agent(run) for run in (finished_run(), f"zoo:{NAME}", Path(f"zoo:{NAME}"), zoo / NAME)]
    first, *others = [agent.act(obs, 800, explore=False) for agent in agents]
    assert all(np.array_equal(first, other) for other in others)
    assert load_run(f"zoo:{NAME}")[0] == load_run(finished_run())[0]
    assert film([f"zoo:{NAME}"], tmp_path / "film.mp4")[0].total == open_entry(NAME).about.returns["train"][0]
    runs = load_runs([f"zoo:{NAME}", "zoo:nobody"])
    assert [run.status.state for run in runs.runs] == ["complete"]
    assert "Choose from: PixelDot" in runs.problems[0].what
    assert main(["plot", f"zoo:{NAME}", "-o", str(tmp_path / "curve.png")]) == 0


def test_an_analysis_leaves_the_entry_as_it_is(zoo: Path, tmp_path: Path) -> None:
    report = analyze([Path(f"zoo:{NAME}")], tmp_path / "analysis", ["ch_index"])
    assert [path.parent for path in report.written] == [tmp_path / "analysis/zoo-PixelDot-v0-drqv2+cbm-s0"] * 3
    verify(zoo / NAME)


def test_a_foreign_module_is_not_imported_without_trust(zoo: Path) -> None:
    code = f"from cbm.evaluation.evaluate import evaluate; evaluate('zoo:{NAME}', 1)"
    path = f"{Path(cbm.__file__).parents[1]}:{Path(toy.__file__).parent}"
    environment = os.environ | {"PYTHONPATH": path}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "wants to import the Python module 'toy'" in ended.stderr


def test_the_command_trains_the_same_again() -> None:
    config = read_config(finished_run() / "config.json")
    words = shlex.split(train_command(config))
    assert words[:2] == ["cbm", "train"]
    again = run_config(tyro.cli(TrainArgs, args=expand_overrides(words[2:])))
    ours, theirs = ({**to_json(each)} for each in (config, again))
    for each in (ours, theirs):
        each["training"] = {
            k: v
            for k, v in each["training"].items()
            if k not in ("device", "threads", "eval_workers", "checkpoint_every")
        }
    assert ours == theirs


def test_the_command_of_odd_conditions_is_read_back() -> None:
    words = ["--task", "finger-spin", "--agent", "drq", "--preset", "laptop", "--distraction", "background+camera"]
    words += ["--camera-scale", "0.25", "--video-names", "a", "b", "--task-kwargs", "time_limit=5", "--dynamic"]
    config = run_config(tyro.cli(TrainArgs, args=words))
    again = shlex.split(train_command(config))[2:]
    assert run_config(tyro.cli(TrainArgs, args=expand_overrides(again))) == config


def flip(name: str) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        data = bytearray((root / name).read_bytes())
        data[len(data) // 2] ^= 1
        (root / name).write_bytes(data)

    return damage


def rewrite(change: Callable[[dict], object]) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        about = json.loads((root / "entry.json").read_text())
        change(about)
        (root / "entry.json").write_text(json.dumps(about))

    return damage


def link(root: Path) -> None:
    (root / "evals.jsonl").rename(root.parent / "elsewhere")
    (root / "evals.jsonl").symlink_to(root.parent / "elsewhere")


def newer_checkpoint(root: Path) -> None:
    shutil.copytree(root / "checkpoint/000000800", root / "checkpoint/000000900")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip("config.json"), r"is damaged: config\.json does not match its SHA-256"),
        (flip("checkpoint/000000800/tensors.safetensors"), "tensors.safetensors does not match its SHA-256"),
        (lambda root: (root / "metrics.jsonl").unlink(), r"is damaged: metrics\.jsonl cannot be read \(No such file"),
        (
            lambda root: (root / "entry.json").write_text("{"),
            r"not a complete entry .* entry\.json is not JSON",
        ),
        (lambda root: (root / "agent.pkl").write_bytes(b"x"), r"holds agent\.pkl, which its entry\.json does not list"),
        (newer_checkpoint, "holds checkpoint/000000900/manifest.json"),
        (link, "links in a run are not followed"),
        (rewrite(lambda about: about.update(zoo=2)), "is an entry of version 2, but this cbm-rl reads up to 1. Type:"),
        (rewrite(lambda about: about.pop("zoo")), "does not describe an entry of the zoo"),
        (rewrite(lambda about: about.update(hooks=["x"])), "unknown setting 'hooks'"),
        (rewrite(lambda about: about["files"].update({"../../x": about["files"]["config.json"]})), "does not belong"),
        (rewrite(lambda about: about["files"].update({"agent.py": about["files"]["config.json"]})), "does not belong"),
        (rewrite(lambda about: about["files"].pop("config.json")), r"lists no config\.json"),
        (rewrite(lambda about: about.update(env_step="800")), "env_step must be"),
    ],
)
def test_what_is_damaged_foreign_or_newer_is_one_clear_error(
    zoo: Path, damage: Callable[[Path], None], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(zoo / NAME)
    for run in (f"zoo:{NAME}", zoo / NAME):
        with pytest.raises(CBMError, match=message):
            load_run(run)
    assert main(["zoo", "show", NAME]) == 1
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_names_and_places(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CBMError, match="already exists"):
        add(finished_run())
    with pytest.raises(CBMError, match="is an entry itself"):
        add(finished_run(), f"{NAME}/inner")
    for name in ("../x", "/x", "a/../b", "a b", "a/b/c/d", ".x"):
        with pytest.raises(CBMError, match="cannot be a name"):
            add(finished_run(), name)
    assert main(["zoo", "add", str(finished_run()), "--name", "mine"]) == 0
    add(f"zoo:{NAME}", "mine", replace=True)
    assert list(list_entries()) == [NAME, "mine"]
    assert sorted(path.name for path in zoo.iterdir()) == ["PixelDot-v0", "mine"]  # nothing left behind
    capsys.readouterr()
    assert main(["zoo", "list"]) == main(["zoo", "show", "mine"]) == 0
    printed = capsys.readouterr().out
    assert "cbm train --env toy:PixelDot-v0" in printed
    assert NAME in printed
    with pytest.raises(CBMError, match="Did you mean 'mine'"):
        load_run("zoo:mime")
    with pytest.raises(CBMError, match="no optimizers and no replay"):
        resume("zoo:mine")


def test_an_unfinished_run_has_no_returns_to_store(zoo: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished_run(), tmp_path / "run", ignore=shutil.ignore_patterns("replay")))
    lines = (run / "evals.jsonl").read_text().splitlines(keepends=True)
    (run / "evals.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(CBMError, match="no evaluation at its newest checkpoint"):
        add(run, "unfinished")


def test_where_entries_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CBM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CBM_ZOO", raising=False)
    clone = Path(cbm.__file__).parents[2] / "zoo"
    assert folders() == [clone, tmp_path / "cache/zoo"]
    monkeypatch.setenv("CBM_ZOO", str(tmp_path / "own"))
    assert folders() == [tmp_path / "own", clone]


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    yield server
    server.close()


def over_the_hub(hub: Hub, zoo: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`cbm zoo ...` in a process whose Hub is on this machine."""
    settings = {"HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_nobody", "HF_HOME": str(zoo.parent / "hf"), "CBM_ZOO": str(zoo)}
    settings |= {
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYTHONPATH": str(Path(cbm.__file__).parents[1]),
    }
    command = [sys.executable, "-m", "cbm.cli", "zoo", *words]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | settings)


def test_push_and_pull_through_a_hub_on_this_machine(zoo: Path, hub: Hub, tmp_path: Path) -> None:
    pushed = over_the_hub(hub, zoo, "push", NAME, "--repo", "somebody/agents")
    assert pushed.returncode == 0, pushed.stderr
    assert f"{hub.url}/somebody/agents/commit/" in pushed.stdout
    about = open_entry(NAME).about
    there = hub.repos["somebody/agents"]
    assert set(there) == {f"{NAME}/{file}" for file in ("entry.json", *about.files)}
    assert {hashlib.sha256(data).hexdigest() for data in hub.lfs.values()} == set(hub.lfs)  # the weights went by LFS
    assert len(hub.lfs) == 1

    other = tmp_path / "other"
    pulled = over_the_hub(hub, other, "pull", "--repo", "somebody/agents")
    assert pulled.returncode == 0, pulled.stderr
    assert verify(other / NAME) == about
    assert [path.name for path in other.iterdir()] == ["PixelDot-v0"]
    again = over_the_hub(hub, other, "pull", NAME, "--repo", "somebody/agents")
    assert "already exists" in again.stderr

    there[f"{NAME}/metrics.jsonl"] += b" "
    there["evil/entry.json"] = there[f"{NAME}/entry.json"].replace(b"config.json", b"../config.json")
    for name, message in ((NAME, "does not match its SHA-256"), ("evil", "lists no config.json")):
        refused = over_the_hub(hub, other, "pull", name, "--replace", "--repo", "somebody/agents")
        assert refused.returncode == 1
        assert message in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1
    assert verify(other / NAME) == about  # what was there has stayed
    missing = over_the_hub(hub, other, "pull", "--repo", "somebody/nothing")
    assert missing.returncode == 1
    assert missing.stderr.startswith("cbm zoo: could not pull from somebody/nothing")


SHIPPED = sorted((Path(__file__).parents[3] / "zoo").glob("*/*/entry.json"))


def test_agents_are_shipped() -> None:
    assert SHIPPED


@pytest.mark.parametrize("entry", SHIPPED, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_a_shipped_agent_is_whole_and_acts(entry: Path) -> None:
    assert verify(entry.parent).returns
    agent = cbm.load_agent(str(entry.parent))
    env = cbm.make_env(entry.parts[-3], "easy", split="unseen", size=64)
    actions = []
    for seed in range(2):  # an agent may keep to one bound for a while
        observation, _ = env.reset(seed=seed)
        for _ in range(20):
            actions.append(agent.act(observation))
            assert env.action_space.contains(actions[-1])
            observation, *_ = env.step(actions[-1])
    env.close()
    assert not np.allclose(actions, actions[0])  # other states, other actions
