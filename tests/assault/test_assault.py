"""A small part of `make assault`, in a process of its own: it forks, which a process with threads should not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_few_tries_of_each_attack_are_held() -> None:
    words = ["--kills", "2", "--damages", "8", "--words", "40", "--requests", "200"]
    command = [sys.executable, str(Path(__file__).parent / "run.py"), *words]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "| a wrong command line: one clear error | 40 | 40 |" in result.stdout
