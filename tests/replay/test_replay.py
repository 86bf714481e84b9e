"""Replay against an oracle: frames show their own number, rewards and actions say where they belong."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbm.errors import CBMError
from cbm.replay import Replay
from replay_oracle import SIZE, STACK, World, numbers, observation


@settings(max_examples=40, deadline=None)
@given(
    episodes=st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=12),
    unfinished=st.integers(0, 6),
    capacity=st.integers(6, 60),
    n_step=st.integers(1, 5),
    ahead=st.integers(1, 5),
)
def test_oracle(episodes: list[tuple[int, bool]], unfinished: int, capacity: int, n_step: int, ahead: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), capacity, margin=5)
        for steps, terminal in episodes:
            world.episode(steps, terminal)
        if unfinished:
            world.episode(unfinished, finish=False)
        valid = world.valid()
        assert len(world.replay) == len(valid)
        if not valid:
            with pytest.raises(CBMError, match="nothing to sample"):
                world.check(n_step, 0.9)
            return
        drawn = world.check(n_step, 0.9, size=20 * len(valid), ahead=ahead)
        assert drawn <= valid
        if len(valid) < 10:
            assert drawn == valid


@settings(max_examples=40, deadline=None)
@given(
    episodes=st.lists(st.integers(1, 12), min_size=1, max_size=12),
    unfinished=st.integers(0, 6),
    capacity=st.integers(6, 60),
    length=st.integers(1, 9),
)
def test_sequences_oracle(episodes: list[int], unfinished: int, capacity: int, length: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), capacity, margin=5)
        for steps in episodes:
            world.episode(steps)
        if unfinished:
            world.episode(unfinished, finish=False)
        tail = max(0, len(world.start) - capacity)
        valid = {t for t in range(tail, len(world.start)) if t + length - 1 <= world.end[t]}
        if not valid:
            with pytest.raises(CBMError, match=r"smaller --agent\.length"):
                world.replay.sample_sequences(4, length, np.random.default_rng(0))
            return
        size = 20 * len(valid)
        batch = world.replay.sample_sequences(size, length, np.random.default_rng(0))
        assert batch.obs.shape == (size, length, 3, SIZE, SIZE)
        assert batch.reward.shape == (size, length, 1)
        shown = batch.obs[..., 0, 0].numpy().astype(np.int64) @ [65536, 256, 1]
        assert set(shown[:, 0].tolist()) <= valid
        if len(valid) < 10:
            assert set(shown[:, 0].tolist()) == valid
        assert np.array_equal(shown, shown[:, :1] + np.arange(length))
        led = np.where(shown == np.array(world.start)[shown], 0, shown)  # no step led to the first frame of an episode
        assert np.array_equal(batch.reward[..., 0], led)
        assert np.array_equal(batch.action, np.stack([led, -led], axis=-1))


def test_sequences_are_drawn_uniformly(tmp_path: Path) -> None:
    world = World(tmp_path).episode(4).episode(2).episode(9)  # of 4 frames: 2 beginnings, none, 7
    batch = world.replay.sample_sequences(18_000, 4, np.random.default_rng(0))
    counts = np.bincount(batch.obs[:, 0, 2, 0, 0].numpy(), minlength=15)
    assert np.flatnonzero(counts).tolist() == [0, 1, *range(8, 15)]
    assert np.abs(counts[counts > 0] / 18_000 - 1 / 9).max() < 0.01


def test_sampling_is_uniform_over_transitions(tmp_path: Path) -> None:
    world = World(tmp_path).episode(1).episode(9)
    batch = world.replay.sample(20_000, np.random.default_rng(0))
    counts = np.bincount(numbers(batch.obs)[:, -1], minlength=12)[[0, *range(2, 11)]]
    assert np.abs(counts / 20_000 - 0.1).max() < 0.01


@settings(max_examples=25, deadline=None)
@given(
    before=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    unfinished=st.integers(0, 5),
    after=st.integers(0, 30),
    capacity=st.integers(8, 40),
)
def test_going_back_to_a_checkpoint(before: list[int], unfinished: int, after: int, capacity: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), capacity, margin=10)
        for steps in before:
            world.episode(steps)
        if unfinished:
            world.episode(unfinished, finish=False)
        replay, state = world.replay, json.loads(json.dumps(world.replay.state()))
        length, going_on = len(replay), replay.unfinished()
        samples = [replay.sample(16, np.random.default_rng(1), n_step=3) for _ in range(2)] if length else []
        indices = replay.indices()
        for i in range(min(after, replay.room(state))):  # what a killed run may have written
            replay.add_first(observation(1000 + i))
        replay.close()

        world.replay = Replay.open(Path(folder), state)
        assert len(world.replay) == length
        assert world.replay.state() == state
        assert np.array_equal(world.replay.indices(), indices)
        for sample in samples:
            again = world.replay.sample(16, np.random.default_rng(1), n_step=3)
            for name in vars(sample):
                assert np.array_equal(getattr(sample, name), getattr(again, name)), name
        if going_on is None:
            assert world.replay.unfinished() is None
        else:
            actions, frame = world.replay.unfinished()  # type: ignore[misc]
            assert np.array_equal(actions, going_on[0])
            assert np.array_equal(frame, going_on[1])
        if unfinished == 0:  # and it goes on as if nothing had happened
            world.episode(7).episode(4, terminal=True)
            world.check(3, 0.9)


def test_room_is_exact_and_an_overwritten_checkpoint_is_noticed(tmp_path: Path) -> None:
    world = World(tmp_path, capacity=30, margin=10)
    for _ in range(6):
        world.episode(9)
    replay, state = world.replay, world.replay.state()
    assert replay.room(state) == 10
    for _ in range(10):
        replay.add_first(observation(0))
    assert replay.room(state) == 0
    assert len(Replay.open(tmp_path, state)) > 0
    replay.add_first(observation(0))
    assert replay.room(state) == -1
    with pytest.raises(CBMError, match="overwritten"):
        Replay.open(tmp_path, state)


def test_unfinished_episode(tmp_path: Path) -> None:
    replay = World(tmp_path).episode(3).episode(4, finish=False).replay
    actions, frame = replay.unfinished()  # type: ignore[misc]
    assert actions.tolist() == [[i, -i] for i in range(5, 9)]
    assert numbers(np.tile(frame, (STACK, 1, 1))[None])[0, -1] == 8
    replay.add(np.zeros(2, np.float32), 0.0, observation(9), False, True)
    assert replay.unfinished() is None
    with pytest.raises(CBMError, match="add_first"):
        replay.add(np.zeros(2, np.float32), 0.0, observation(9), False, False)


def test_batches_of_few_episodes_are_as_uniform_as_others(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(10):
        world.episode(5, background=number)
    seen = []
    for seed in range(400):
        batch = world.replay.sample(32, np.random.default_rng(seed), episodes=2)
        moments = numbers(batch.obs)[:, -1]
        assert len({world.background[t] for t in moments}) <= 2
        seen.extend(moments.tolist())
    share = np.unique(seen, return_counts=True)[1] / len(seen)
    assert len(share) == 50  # all transitions
    np.testing.assert_allclose(share, 1 / 50, atol=0.012)  # five standard deviations of 800 drawn episodes


def test_random_access(tmp_path: Path) -> None:
    world = World(tmp_path, capacity=20).episode(12).episode(12, background=3)
    indices = world.replay.indices()
    assert indices.tolist() == [*range(8, 13), *range(13, 26)]
    assert numbers(world.replay.observations(indices)).tolist() == [world.stack(t) for t in indices]
    assert world.replay.records(indices)["background"].tolist() == [world.background[t] for t in indices]
    assert Replay.open(tmp_path, world.replay.state(), writable=False).indices().tolist() == indices.tolist()


def test_files_are_sparse_and_bytes_per_step_are_bounded(tmp_path: Path) -> None:
    replay = Replay.create(tmp_path, (9, 84, 84), 6)
    files = [tmp_path / "frames.npy", tmp_path / "steps.npy"]
    assert sum(file.stat().st_blocks * 512 for file in files) < 1e6
    frame = np.random.default_rng(0).integers(0, 256, (9, 84, 84), dtype=np.uint8)
    replay.add_first(frame)
    for i in range(500):
        replay.add(np.zeros(6, np.float32), 0.0, frame, False, i == 499)
    replay.flush()
    assert sum(file.stat().st_blocks * 512 for file in files) / 500 < 21_300


def test_a_full_disk_is_an_error_that_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path).episode(3)
    state = world.replay.state()
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: len(data) // 2)
    with pytest.raises(OSError, match="No space") as error:
        world.replay.add_first(observation(9))
    assert error.value.errno == errno.ENOSPC
    assert world.replay.state() == state
    assert world.replay.unfinished() is None


def test_wrong_shapes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CBMError, match="RGB"):
        Replay.create(tmp_path, (4, 84, 84), 1)
    with pytest.raises(CBMError, match="does not hold"):
        Replay.create(tmp_path, (9, 84, 84), 1, capacity=3)
    with pytest.raises(CBMError, match="frames are"):
        World(tmp_path).replay.add_first(np.zeros((9, 5, 5), np.uint8))
