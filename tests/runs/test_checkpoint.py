"""Checkpoints: exact, atomic, and falling back when damaged."""

from __future__ import annotations

import random
import resource
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cbm.runs import checkpoint
from cbm.runs.checkpoint import NoGoodCheckpoint, load_newest, save
from cbm.runs.state_tree import pack, unpack


def test_a_state_comes_back_exactly() -> None:
    state = {
        "tensor": torch.randn(3, 4, dtype=torch.float64),
        "scalar": torch.tensor(7),
        "array": np.arange(5, dtype=np.uint8),
        "adam": {0: {"step": torch.tensor(3.0)}, 1: {}},
        "numbers": [1, 0.1 + 0.2, True, None, "text", 2**100],
        "tuple": (1, [2, (3,)]),
        "numpy": np.float32(0.1),
    }
    back = unpack(*pack(state))
    assert torch.equal(back["tensor"], state["tensor"])
    assert back["scalar"].shape == ()
    assert np.array_equal(back["array"], state["array"])
    assert list(back["adam"]) == [0, 1]
    assert back["numbers"] == state["numbers"]
    assert back["tuple"] == (1, [2, (3,)])
    assert np.float32(back["numpy"]) == state["numpy"]


def test_memory_order_survives_so_that_fused_adam_goes_on_exactly() -> None:
    def build() -> tuple[nn.Conv2d, torch.optim.Adam]:
        torch.manual_seed(0)
        conv = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
        return conv, torch.optim.Adam(conv.parameters(), lr=1e-2, fused=True)

    def steps(conv: nn.Conv2d, adam: torch.optim.Adam, seeds: range) -> None:
        for seed in seeds:
            torch.manual_seed(seed)
            images = torch.randn(4, 3, 9, 9).to(memory_format=torch.channels_last)
            adam.zero_grad()
            conv(images).square().mean().backward()
            adam.step()

    through, adam = build()
    steps(through, adam, range(5))
    skeleton, tensors = pack({"conv": through.state_dict(), "adam": adam.state_dict()})
    steps(through, adam, range(5, 10))

    resumed, adam = build()
    state = unpack(skeleton, tensors)
    resumed.load_state_dict(state["conv"])
    adam.load_state_dict(state["adam"])
    steps(resumed, adam, range(5, 10))
    assert torch.equal(through.weight, resumed.weight)


def test_what_cannot_be_stored_is_named() -> None:
    with pytest.raises(TypeError, match="agent/policy: cannot store a Linear"):
        pack({"agent": {"policy": nn.Linear(1, 1)}})


def test_random_generators_come_back(tmp_path: Path) -> None:
    save(tmp_path, 0, {"random": checkpoint.random_state()})
    first = (random.random(), np.random.rand(), torch.rand(()).item())  # noqa: NPY002 - the global one is under test
    loaded = load_newest(tmp_path)
    assert loaded is not None
    checkpoint.set_random_state(loaded[1]["random"])
    assert first == (random.random(), np.random.rand(), torch.rand(()).item())  # noqa: NPY002


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        save(tmp_path, step, {"x": step})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000020", "000000030"]
    assert load_newest(tmp_path) == (30, {"x": 30})


def test_there_is_no_pickle_in_a_checkpoint(tmp_path: Path) -> None:
    path = save(tmp_path, 1, {"w": torch.ones(2)})
    assert sorted(file.name for file in path.iterdir()) == ["manifest.json", "state.json", "tensors.safetensors"]


@pytest.mark.parametrize("file", ["state.json", "tensors.safetensors", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_one_falls_back_to_the_one_before(tmp_path: Path, file: str, damage: str) -> None:
    save(tmp_path, 10, {"w": torch.zeros(100)})
    victim = save(tmp_path, 20, {"w": torch.ones(100)}) / file
    data = bytearray(victim.read_bytes())
    if damage == "remove":
        victim.unlink()
    else:
        data[len(data) // 2] ^= 0xFF
        victim.write_bytes(data if damage == "flip" else data[: len(data) // 2])
    with pytest.warns(UserWarning, match="000000020 is damaged"):
        loaded = load_newest(tmp_path)
    assert loaded is not None
    assert loaded[0] == 10
    save(tmp_path, 20, {"w": torch.ones(100)})  # the run gets there again
    again = load_newest(tmp_path)
    assert again is not None
    assert again[0] == 20


def test_none_whole_is_an_error_and_not_a_fresh_start(tmp_path: Path) -> None:
    assert load_newest(tmp_path / "nothing") is None
    (save(tmp_path, 10, {"x": 1}) / "state.json").write_text("{}")
    with pytest.warns(UserWarning, match="damaged"), pytest.raises(NoGoodCheckpoint, match="start this run again"):
        load_newest(tmp_path)


def test_a_write_that_fails_leaves_the_last_one_and_no_litter(tmp_path: Path) -> None:
    save(tmp_path, 10, {"w": torch.zeros(10)})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))  # the system then really fails the write
    try:
        with pytest.raises(OSError, match="File too large"):
            save(tmp_path, 20, {"w": torch.zeros(1_000_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["000000010"]
    assert load_newest(tmp_path) is not None


def test_what_a_killed_writer_left_behind_is_cleared(tmp_path: Path) -> None:
    save(tmp_path, 10, {"x": 1})
    half = tmp_path / ".000000020.4242"
    half.mkdir()
    (half / "state.json").write_text("{")
    assert load_newest(tmp_path) == (10, {"x": 1})
    assert half.exists()  # a reader beside a running process must leave it alone
    checkpoint.clear_unfinished(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["000000010"]


def test_a_damaged_future_does_not_push_out_good_checkpoints(tmp_path: Path) -> None:
    save(tmp_path, 10, {"x": 1})
    (save(tmp_path, 20, {"x": 2}) / "state.json").write_text("{}")
    save(tmp_path, 15, {"x": 3})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000010", "000000015"]
