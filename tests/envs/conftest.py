from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cbm.envs.make import make_env


@pytest.fixture
def make() -> Iterator[Callable[..., Any]]:
    """`make_env`, with everything that a test has made closed after it."""
    made = []

    def make_and_remember(*args: Any, **options: Any) -> Any:
        made.append(make_env(*args, **options))
        return made[-1]

    yield make_and_remember
    for env in made:
        env.close()


@pytest.fixture
def stripes(tmp_path: Path) -> str:
    """A folder source of tiny clips: 3 training videos of 7 frames, 2 unseen ones; frame i of any is i * 30 grey."""
    for split, number in (("train", 3), ("unseen", 2)):
        for video in range(number):
            folder = tmp_path / "clips" / split / f"{split}-{video}"
            folder.mkdir(parents=True)
            for frame in range(7):
                image = np.full((16, 16, 3), frame * 30, np.uint8)
                Image.fromarray(image).save(folder / f"{frame:03d}.png")
    return str(tmp_path / "clips")


@pytest.fixture
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a script in a fresh interpreter."""

    def run(script: str, *prefix: str, **env: str) -> subprocess.CompletedProcess[str]:
        import os

        command = [*prefix, sys.executable, "-c", script]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env}, timeout=300)

    return run
