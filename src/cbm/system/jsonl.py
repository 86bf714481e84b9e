"""Files of JSON objects, one per line, that are only ever appended to."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cbm.errors import CBMError
from cbm.system.files import open_file, parse, read_file

_TAIL = 1 << 16  # bytes; longer than any line of ours


class JsonLines:
    """Such a file, opened for appending. A line is one write, so a crash cuts at most the last line short."""

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._handle = open_file(path, root, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._hash = hashlib.sha256(self._read(self.length))

    def append(self, line: Mapping[str, object]) -> None:
        data = (json.dumps(line) + "\n").encode()
        self._hash.update(data)
        while data:  # a nearly full disk takes part of it, then fails with ENOSPC on the rest
            data = data[os.write(self._handle, data) :]

    @property
    def length(self) -> int:
        return os.fstat(self._handle).st_size

    def state(self) -> dict[str, Any]:
        """What a checkpoint must know about the file."""
        return {"bytes": self.length, "sha256": self._hash.hexdigest()}

    def go_back(self, state: Mapping[str, Any] | None) -> None:
        """Drop what came after a checkpoint: the resumed run writes it again. An error if the rest has changed.

        None: drop everything. A run that was killed before its first checkpoint leaves lines behind.
        """
        length = 0 if state is None else state["bytes"]
        self._hash = hashlib.sha256(self._read(length))
        short = self.length < length
        if state is not None and (short or self._hash.hexdigest() != state["sha256"]):
            how = f"it is shorter than {length:,} bytes" if short else f"its first {length:,} bytes differ"
            raise CBMError(
                f"{self._path} has changed since the checkpoint: {how}. Restore it from a copy. The weights are "
                "intact, so cbm eval, record and analyze still work."
            )
        os.ftruncate(self._handle, length)

    def _read(self, length: int) -> bytes:
        return os.pread(self._handle, min(length, self.length), 0)

    def sync(self) -> None:
        os.fsync(self._handle)

    def close(self) -> None:
        os.close(self._handle)


class Lines(NamedTuple):
    """What such a file holds."""

    good: list[dict[str, Any]]
    broken: list[int]  # the numbers, from 1, of lines that are not JSON
    odd: list[int]  # those of lines that are something else than expected
    cut: bool  # whether the last line is incomplete: after a crash, or because a process is writing it right now


def parse_lines(data: bytes, is_right: Callable[[Any], bool]) -> Lines:
    """Parse every line on its own. `is_right` says whether its value is as expected."""
    *whole, rest = data.split(b"\n")
    lines = Lines([], [], [], bool(rest))
    for number, text in enumerate(whole, 1):
        try:
            line = parse(text)
        except ValueError:
            lines.broken.append(number)
            continue
        if is_right(line):
            lines.good.append(line)
        else:
            lines.odd.append(number)
    return lines


def read_lines(path: Path, root: Path | None = None) -> list[dict[str, Any]]:
    """The JSON objects in the file; other lines are left out, and a missing file has none.

    `root` is the file's folder by default.
    """
    try:
        data = read_file(path, path.parent if root is None else root)
    except OSError:
        return []
    return parse_lines(data, lambda line: isinstance(line, dict)).good


def last_line(path: Path, root: Path | None = None) -> dict[str, Any] | None:
    """The last complete line, without reading the whole file; None if it is not an object."""
    try:
        with os.fdopen(open_file(path, path.parent if root is None else root), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            parts = file.read().split(b"\n")
        line = parse(parts[-2]) if len(parts) > 1 else None
    except (OSError, ValueError):
        return None
    return line if isinstance(line, dict) else None
