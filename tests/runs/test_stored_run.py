"""A run that an earlier version of the package wrote is read and resumed as that version would have resumed it.

`tests/stored/run.tar.xz` holds `run/`, a run of `drqv2+cbm` on the toy task with its checkpoint at environment step
280, and `after/`, what the version that wrote it made of it until step 400: its records, its last tensors, and the
processor and PyTorch on which it did. There all bits must be equal; elsewhere sums are taken in another order.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import toy  # noqa: F401 - the module of the run's environment, which is trusted because it is loaded
from cbm.config import read_config
from cbm.runs.load import load_agent
from cbm.system.jsonl import read_lines
from cbm.training import loop

ARCHIVE = Path(__file__).parents[1] / "stored" / "run.tar.xz"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def this_machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else None,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
    }


def tensors(run: Path, step: int) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoint" / f"{step:09d}" / "tensors.safetensors")


def numbers(lines: list[dict[str, Any]]) -> np.ndarray:
    """All numbers in the order of the file."""

    def leaves(value: Any) -> list[float]:
        if isinstance(value, dict):
            return [number for item in value.values() for number in leaves(item)]
        if isinstance(value, list):
            return [number for item in value for number in leaves(item)]
        return [] if isinstance(value, str) else [float(value)]

    return np.array(leaves(lines))


def close(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> bool:
    """Equal random states, and weights and moments of Adam as near as another order of sums leaves them.

    Measured with PyTorch's code for AVX2 and for no such instructions against that for AVX-512: within 2e-5, and 2e-4
    of a value.
    """
    return ours.keys() == theirs.keys() and all(
        ours[name].equal(tensor)
        if tensor.dtype == torch.uint8
        else torch.allclose(ours[name].double(), tensor.double(), rtol=0.01, atol=1e-4)
        for name, tensor in theirs.items()
    )


def test_a_stored_run_is_resumed_as_the_version_that_wrote_it_did(stored: Path) -> None:
    run, after = stored / "run", stored / "after"
    assert loop.resume(run, total_steps=400, quiet=True).at.env_step == 400
    ours, theirs = tensors(run, 400), load_file(after / "tensors.safetensors")
    assert close(ours, theirs)
    for name in ("metrics.jsonl", "evals.jsonl"):
        lines, expected = read_lines(run / name), read_lines(after / name)
        assert [list(line) for line in lines] == [list(line) for line in expected]
        np.testing.assert_allclose(numbers(lines), numbers(expected), rtol=1e-4, atol=1e-5)
    if json.loads((after / "machine.json").read_text()) == this_machine():
        assert all(tensor.equal(ours[name]) for name, tensor in theirs.items())
        for name in ("metrics.jsonl", "evals.jsonl"):
            assert (run / name).read_bytes() == (after / name).read_bytes()


def test_the_comparison_notices_one_update_less(stored: Path) -> None:
    loop.resume(stored / "run", total_steps=398, quiet=True)
    assert not close(tensors(stored / "run", 398), load_file(stored / "after" / "tensors.safetensors"))


def test_a_stored_run_is_read_and_its_agent_acts(stored: Path) -> None:
    config = read_config(stored / "run" / "config.json")
    assert (config.agent_name, config.training.total_steps, config.agent.feature_dim) == ("drqv2+cbm", 280, 16)
    agent = load_agent(stored / "run")
    action = agent.act(np.zeros((9, 24, 24), np.uint8), 280, explore=False)
    assert action.shape == (1,)
    assert np.abs(action).max() <= 1
