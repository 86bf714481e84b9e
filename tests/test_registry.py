"""Agents, objectives and distractions of other packages: the examples of docs/, and packages that are wrong."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

from cbm.errors import CBMError
from cbm.objectives import ObjectiveEntry
from cbm.registry import Registry, installed_packages
from toy import cbm, tiny_options

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"


def package(folder: Path, name: str, points: dict[str, dict[str, str]], version: str = "1.2") -> None:
    """What an installer writes beside the modules of a package."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        line for group, names in points.items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in names.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for packages on the path of this process and of those that it starts."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])))
    return folder


def install(name: str, site: Path) -> None:
    """An example of docs/ as pip would leave it."""
    project = tomllib.loads((EXAMPLES / name / "pyproject.toml").read_text())["project"]
    package(site, project["name"], project["entry-points"], project["version"])
    shutil.copy(EXAMPLES / name / f"{name}.py", site)


@pytest.fixture
def example(site: Path) -> None:
    install("reward_objective", site)


def registry() -> Registry[ObjectiveEntry]:
    return Registry("cbm.objectives", ObjectiveEntry, {})


@pytest.mark.usefixtures("example")
def test_the_example_trains_resumes_and_is_evaluated(tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = tiny_options("drqv2+reward", objective__hidden=48, training__eval_workers=1, training__total_steps=300)
    for words in (["train", *options, "--out", run], ["train", "--resume", run, "--steps", "500"]):
        process = cbm(*words)
        output, _ = process.communicate(timeout=240)
        assert process.returncode == 0, output
    config = json.loads((run / "config.json").read_text())
    assert config["objective"] == {"hidden": 48}
    assert config["provenance"]["versions"]["reward-objective"] == "0.1.0"
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    updates = [line for line in lines if "loss/reward" in line]
    assert updates[-1]["env_step"] > 400
    assert updates[-1]["loss/reward"] < updates[0]["loss/reward"]
    evaluation = cbm("eval", run, "--episodes", "2")
    output, _ = evaluation.communicate(timeout=120)
    assert evaluation.returncode == 0, output


@pytest.mark.usefixtures("example")
def test_its_module_may_be_imported_first() -> None:
    """It imports our registry, which then has to find it half imported."""
    script = (
        "import warnings; warnings.simplefilter('error')\n"
        "import reward_objective, cbm.objectives\n"
        "assert cbm.objectives.OBJECTIVES['reward'] is reward_objective.ENTRY\n"
        "from cbm.agents import agent_names; assert 'drq+reward' in agent_names()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_distraction_of_another_package_is_one_among_ours(site: Path, tmp_path: Path) -> None:
    install("dusk_distraction", site)
    package(site, "broken-one", {"cbm.distractions": {"broken": "no_such_module:Broken"}})
    package(site, "wrong-one", {"cbm.distractions": {"wrong": "collections:OrderedDict"}})
    script = (
        "import numpy as np, cbm\n"
        "from cbm.config import EnvConfig\nfrom cbm.errors import CBMError\n"
        "from cbm.registry import installed_packages\n"
        "def first(distraction, **options):\n"
        "    env = cbm.make_env('walker-walk', distraction, size=32, **options)\n"
        "    return env.reset(seed=0)[0].astype(int)\n"
        "assert first('dusk', scale=0.9).mean() < first('none').mean() - 1\n"
        "assert (first('background+dusk', scale=0.0) == first('background')).all()\n"
        "assert EnvConfig(distraction='background+dusk').splits == ('train', 'unseen')\n"
        "assert EnvConfig(distraction='dusk').splits == ('train',)\n"
        "assert 'dusk-distraction' in installed_packages()\n"
        "for name in ('dask', 'broken', 'camera+wrong'):\n"
        "    try:\n        first(name)\n    except CBMError as error:\n        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    mistyped, broken, wrong = done.stdout.splitlines()
    assert "unknown distraction 'dask'. Did you mean 'dusk'?" in mistyped
    assert all(name in mistyped for name in ("background, camera, color", "broken", "dusk", "wrong"))
    assert "'broken' of the package broken-one 1.2 (cbm.distractions: no_such_module:Broken) does not load" in broken
    assert "must be a subclass of Distraction, not <class 'collections.OrderedDict'>" in wrong
    train = cbm("train", "--distraction", "camera+dusk", "--camera-scale", "0.2", "--print-config")
    output, _ = train.communicate(timeout=120)
    assert train.returncode == 0, output
    assert json.loads(output)["env"]["distraction"] == "camera+dusk"


def test_an_agent_of_another_package_carries_every_objective(site: Path) -> None:
    package(site, "my-agents", {"cbm.agents": {"mine": "my_agents:MINE"}})
    (site / "my_agents.py").write_text(
        "from cbm.agents import AgentEntry\n"
        "from cbm.agents.drqv2 import DrQv2, DrQv2Config\n"
        "MINE = AgentEntry(DrQv2Config, DrQv2)\n"
    )
    script = (
        "from cbm.agents import Setup, agent_names, make_agent\n"
        "from cbm.config import from_json, make_config, to_json\n"
        "assert {'mine', 'mine+cbm', 'mine+dbc'} <= set(agent_names())\n"
        "config = make_config('mine+cbm', preset='laptop'); assert from_json(to_json(config)) == config\n"
        "assert config.agent.batch_size == 64\n"
        "make_agent('mine+cbm', Setup((9, 64, 64), 1), config.agent, config.objective)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_package_that_does_not_load_is_in_nobodys_way_until_it_is_asked_for(site: Path) -> None:
    package(site, "broken-one", {"cbm.objectives": {"broken": "no_such_module:ENTRY"}})
    table = registry()
    assert list(table) == ["broken"]
    assert list(installed_packages()) == ["broken-one"]
    with pytest.raises(CBMError, match=r"'broken' of the package broken-one 1\.2 .*does not load: ModuleNotFoundError"):
        table["broken"]


def test_an_entry_of_the_wrong_kind_is_refused(site: Path) -> None:
    package(site, "wrong-kind", {"cbm.objectives": {"wrong": "collections:OrderedDict"}})
    with pytest.raises(CBMError, match="must be of type ObjectiveEntry, not type"):
        registry()["wrong"]


def test_a_name_of_ours_cannot_be_taken(site: Path) -> None:
    package(site, "usurper", {"cbm.objectives": {"cbm": "collections:OrderedDict"}})
    own = ObjectiveEntry(dict, dict)
    with pytest.warns(UserWarning, match=r"the package usurper 1\.2 offers 'cbm' .* taken"):
        table = Registry("cbm.objectives", ObjectiveEntry, {"cbm": own})
    assert table["cbm"] is own


def test_without_such_packages_nothing_is_said() -> None:
    if importlib.metadata.entry_points(group="cbm.objectives"):
        pytest.skip("packages with objectives are installed here")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not registry()
