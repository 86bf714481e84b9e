"""What `import cbm` offers: every name has an example, which runs, and loads only when it is used."""

from __future__ import annotations

import doctest
import functools
import inspect
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import cbm

NAMES = [name for name in cbm.__all__ if not name.startswith("_")]
ON_A_RUN = {"evaluate", "load_agent", "resume"}  # their examples use the run that the one of `train` makes


@pytest.fixture(scope="module", autouse=True)
def folder() -> Iterator[Path]:
    """Where the examples make their runs."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as there:
        os.chdir(there)
        yield Path(there)
        os.chdir(here)


@functools.cache
def report(name: str) -> tuple[int, str]:
    """How many lines the example of a public name has, and what is wrong with them."""
    said: list[str] = []
    text = inspect.getdoc(getattr(cbm, name)) or ""
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    return len(example.examples), "".join(said)


def test_the_names_are_these() -> None:
    assert set(NAMES) >= {
        *("make_env", "make_config", "EnvConfig", "train", "resume", "evaluate", "load_agent", "make_agent"),
        *("CBM", "CBMConfig", "Callback"),
    }
    assert set(NAMES) <= set(dir(cbm))
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        cbm.trian  # noqa: B018


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_every_name_runs(name: str, folder: Path) -> None:
    if name in ON_A_RUN:
        assert report("train")[1] == ""
    lines, wrong = report(name)
    assert wrong == ""
    assert lines > 1


def test_importing_is_light_and_loading_a_name_leaves_the_random_state_alone() -> None:
    script = """
        import random, sys, time
        import cbm
        heavy = {"torch", "mujoco", "dm_control", "matplotlib", "rich", "sklearn", "tensorboard", "PIL"}
        assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
        cbm.EnvConfig("cartpole-swingup", "easy")
        assert "torch" not in sys.modules
        random.seed(3)
        before = random.getstate()
        cbm.train
        assert "torch" in sys.modules
        assert random.getstate() == before
    """
    done = subprocess.run([sys.executable, "-c", inspect.cleandoc(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
