"""A .npy file that is read through a memory map and written row by row."""

from __future__ import annotations

import errno
import math
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from cbm.system.files import open_file


class NpyFile:
    """Rows of a .npy file: read through a map, written with `pwrite`."""

    def __init__(self, path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], writable: bool) -> None:
        self.path = path
        handle = open_file(path, path.parents[1], os.O_RDWR if writable else os.O_RDONLY)
        self._file = os.fdopen(handle, "r+b" if writable else "rb", buffering=0)
        try:
            if np.lib.format.read_magic(self._file) != (1, 0):
                raise ValueError("unknown version of the .npy format")
            if np.lib.format.read_array_header_1_0(self._file) != (shape, False, dtype):
                raise ValueError(f"{path.name} does not have the format that replay.json says")
            self.array = np.memmap(self._file, dtype, "r", self._file.tell(), shape)
        except BaseException:
            self._file.close()
            raise
        self._row = self.array.nbytes // len(self.array)

    @staticmethod
    def create(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        """Make a file of zeros, which takes no space until it is written to."""
        path.unlink(missing_ok=True)  # left by a run that was killed before its first checkpoint
        with os.fdopen(open_file(path, path.parents[1], os.O_RDWR | os.O_CREAT | os.O_EXCL), "wb") as file:
            about = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, about)
            file.truncate(file.tell() + dtype.itemsize * math.prod(shape))

    def write(self, row: int, value: np.ndarray) -> bytes:
        """Returns what was written."""
        data = value.tobytes()
        if os.pwrite(self._file.fileno(), data, self.array.offset + row * self._row) != self._row:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        return data

    def checksum(self, rows: np.ndarray) -> int:
        """The checksum of these rows, in this order."""
        return zlib.crc32(self.array[rows])

    def flush(self) -> None:
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
