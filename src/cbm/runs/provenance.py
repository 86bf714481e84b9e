"""Which code and which machine a run came from."""

from __future__ import annotations

import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from cbm.registry import installed_packages

_PACKAGES = ("cbm-rl", "torch", "numpy", "gymnasium", "mujoco", "dm_control", "safetensors")
RECORDS_VERSION = 1  # version of the files in a run directory; readers refuse newer ones


def provenance() -> dict[str, Any]:
    """Versions, git revision, command line and time, for config.json."""
    return {
        "records": RECORDS_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: _version(name) for name in _PACKAGES} | installed_packages(),
        "git": _revision(),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _revision() -> str | None:
    """The commit of this source tree, with a `+` if tracked files were changed; None outside of a repository."""
    here = Path(__file__).resolve()

    def git(*args: str) -> str:
        command = ["git", "-C", str(here.parent), *args]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)  # an installed copy may be inside someone else's repository
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None
