"""A small part of `make assault`, in a process of its own: it forks, which a process with threads should not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(1_800)
def test_a_few_tries_of_each_attack_are_held() -> None:
    words = ["--kills", "1", "--damages", "5", "--words", "25", "--hostile", "6", "--requests", "100"]
    command = [sys.executable, str(Path(__file__).parent / "run.py"), *words]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "| a wrong command line: one clear error | 25 | 25 |" in result.stdout
