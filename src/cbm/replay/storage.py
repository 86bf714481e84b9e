"""Replay on disk: single uint8 frames, memory-mapped, each stored once.

A directory holds `replay.json` (sizes), `frames.npy` (slots, 3, H, W) and `steps.npy` (slots,), which says how each
frame was reached. An episode of T steps takes T + 1 slots. Frames are counted from 0 and never renumbered: frame i
is in slot i % slots, and the newest `capacity` frames can be sampled.

Returning to a checkpoint: there are `margin` slots beyond `capacity`, so the next `margin` frames overwrite nothing
that could be sampled at the checkpoint. `room(state)` says how many are left, and the training loop takes a new
checkpoint before it is 0. What was written after the checkpoint is ignored and overwritten.

A checkpoint covers everything that can be sampled: `state()` holds checksums of each block of frames and of their
steps, and `open` compares them before anything is added. A block stays whole as long as a checkpoint needs one of its
frames.

Frames are written with `pwrite` and read through the map: a full disk is an OSError, not a SIGBUS, and resident memory
is page cache, which the system may drop.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from cbm.errors import CBMError
from cbm.replay.npy_file import NpyFile
from cbm.system.files import make_folder, read_object, write_whole

_RGB = 3
_MAX_BYTES = 1 << 46  # that a process can map
_BLOCK = 256  # frames per checksum; fewer if the margin is small
ADVICE = "Restore it from a copy. Without replay a run cannot be resumed, but cbm eval, record and report still work."


class DamagedReplay(CBMError):
    """Replay is not what it was when the checkpoint was taken."""


class Storage:
    """A ring of frames. Make one with `create`, or return to a checkpoint with `open`."""

    def __init__(self, directory: Path, writable: bool) -> None:
        self.directory = directory
        layout = read_object(directory / "replay.json", directory.parent)
        try:
            self.frame_shape: tuple[int, ...] = tuple(map(int, layout["frame_shape"]))
            self.action_dim, self.stack, self.capacity, margin = (
                int(layout[name]) for name in ("action_dim", "stack", "capacity", "margin")
            )
            self.slots: int = self.capacity + margin
            self._block = max(1, min(_BLOCK, margin // 4))
            self._frames = NpyFile(
                directory / "frames.npy", np.dtype(np.uint8), (self.slots, *self.frame_shape), writable
            )
            self._steps = NpyFile(directory / "steps.npy", _step_dtype(self.action_dim), (self.slots,), writable)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DamagedReplay(f"{directory} is damaged ({error}). {ADVICE}") from None
        self.pinned = False  # whether images are put in pinned memory, from which a GPU can copy them directly
        self._head = 0  # how many frames have been added in total
        self._unfinished = False  # whether the newest episode is unfinished
        self._starts: list[int] = []  # first frame of each episode that is still here, at least in part
        self._labels: list[int] = []  # its background, or -1
        self._closed: dict[int, list[int]] = {}  # block -> checksums of its frames and of its steps
        self._begun = [0, 0]  # those of the block that is being filled

    @classmethod
    def create(
        cls,
        directory: Path,
        obs_shape: Sequence[int],
        action_dim: int,
        capacity: int = 500_000,
        margin: int | None = None,
    ) -> Self:
        """An empty replay for observations `obs_shape` = (3 * stack, H, W). Its files are sparse and grow with use."""
        channels, height, width = obs_shape
        if channels % _RGB:
            raise CBMError(f"replay stores RGB frames, but an observation has {channels} channels")
        stack = channels // _RGB
        if capacity <= stack:
            raise CBMError(f"a replay of {capacity} frames does not hold one transition of {stack} stacked frames")
        if margin is None:
            margin = max(1_000, capacity // 20)
        make_folder(directory, directory.parent)
        slots = capacity + margin
        if slots * _RGB * height * width > _MAX_BYTES:
            raise CBMError(f"a replay of {capacity:,} frames takes {slots * _RGB * height * width / 1e12:,.0f} TB")
        NpyFile.create(directory / "frames.npy", np.dtype(np.uint8), (slots, _RGB, height, width))
        NpyFile.create(directory / "steps.npy", _step_dtype(action_dim), (slots,))
        layout = {
            "frame_shape": [_RGB, height, width],
            "action_dim": action_dim,
            "stack": stack,
            "capacity": capacity,
            "margin": margin,
        }
        write_whole(directory / "replay.json", json.dumps(layout).encode(), directory.parent)
        return cls(directory, writable=True)

    @classmethod
    def open(cls, directory: Path, state: Mapping[str, Any], writable: bool = True) -> Self:
        """The replay exactly as it was when `state()` returned `state`. Checksums are compared if it is `writable`."""
        replay = cls(directory, writable)
        index = np.arange(state["tail"], state["head"])
        steps = replay.records(index)
        if not np.array_equal(steps["index"], index):
            raise DamagedReplay(f"{directory}: frames of this checkpoint are missing or were overwritten. {ADVICE}")
        replay._head = state["head"]
        replay._closed = dict(enumerate(state["closed"], state["tail"] // replay._block))
        replay._begun = state["begun"]
        if writable:
            replay._compare()
        if len(steps):
            firsts = steps["first"].copy()
            firsts[0] = True  # the rest of an episode whose beginning is gone
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
        """The first observation of an episode; its newest frame is stored. `background` is a label, if known."""
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
        for place, (file, row) in enumerate(((self._frames, frame), (self._steps, step))):
            self._begun[place] = zlib.crc32(file.write(self._head % self.slots, row), self._begun[place])
        self._head += 1
        if self._head % self._block == 0:
            self._closed[self._head // self._block - 1], self._begun = self._begun, [0, 0]
        self._unfinished = not last

    def flush(self) -> None:
        """Wait until everything is on the disk. Without it a killed process loses nothing, but a power cut may."""
        self._frames.flush()
        self._steps.flush()

    # Checkpoints

    @property
    def _tail(self) -> int:
        """The oldest frame that can be sampled."""
        return max(0, self._head - self.capacity)

    def state(self) -> dict[str, Any]:
        """What `open` needs to return to this moment; it can be stored as JSON."""
        first = self._tail // self._block
        self._closed = {block: checksums for block, checksums in self._closed.items() if block >= first}
        return {
            "head": self._head,
            "tail": self._tail,
            "closed": list(self._closed.values()),
            "begun": list(self._begun),
        }

    def room(self, state: Mapping[str, Any]) -> int:
        """How many more frames can be added before `state` can no longer be opened."""
        return state["tail"] // self._block * self._block + self.slots - self._head

    def _compare(self) -> None:
        """Raise an error unless every frame and every step is as it was when it was added."""
        blocks = self._closed | ({self._head // self._block: self._begun} if self._head % self._block else {})
        for block, checksums in blocks.items():
            start, end = block * self._block, min(self._head, (block + 1) * self._block)
            for file, wanted in zip((self._frames, self._steps), checksums, strict=True):
                if file.checksum(np.arange(start, end) % self.slots) != wanted:
                    raise DamagedReplay(
                        f"{file.path} has changed since the checkpoint: something in its frames {start:,} to "
                        f"{end - 1:,} is different, or it belongs to another run. {ADVICE}"
                    )

    def unfinished(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The actions (T, A) of the unfinished episode so far, and its newest frame; None between episodes."""
        if not self._unfinished:
            return None
        actions = self.records(np.arange(self._starts[-1] + 1, self._head))["action"]
        return np.ascontiguousarray(actions), self._frames.array[(self._head - 1) % self.slots].copy()

    # Reading

    def records(self, indices: np.ndarray) -> np.ndarray:
        """How the frames `indices` were reached: a structured array with the fields of `_step_dtype`."""
        return self._steps.array[indices % self.slots]

    def _images(self, index: np.ndarray) -> torch.Tensor:
        images = torch.empty((*index.shape, *self.frame_shape), dtype=torch.uint8, pin_memory=self.pinned)
        np.take(self._frames.array, index % self.slots, axis=0, out=images.numpy(), mode="clip")  # "raise" would copy
        return images

    def _ranges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each episode: its first frame, the first frame whose whole stack is here, and its last frame."""
        start = np.array(self._starts, dtype=np.int64)
        end = np.append(start[1:], self._head)[: len(start)] - 1
        low = np.where(start >= self._tail, start, self._tail + self.stack - 1)
        return start, low, end


def _step_dtype(action_dim: int) -> np.dtype[Any]:
    """How a frame was reached: by which action, with which reward (zeros for the first frame of an episode)."""
    return np.dtype(
        [
            ("index", np.int64),  # the frame's number: shows which frame a slot really holds
            ("action", np.float32, (action_dim,)),
            ("reward", np.float32),
            ("background", np.int16),
            ("first", np.bool_),
            ("last", np.bool_),
            ("terminal", np.bool_),
        ]
    )
