"""Files that belong to a run: opened without following links, replaced whole or not at all.

A run may come from somebody else, and a link in it may point to anything that its reader can read or write. So a path
below a run's folder is opened folder by folder, without following links, and only if it is a regular file: a FIFO would
block forever. `root` is the folder that the user has named; it may be a link.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cbm.errors import CBMError

_MAX_JSON = 16 << 20  # bytes of one object; ours have a few thousand
_LINK = "is a symbolic link, and links in a run are not followed"


class Unreadable(CBMError):
    """A file that is not what it should be. `what` says why, without the file's name."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} {what}.")
        self.what = what


def open_file(path: Path, root: Path, flags: int = os.O_RDONLY) -> int:
    """A handle of the regular file `path` below `root`; an OSError if it is anything else, or behind a link."""
    folder = _open_folder(path.parent, root)
    try:
        handle = _open(path, path.name, flags | os.O_NONBLOCK, folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return handle


def read_file(path: Path, root: Path, limit: int | None = None) -> bytes:
    """The content of a file opened by `open_file`; an OSError if it has more than `limit` bytes."""
    with os.fdopen(open_file(path, root), "rb") as file:
        if limit is not None and os.fstat(file.fileno()).st_size > limit:
            raise OSError(errno.EFBIG, f"has more than {limit >> 20} MB", str(path))
        return file.read()


def read_object(path: Path, root: Path) -> dict[str, Any]:
    """The JSON object in a small file. NaN and numbers too large for a float become None."""
    try:
        found = parse(read_file(path, root, _MAX_JSON), finite=True)
    except OSError as error:
        raise Unreadable(path, f"cannot be read ({error.strerror})") from None
    except ValueError:
        raise Unreadable(path, "is not JSON, or was cut short") from None
    if not isinstance(found, dict):
        raise Unreadable(path, "is not a JSON object")
    return found


def parse(text: bytes, finite: bool = False) -> Any:
    """The value of a JSON text; it raises nothing but ValueError. With `finite`, 1e999 does not become infinity."""
    only_finite: dict[str, Any] = {"parse_float": _finite, "parse_int": _finite_int} if finite else {}
    try:
        return json.loads(text, parse_constant=lambda name: None, **only_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _finite(text: str) -> float | None:
    number = float(text)
    return number if abs(number) < float("inf") else None


def _finite_int(text: str) -> int | None:
    return int(text) if len(text) < 300 else None


def write_whole(path: Path, data: bytes, root: Path | None = None, sync: bool = False) -> None:
    """Replace `path` by `data`, whole or not at all. Without a `root`, the user has named `path`; it may be a link.

    If the user has named a device or a pipe, the data is simply written to it.
    """
    if root is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path = Path(os.path.realpath(path))
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        root = path.parent
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    folder = _open_folder(path.parent, root)
    try:
        with suppress(FileNotFoundError):  # left by a killed process that had our process id
            os.unlink(aside.name, dir_fd=folder)
        try:
            with os.fdopen(_open(aside, aside.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, folder), "wb") as file:
                file.write(data)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(aside.name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(aside.name, dir_fd=folder)
            raise
        if sync:
            os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def aside(path: Path) -> Iterator[Path]:
    """A temporary path next to `path` to write a file or a folder to. It replaces `path` in the end; on an error it is
    removed.

    For folders, and for files that another library writes. For files in somebody else's run, use `write_whole`.
    """
    made = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield made
        if made.is_dir():  # a folder can replace only an empty one
            remove(path)
        made.replace(path)
    finally:
        with suppress(OSError):
            remove(made)


def remove(path: Path) -> None:
    """Remove a file, or a folder and everything in it. Of a link, only the link itself."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def check_output(path: Path) -> None:
    """Raise an error if the user's `path` cannot be written to: before the work, not after it."""
    try:
        folder = path.parent
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{folder} is a file")
        folder.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if not path.exists():
            check_folder(folder)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CBMError(f"cannot write {path} ({reason}). Choose another place with -o.") from None


def check_folder(path: Path) -> None:
    """The same for a folder to write into."""
    probe = path / f".cbm.{os.getpid()}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CBMError(f"cannot write to {path} ({reason}). Choose another place with -o.") from None


def make_folder(path: Path, root: Path) -> Path:
    """The folder `path` below `root`, created if it is missing; an OSError if it is a link."""
    root.mkdir(parents=True, exist_ok=True)
    for part in reversed([path, *path.parents][: len(path.relative_to(root).parts)]):
        with suppress(FileExistsError):
            part.mkdir()
    os.close(_open_folder(path, root))
    return path


def list_folder(path: Path, root: Path) -> list[os.DirEntry[str]]:
    """What is in the folder `path` below `root`, by name; nothing if it is missing, an OSError if it is a link."""
    try:
        os.close(_open_folder(path, root))
    except FileNotFoundError:
        return []
    with os.scandir(path) as found:
        return sorted(found, key=lambda entry: entry.name)


def _open_folder(path: Path, root: Path) -> int:
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    at = root
    for name in path.relative_to(root).parts:
        at, above = at / name, handle
        try:
            handle = _open(at, name, os.O_RDONLY | os.O_DIRECTORY, above)
        finally:
            os.close(above)
    return handle


def _open(path: Path, name: str, flags: int, folder: int) -> int:
    """Open `name` in an open folder, unless it is a link. `path` is for the error message."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder)
    except OSError as error:
        link = error.errno in (errno.ELOOP, errno.ENOTDIR) and path.is_symlink()
        what = _LINK if link else error.strerror
        raise type(error)(error.errno, what, str(path)) from None
