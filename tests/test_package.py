"""The wheel and the source archive: built, installed where this repository is not, and used.

On the Python that runs the tests the packages we depend on are borrowed, so that no network is needed. On every
supported Python that is on the machine they are installed too, which takes minutes (`slow`); a newer one is refused.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

from cbm import __version__
from cbm.cli import main

ROOT = Path(__file__).parents[1]
TINY = {
    "agent.batch_size": 8,
    "agent.conv_channels": 4,
    "agent.hidden_dim": 16,
    "training.seed_steps": 160,
    "training.eval_every": 400,
    "training.eval_episodes": 1,
    "training.eval_workers": 0,
    "training.analyze_every": 0,
    "training.replay_capacity": 1_000,
    "training.threads": 1,
    "training.film": "false",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source archive, and with the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    run(command, folder, 120)
    return folder


def wheel(folder: Path) -> Path:
    (found,) = folder.glob("*.whl")
    return found


def run(command: list[str], folder: Path, seconds: float, **environment: str) -> str:
    """In `folder`, where no source of ours is in sight; what it printed."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=folder, env=known | environment, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_the_package_and_nothing_else(built):
    with zipfile.ZipFile(wheel(built)) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if name.endswith("METADATA")]
        facts = Parser().parsestr(archive.read(metadata).decode())
    ours = {str(path.relative_to(ROOT / "src")) for path in tracked(ROOT / "src")}
    assert {name for name in names if ".dist-info/" not in name} == ours
    assert "cbm/py.typed" in ours
    assert "cbm/report/static/page.html" in ours
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert facts["Version"] == __version__
    assert "Typing :: Typed" in facts.get_all("Classifier")
    assert facts["License-Expression"] == "MIT"


def tracked(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_the_source_archive_can_be_tested_and_built_again(built):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {"pyproject.toml", "Makefile", "constraints.txt", "LICENSE", "CITATION.cff", "SECURITY.md"} <= names
    assert {"tests/test_package.py", "docs/deploy.md", "src/cbm/cli/train.py"} <= names
    assert archive.stat().st_size < 4_000_000


def test_the_wheel_works_in_a_clean_environment(built, tmp_path):
    """It borrows what is installed here, but not this package: a line in a .pth file leads there."""
    venv.create(tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-index", "--no-deps"]
    run([*pip, str(wheel(built))], tmp_path, 120)
    (home,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (home / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    use(python, tmp_path, home)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12"])
def test_the_wheel_works_with_what_it_asks_for_on_every_python(version, built, tmp_path):
    """With everything from the package index, as a user would install it."""
    found = find_python(version)
    if found is None:
        pytest.skip(f"no Python {version} here")
    run([found, "-m", "venv", "env"], tmp_path, 120)
    python = tmp_path / "env" / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt")]
    run([*pip, "torch"], tmp_path, 1800)
    run([*pip, f"{wheel(built)}[train]"], tmp_path, 1800)
    use(python, tmp_path, tmp_path / "env")


@pytest.mark.parametrize("version", ["3.13", "3.14"])
def test_a_python_that_is_too_new_is_refused_with_the_reason(version, built, tmp_path):
    """A package that we need has no wheel for it (pyproject.toml says which)."""
    found = find_python(version)
    if found is None:
        pytest.skip(f"no Python {version} here")
    run([found, "-m", "venv", "env"], tmp_path, 120)
    pip = [str(tmp_path / "env" / "bin" / "python"), "-m", "pip", "install", "--no-index", "--no-deps"]
    done = subprocess.run([*pip, str(wheel(built))], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "requires a different Python" in done.stderr


def find_python(version: str) -> str | None:
    """`python3.12` on the path, or one that pyenv has."""
    pyenv = Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
    for candidate in filter(None, [shutil.which(f"python{version}"), *map(str, pyenv)]):
        question = [candidate, "-c", "import venv, sys; print(sys.version)"]
        asked = subprocess.run(question, capture_output=True, text=True)
        if asked.returncode == 0 and asked.stdout.startswith(version):  # a shim of pyenv may lead nowhere
            return candidate
    return None


def use(python: Path, folder: Path, home: Path) -> None:
    """What a user does first: doctor, preview, a short training run."""
    cbm = str(python.parent / "cbm")
    where = run([str(python), "-c", "import cbm; print(cbm.__file__)"], folder, 60).strip()
    assert Path(where).is_relative_to(home), where
    assert run([cbm, "--version"], folder, 60).strip() == f"cbm-rl {__version__}"
    assert json.loads(run([cbm, "doctor", "--json"], folder, 120))["can_train"]
    run([cbm, "preview", "--task", "cartpole-swingup", "--episodes", "1", "-o", "sheet.png"], folder, 120)
    assert (folder / "sheet.png").stat().st_size > 5_000
    settings = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    options = ["--task", "cartpole-swingup", "--distraction", "easy", "--preset", "laptop", "--steps", "400"]
    run([cbm, "train", *options, *settings, "--out", "run"], folder, 300, OMP_NUM_THREADS="1")
    last = json.loads((folder / "run" / "evals.jsonl").read_text().splitlines()[-1])
    assert last["env_step"] == 400
    assert len(last["unseen"]["returns"]) == 1


def test_the_version_is_the_same_everywhere(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"cbm-rl {__version__}\n"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__


def test_the_citation_names_the_software_and_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()  # what the format requires
    paper = citation["preferred-citation"]
    assert {"type", "title", "authors"} <= paper.keys()
    assert [author["family-names"] for author in paper["authors"]] == ["Liu", "Zhou", "Yang", "Wang"]
    assert paper["title"] in " ".join((ROOT / "README.md").read_text().replace("*", "").split())


def test_issue_templates_are_forms_that_can_be_filled_in():
    forms = [path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
    assert len(forms) >= 3
    for path in forms:
        form = yaml.safe_load(path.read_text())
        assert {"name", "description", "body"} <= form.keys()
        ids = [field["id"] for field in form["body"]]
        assert len(ids) == len(set(ids))
        assert all(field["attributes"]["label"] for field in form["body"])


def completions(script: Path, line: str) -> list[str]:
    """What bash offers when Tab is pressed at the end of `line`."""
    press = """
        source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        "$(complete -p cbm | sed 's/.*-F \\([^ ]*\\).*/\\1/')"; printf '%s\\n' "${COMPREPLY[@]}"
    """
    words = ["bash", "-c", press, "bash", str(script), *re.split(" ", line)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


def test_tab_completes_verbs_options_and_choices_in_bash(tmp_path, capsys):
    assert main(["--print-completion", "bash"]) == 0
    (script := tmp_path / "cbm.bash").write_text(capsys.readouterr().out)
    assert completions(script, "cbm exp") == ["export"]
    assert completions(script, "cbm eval run --videos") == ["--videos"]
    assert {"train", "unseen"} <= set(completions(script, "cbm eval run --split "))
    assert "--num-videos" in completions(script, "cbm train --")


def test_completion_for_other_shells(capsys):
    assert main(["--print-completion", "zsh"]) == 0
    assert "#compdef cbm" in capsys.readouterr().out
    assert main(["--print-completion", "fish"]) == 2
    assert "one of: bash, zsh" in capsys.readouterr().err
