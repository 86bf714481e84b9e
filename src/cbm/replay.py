"""Replay on disk: single uint8 frames, memory-mapped, each stored once.

A directory holds `replay.json` (sizes), `frames.npy` (slots, 3, H, W) and `steps.npy` (slots,), which says how each
frame was reached. An episode of T steps takes T + 1 slots. Frames are counted from 0 and never renumbered: frame i
lives in slot i % slots, and the newest `capacity` frames can be sampled.

Going back to a checkpoint: `state()` is two numbers. There are `margin` slots beyond `capacity`, so the next `margin`
frames overwrite nothing that could be sampled at the checkpoint; `room(state)` says how many are left, and the training
loop takes a new checkpoint before it is 0. What was written after the checkpoint is ignored and overwritten.

Frames are written by `pwrite` and read through the map: a full disk is an OSError, not a SIGBUS, and what is resident
is page cache, which the system may drop.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cbm.errors import CBMError
from cbm.types import Batch, Sequences

_RGB = 3


class Replay:
    """A ring of frames. Make one with `Replay.create`, or go back to a checkpoint with `Replay.open`."""

    def __init__(self, directory: Path, writable: bool) -> None:
        self.directory = directory
        layout = json.loads((directory / "replay.json").read_text())
        self.frame_shape: tuple[int, ...] = tuple(layout["frame_shape"])
        self.action_dim: int = layout["action_dim"]
        self.stack: int = layout["stack"]
        self.capacity: int = layout["capacity"]
        self.slots: int = layout["capacity"] + layout["margin"]
        self._frames = _NpyFile(directory / "frames.npy", writable)
        self._steps = _NpyFile(directory / "steps.npy", writable)
        self._head = 0  # how many frames were ever added
        self._unfinished = False  # whether the newest episode goes on
        self._starts: list[int] = []  # first frame of each episode that is still here, at least in part
        self._labels: list[int] = []  # its background, or -1

    @classmethod
    def create(
        cls,
        directory: Path,
        obs_shape: Sequence[int],
        action_dim: int,
        capacity: int = 500_000,
        margin: int | None = None,
    ) -> Replay:
        """An empty replay for observations `obs_shape` = (3 * stack, H, W). Its files are sparse and grow with use."""
        channels, height, width = obs_shape
        if channels % _RGB:
            raise CBMError(f"replay stores RGB frames, but an observation has {channels} channels")
        stack = channels // _RGB
        if capacity <= stack:
            raise CBMError(f"a replay of {capacity} frames does not hold one transition of {stack} stacked frames")
        if margin is None:
            margin = max(1_000, capacity // 20)
        directory.mkdir(parents=True, exist_ok=True)
        slots = capacity + margin
        np.lib.format.open_memmap(directory / "frames.npy", "w+", np.uint8, (slots, _RGB, height, width))
        np.lib.format.open_memmap(directory / "steps.npy", "w+", _step_dtype(action_dim), (slots,))
        layout = {
            "frame_shape": [_RGB, height, width],
            "action_dim": action_dim,
            "stack": stack,
            "capacity": capacity,
            "margin": margin,
        }
        (directory / "replay.json").write_text(json.dumps(layout))
        return cls(directory, writable=True)

    @classmethod
    def open(cls, directory: Path, state: Mapping[str, int], writable: bool = True) -> Replay:
        """The replay exactly as it was when `state()` returned `state`."""
        replay = cls(directory, writable)
        index = np.arange(state["tail"], state["head"])
        steps = replay._records(index)
        if not np.array_equal(steps["index"], index):
            raise CBMError(f"{directory}: frames of this checkpoint are missing or were overwritten")
        replay._head = state["head"]
        if len(steps):
            firsts = steps["first"].copy()
            firsts[0] = True  # of an episode that lost its beginning, the rest is still here
            replay._starts = index[firsts].tolist()
            replay._starts[0] -= not steps["first"][0]
            replay._labels = steps["background"][firsts].tolist()
            replay._unfinished = not steps["last"][-1]
        return replay

    def close(self) -> None:
        self._frames.close()
        self._steps.close()

    # Writing

    def add_first(self, obs: np.ndarray, background: int = -1) -> None:
        """The observation that begins an episode; its newest frame is stored. `background`: a label, where known."""
        while len(self._starts) > 1 and self._starts[1] <= self._tail:
            del self._starts[0], self._labels[0]
        self._write(obs, 0.0, 0.0, first=True, last=False, terminal=False, background=background)
        self._starts.append(self._head - 1)
        self._labels.append(background)

    def add(self, action: np.ndarray, reward: float, obs: np.ndarray, terminal: bool, truncated: bool) -> None:
        """One agent step: `action` gave `reward` (summed over the action repeat) and led to `obs`.

        `terminal` ends the episode and its value; `truncated` (a time limit) ends the episode only.
        """
        if not self._unfinished:
            raise CBMError("replay: an episode begins with add_first")
        last = terminal or truncated
        self._write(obs, action, reward, first=False, last=last, terminal=terminal, background=self._labels[-1])

    def _write(self, obs: np.ndarray, action: np.ndarray | float, reward: float, last: bool, **flags: int) -> None:
        frame = np.ascontiguousarray(obs[-_RGB:], dtype=np.uint8)
        if frame.shape != self.frame_shape:
            raise CBMError(f"replay: frames are {self.frame_shape}, this one is {frame.shape}")
        step = np.zeros((), self._steps.array.dtype)
        step["index"], step["action"], step["reward"], step["last"] = self._head, action, reward, last
        for name, flag in flags.items():
            step[name] = flag
        self._frames.write(self._head % self.slots, frame)
        self._steps.write(self._head % self.slots, step)
        self._head += 1
        self._unfinished = not last

    def flush(self) -> None:
        """Wait until all is on the disk. A killed process loses nothing without it; a power cut may."""
        self._frames.flush()
        self._steps.flush()

    # Checkpoints

    @property
    def _tail(self) -> int:
        """The oldest frame that can be sampled."""
        return max(0, self._head - self.capacity)

    def state(self) -> dict[str, int]:
        """What `open` needs to come back to this moment, JSON-able."""
        return {"head": self._head, "tail": self._tail}

    def room(self, state: Mapping[str, int]) -> int:
        """How many more frames can be added before `state` can no longer be opened."""
        return state["tail"] + self.slots - self._head

    def unfinished(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The actions (T, A) so far of the episode that goes on, and its newest frame; None between episodes."""
        if not self._unfinished:
            return None
        actions = self._records(np.arange(self._starts[-1] + 1, self._head))["action"]
        return np.ascontiguousarray(actions), self._frames.array[(self._head - 1) % self.slots].copy()

    # Reading

    def __len__(self) -> int:
        """How many transitions can be sampled."""
        _, low, end = self._ranges()
        return int(np.maximum(end - low, 0).sum())

    def sample(
        self,
        batch_size: int,
        generator: np.random.Generator,
        n_step: int = 1,
        discount: float = 0.99,
        episodes: int = 0,
        one_background: bool = False,
        late_rewards: bool = False,
    ) -> Batch:
        """`batch_size` transitions, uniformly and with replacement; of at most `episodes` episodes, unless that is 0.

        Two options belong to the preset `released`. `one_background`: all come from episodes with one background, that
        of a transition drawn first. `late_rewards`: the n rewards that end with r_t, not the n that begin with it.
        """
        start, low, end = self._ranges()
        count = np.maximum(end - low, 0)
        if not count.any():
            raise CBMError("replay: nothing to sample yet")
        if one_background:
            labels = np.array(self._labels)
            count = np.where(labels == labels[_draw(count, 1, generator)[0]], count, 0)
        if episodes:
            drawn = _draw(count, episodes, generator)[0]
            count = np.where(np.isin(np.arange(len(count)), drawn), count, 0)
        episode, offset = _draw(count, batch_size, generator)
        t = low[episode] + offset
        start, boot = start[episode], np.minimum(t + n_step, end[episode])

        future = t[:, None] + np.arange(1, n_step + 1)  # the frames that the rewards led to
        if late_rewards:
            future -= n_step - 1
        counts = (future > start[:, None]) & (future <= boot[:, None]) & (future >= self._tail)
        rewards = self._records(np.where(counts, future, t[:, None]))["reward"] * counts
        n_step_reward = (rewards * discount ** np.arange(n_step)).sum(axis=1)
        step, boot_step = self._records(t + 1), self._records(boot)

        frames = [t[:, None] + np.arange(1 - self.stack, 2)]
        if n_step > 1:
            frames.append(boot[:, None] + np.arange(1 - self.stack, 1))
        images = self._images(np.maximum(np.concatenate(frames, axis=1), start[:, None]))
        next_obs = images[:, 1 : self.stack + 1].flatten(1, 2)
        return Batch(
            obs=images[:, : self.stack].flatten(1, 2),
            action=torch.from_numpy(np.ascontiguousarray(step["action"])),
            reward=_column(step["reward"]),
            next_obs=next_obs,
            n_step_reward=_column(n_step_reward),
            n_step_discount=_column(discount ** (boot - t) * ~boot_step["terminal"]),
            boot_obs=images[:, self.stack + 1 :].flatten(1, 2) if n_step > 1 else next_obs,
        )

    def sample_sequences(self, batch_size: int, length: int, generator: np.random.Generator) -> Sequences:
        """`batch_size` stretches of `length` frames within an episode, uniformly and with replacement."""
        start, _, end = self._ranges()
        low = np.maximum(start, self._tail)
        count = np.maximum(end - low + 2 - length, 0)  # first frames from which `length` fit
        if not count.any():
            longest = int((end - low).max(initial=-1) + 1)
            raise CBMError(
                f"no episode in replay has the {length} frames of a sequence; the longest has {longest}. Choose a "
                f"smaller --agent.length, or more --training.seed_steps if episodes will be longer"
            )
        episode, offset = _draw(count, batch_size, generator)
        frames = (low[episode] + offset)[:, None] + np.arange(length)
        steps = self._records(frames)
        return Sequences(
            obs=self._images(frames),
            action=torch.from_numpy(np.ascontiguousarray(steps["action"])),
            reward=torch.from_numpy(steps["reward"].astype(np.float32)[..., None]),
        )

    def indices(self) -> np.ndarray:
        """The numbers of all frames whose whole stack is here, for `observations` and `records`."""
        _, low, end = self._ranges()
        return np.concatenate([np.arange(a, b + 1) for a, b in zip(low, end, strict=True)] or [np.arange(0)])

    def observations(self, indices: np.ndarray) -> torch.Tensor:
        """The stacked uint8 observations (N, C, H, W) whose newest frames are `indices`."""
        starts, _, _ = self._ranges()
        start = starts[np.searchsorted(starts, indices, side="right") - 1]
        return self._images(np.maximum(indices[:, None] + np.arange(1 - self.stack, 1), start[:, None])).flatten(1, 2)

    def records(self, indices: np.ndarray) -> np.ndarray:
        """How the frames `indices` were reached: a structured array with the fields of `_step_dtype`."""
        return self._records(indices)

    def _records(self, index: np.ndarray) -> np.ndarray:
        return self._steps.array[index % self.slots]

    def _images(self, index: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(self._frames.array[index % self.slots])

    def _ranges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each episode: its first frame, the first frame whose whole stack is here, and its last frame."""
        start = np.array(self._starts, dtype=np.int64)
        end = np.append(start[1:], self._head)[: len(start)] - 1
        low = np.where(start >= self._tail, start, self._tail + self.stack - 1)
        return start, low, end


def _draw(count: np.ndarray, size: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Uniformly from bins that hold `count` items each: the bin, and the item within it."""
    upper = np.cumsum(count)
    item = generator.integers(upper[-1], size=size)
    bins = np.searchsorted(upper, item, side="right")
    return bins, item - (upper - count)[bins]


def _column(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float32)[:, None])


def _step_dtype(action_dim: int) -> np.dtype[Any]:
    """How a frame was reached: by which action, with which reward (zeros for the first frame of an episode)."""
    return np.dtype(
        [
            ("index", np.int64),  # the frame's number: tells what a slot really holds
            ("action", np.float32, (action_dim,)),
            ("reward", np.float32),
            ("background", np.int16),
            ("first", np.bool_),
            ("last", np.bool_),
            ("terminal", np.bool_),
        ]
    )


class _NpyFile:
    """Rows of a .npy file: read through a map, written with `pwrite`."""

    def __init__(self, path: Path, writable: bool) -> None:
        self.array: np.memmap = np.load(path, mmap_mode="r")
        self._row = self.array.nbytes // len(self.array)
        self._file = path.open("r+b" if writable else "rb", buffering=0)

    def write(self, row: int, value: np.ndarray) -> None:
        if os.pwrite(self._file.fileno(), value.tobytes(), self.array.offset + row * self._row) != self._row:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._file.name)

    def flush(self) -> None:
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
