"""Imports point downward, and the suite knows nothing of PyTorch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import cbm

SOURCE = Path(cbm.__file__).parent
# From the bottom up; a module may import from its own layer and from those before it.
LAYERS = [
    {"errors", "system"},
    {"registry", "schema", "types"},
    {"learning"},
    {"replay", "objectives", "envs"},
    {"agents"},
    {"config"},
    {"runs"},
    {"evaluation"},
    {"analysis"},
    {"training", "report"},
    {"studies"},
    {"bench"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def parts() -> list[str]:
    return sorted(
        {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")} - {"__init__"}
    )


def imports(path: Path) -> set[str]:
    """The parts of the package that a file imports when it runs, also inside functions; not for the type checker."""
    tree, found = ast.parse(path.read_text()), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("cbm.")}
    return found & set(LEVEL)


def test_every_part_has_a_layer():
    assert set(parts()) == set(LEVEL)


@pytest.mark.parametrize("part", parts())
def test_imports_point_downward(part):
    files = [SOURCE / f"{part}.py"] if (SOURCE / f"{part}.py").exists() else list((SOURCE / part).rglob("*.py"))
    for file in files:
        above = {name for name in imports(file) if LEVEL[name] > LEVEL[part]}
        assert not above, f"{file.relative_to(SOURCE)} imports {above} from above"


@pytest.mark.parametrize("part", ["analysis", "report"])
def test_analysis_and_report_read_run_directories_and_never_the_training_loop(part):
    for file in (SOURCE / part).rglob("*.py"):
        assert not imports(file) & {"training", "cli"}


def test_the_suite_does_not_import_pytorch():
    script = "import sys, cbm; cbm.make_env('cartpole-swingup', 'easy').reset(seed=0); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_reports_need_no_module_that_only_unix_has():
    """So that `cbm report` can start on Windows."""
    script = """
import sys
sys.modules |= dict.fromkeys(["fcntl", "grp", "pwd", "resource", "termios"])
import cbm.cli.report, cbm.report.page, cbm.report.server
"""
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
