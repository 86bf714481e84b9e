"""Checkpoints that survive a crash at any moment: written aside, synced, renamed; the previous one is kept.

    checkpoint/000010000/   state.json  tensors.safetensors  manifest.json (size and SHA-256 of both)

No pickle: a checkpoint from a stranger can be loaded without running their code.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError

from cbm.errors import CBMError
from cbm.runs.directory import saved_steps
from cbm.runs.state_tree import pack, unpack
from cbm.system.files import aside, list_folder, make_folder, parse, read_file, remove, write_whole

_KEEP = 2


class NoGoodCheckpoint(CBMError):
    """There are checkpoints, and all of them are damaged."""


def save(directory: Path, env_step: int, state: dict[str, Any]) -> Path:
    """Write `state` as the checkpoint of `env_step` and drop all but the newest two."""
    skeleton, tensors = pack(state)
    contents = {
        "state.json": json.dumps(skeleton).encode(),
        "tensors.safetensors": safetensors.torch.save(tensors),
    }
    manifest = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in contents.items()
    }
    contents["manifest.json"] = json.dumps(manifest, indent=1).encode()

    make_folder(directory, directory.parent)
    final = directory / f"{env_step:09d}"
    with aside(final) as made:  # it may replace a damaged one that the run fell back from, or the same state
        made.mkdir()
        for name, data in contents.items():
            write_whole(made / name, data, made, sync=True)
    _sync_directory(directory)
    # Newer ones are damaged, or the run would have resumed from them.
    steps = saved_steps(directory)
    for step in [step for step in steps if step > env_step] + [step for step in steps if step <= env_step][:-_KEEP]:
        shutil.rmtree(directory / f"{step:09d}", ignore_errors=True)
    return final


def clear_unfinished(directory: Path) -> None:
    """Remove what a process left when it was killed while writing. Only for the process that holds the run's lock."""
    for entry in list_folder(directory, directory.parent):
        if re.fullmatch(r"\.[0-9]+\.[0-9]+", entry.name):
            remove(Path(entry.path))


def load_newest(directory: Path) -> tuple[int, dict[str, Any]] | None:
    """Environment step and state of the newest intact checkpoint; None if there never was one."""
    found = saved_steps(directory)
    for step in reversed(found):
        path = directory / f"{step:09d}"
        try:
            return step, _load(path, directory.parent)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError, RecursionError) as error:
            warnings.warn(f"the checkpoint {path} is damaged ({error}); trying the previous one", stacklevel=2)
    if found:
        raise NoGoodCheckpoint(
            f"none of the {len(found)} checkpoints in {directory} is intact. "
            f"Remove {directory} to start this run again from step 0."
        )
    return None


def _load(path: Path, root: Path) -> dict[str, Any]:
    manifest = parse(read_file(path / "manifest.json", root))
    contents = {}
    for name in ("state.json", "tensors.safetensors"):
        data = read_file(path / name, root)
        if hashlib.sha256(data).hexdigest() != manifest[name]["sha256"]:
            raise ValueError(f"{name} does not match its checksum")
        contents[name] = data
    return unpack(json.loads(contents["state.json"]), safetensors.torch.load(contents["tensors.safetensors"]))


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def random_state() -> dict[str, Any]:
    """Every global random generator that an agent or an environment may draw from."""
    state = {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 - code that draws from it must resume too
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Put the generators back to where `random_state` found them."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


def seed_everything(seed: int) -> None:
    """Seed the global generators at the start of a run."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    torch.manual_seed(seed)
