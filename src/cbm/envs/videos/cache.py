"""Arrays that are made once and then memory-mapped from the cache directory."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cbm.errors import CBMError
from cbm.system.files import aside

FOOTER = 4  # bytes after the array in the .npy file: the CRC-32 of everything before

_checked: set[tuple[str, int, int]] = set()  # (path, time, size) of the files that this process found intact


def cache_dir() -> Path:
    """`$CBM_CACHE`, else `cbm` in the user's cache directory (`$XDG_CACHE_HOME`, else `~/.cache`)."""
    if chosen := os.environ.get("CBM_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "cbm"


def cached_array(path: Path, make: Callable[[], np.ndarray]) -> np.ndarray:
    """The uint8 frames (T, H, W, 3) stored in `path`, read-only and memory-mapped; made first if missing or damaged.

    Safe with many processes: a file appears under its name only when it is complete, and each process checks a
    file against its checksum before it uses it.
    """
    frames = _open(path)
    if frames is None:
        _write(path, make())
        frames = _open(path)
    if frames is None:
        raise CBMError(
            f"{path} was written but does not read back the same: check the disk, or use another "
            "directory with CBM_CACHE=/some/dir."
        )
    return frames


def _open(path: Path) -> np.ndarray | None:
    """None if there is no complete file."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False) if _intact(path) else None
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise CBMError(f"no permission to read {path}. Use another cache: CBM_CACHE=/some/dir.") from error
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise CBMError(f"cannot open {path}: too many open files. Raise the limit: ulimit -n 4096.") from error
        return None


def _intact(path: Path) -> bool:
    state = path.stat()
    seen = (str(path), state.st_mtime_ns, state.st_size)
    if seen in _checked:
        return True
    if state.st_size <= FOOTER:
        return False
    content = np.memmap(path, np.uint8, "r")
    if zlib.crc32(content[:-FOOTER].data).to_bytes(FOOTER, "little") != content[-FOOTER:].tobytes():
        return False
    _checked.add(seen)
    return True


def _write(path: Path, frames: np.ndarray) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside(path) as made, made.open("wb") as file:
            np.save(file, np.ascontiguousarray(frames), allow_pickle=False)
            file.flush()
            file.write(zlib.crc32(np.memmap(made, np.uint8, "r").data).to_bytes(FOOTER, "little"))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise CBMError(
            f"cannot write to the video cache {path.parent} ({error.strerror or error}). "
            "Make room or choose another directory: CBM_CACHE=/some/dir."
        ) from error
