"""Freed memory stays with the process."""

from __future__ import annotations

import subprocess
import sys

_FAULTS = """
import resource, sys, torch
from cbm.learning.memory import keep_freed_memory

torch.set_num_threads(1)
if sys.argv[1] == "keep":
    assert keep_freed_memory()

def fill():
    for megabytes in (4, 8, 40, 100):
        torch.ones(megabytes << 18)

fill()
fill()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    fill()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", _FAULTS, how], check=True, capture_output=True, text=True)
    return int(done.stdout)


def test_no_page_is_mapped_twice():
    assert faults("let go") > 10_000  # 5 x 140 MB in pages of 4 kB, where nothing is arranged
    assert faults("keep") < 100
