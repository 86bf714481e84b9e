"""Fetch DAVIS-2017: resume, check, unpack, and leave nothing half-done."""

from __future__ import annotations

import errno
import hashlib
import http.client
import shutil
import ssl
import stat
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from rich.progress import DownloadColumn, Progress, TaskID, TransferSpeedColumn

from cbm.errors import CBMError

from .davis import FRAMES, LISTS, DavisSource, default_root, find_frames

DAVIS_URL = "https://data.vision.ee.ethz.ch/csergi/share/davis/DAVIS-2017-trainval-480p.zip"
BLOCK = 1 << 18
ATTEMPTS = 5  # in a row without progress before we give up; an interrupted transfer continues where it stopped
TIMEOUT = 30.0  # seconds
NETWORK_ERRORS = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError)
AGAIN = "What has arrived is kept: run the same command again to continue."


def download_davis(destination: Path | None = None, *, url: str = DAVIS_URL, sha256: str | None = None) -> Path:
    """Download, verify and unpack DAVIS-2017 into `destination` (default: where the source `davis` looks).

    `sha256` is compared when given. Always checked: every file's CRC-32 in the archive, that no member leaves the
    destination, and that all 90 videos are there. The destination appears only when everything is right.
    """
    destination = default_root() if destination is None else destination.expanduser()
    if _complete(destination):
        return destination
    if destination.exists() and not (destination.is_dir() and not any(destination.iterdir())):
        raise CBMError(f"{destination} exists but is not a complete DAVIS: remove it or choose another destination.")
    if urlsplit(url).scheme not in ("http", "https"):
        raise CBMError(f"cannot download {url!r}: the address must begin with http:// or https://.")
    part = destination.with_name(destination.name + ".zip.part")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with Progress(*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn()) as bar:
            _fetch(url, part, bar)
            try:
                _check_sum(part, sha256)
                _unpack(part, destination, bar)
            except BadArchive:
                _remove(part)  # or the next attempt would continue a wrong file
                raise
        _remove(part)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CBMError(f"no room left on the disk of {destination.parent}. Make room. {AGAIN}") from error
        raise CBMError(
            f"cannot write {destination} ({error.strerror or error}): choose another destination."
        ) from error
    return destination


class BadArchive(CBMError):
    """The downloaded file is not what it should be."""


def _complete(destination: Path) -> bool:
    return find_frames(destination) is not None and not any(map(DavisSource(destination).missing, LISTS))


def _remove(part: Path) -> None:
    for file in (part, _notes(part)):
        file.unlink(missing_ok=True)


def _notes(part: Path) -> Path:
    """Where the partial file came from (address, then the server's version of it), so that we never join two files."""
    return part.with_name(part.name + ".from")


def _fetch(url: str, part: Path, bar: Progress) -> None:
    """Bring `part` to its full length, continuing from what is there."""
    task = bar.add_task("downloading", total=None)
    failures, why = 0, ""
    while failures < ATTEMPTS:
        if failures:
            time.sleep(min(2.0 ** (failures - 3), 10.0))
        before = _size(part)
        try:
            if _transfer(url, part, bar, task):
                return
            why = "the connection was lost"
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code not in (408, 429):
                raise CBMError(f"cannot download {url}: the server says {error.code} {error.reason}.") from error
            why = f"the server says {error.code} {error.reason}"
        except NETWORK_ERRORS as error:
            why = str(getattr(error, "reason", error)) or type(error).__name__
        failures = 0 if _size(part) > before else failures + 1
    raise CBMError(f"cannot download {url}: {why} ({ATTEMPTS} attempts). Check the network. {AGAIN}")


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _transfer(url: str, part: Path, bar: Progress, task: TaskID) -> bool:
    """One request. True if the file is complete, False if the connection was lost."""
    origin, _, version = _notes(part).read_text().partition("\n") if _notes(part).exists() else ("", "", "")
    have = _size(part) if origin == url else 0
    request = urllib.request.Request(url, headers={"User-Agent": "cbm-rl"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        if version:
            request.add_header("If-Range", version)  # a server whose file has changed sends it from the start
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        if (error.headers.get("Content-Range") or "").rpartition("/")[2] == str(have):
            return True
        _remove(part)
        return False
    with response:
        length = response.headers.get("Content-Length")
        _need_room(part.parent, int(length) if length else 0)
        if response.status != 206:
            have = 0
            part.write_bytes(b"")  # before the notes, so that they never describe an older file
        elif not (response.headers.get("Content-Range") or "").startswith(f"bytes {have}-"):
            _remove(part)  # not the piece that was asked for
            return False
        total = have + int(length) if length else None
        tag = response.headers.get("ETag") or "W/"  # a weak tag says nothing about single bytes
        version = response.headers.get("Last-Modified") or "" if tag.startswith("W/") else tag
        _notes(part).write_text(f"{url}\n{version}")
        bar.update(task, total=total, completed=have)
        with part.open("ab") as file:
            while block := response.read(BLOCK):
                file.write(block)
                bar.advance(task, len(block))
            arrived = file.tell()
    return total is None or arrived == total


def _need_room(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < size:
        raise CBMError(
            f"not enough room in {folder}: {size / 1e6:.0f} MB are needed, {free / 1e6:.0f} MB are free. "
            "Make room or choose another destination."
        )


def _check_sum(part: Path, expected: str | None) -> None:
    if expected is None:
        return
    with part.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected.strip().lower():
        raise BadArchive(
            f"the download has the wrong checksum: expected sha256 {expected}, got {found}. It was deleted; "
            "download it again, and check the address and the checksum if this repeats."
        )


def _unpack(archive: Path, destination: Path, bar: Progress) -> None:
    """Into a folder next to the destination, then renamed. zipfile compares each member's CRC-32 as it is read."""
    folder = tempfile.TemporaryDirectory(
        prefix=f".{destination.name}-", dir=destination.parent, ignore_cleanup_errors=True
    )
    try:
        with folder, zipfile.ZipFile(archive) as bundle:
            members, top = bundle.infolist(), Path(folder.name)
            for member in members:
                _refuse_unsafe(member)
            size = sum(member.file_size for member in members)
            _need_room(destination.parent, size)
            task = bar.add_task("unpacking", total=size)
            for member in members:
                bundle.extract(member, top)
                bar.advance(task, member.file_size)
            top = top / "DAVIS" if (top / "DAVIS" / FRAMES).is_dir() else top
            _need_all_videos(top)
            top.chmod(0o755)  # the temporary folder is private
            if destination.is_dir():
                destination.rmdir()
            top.replace(destination)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise BadArchive(f"the download is not a valid zip archive ({error}). It was deleted; try again.") from error


def _refuse_unsafe(member: zipfile.ZipInfo) -> None:
    name = member.orig_filename
    path = PurePosixPath(name.replace("\\", "/"))
    climbs = path.is_absolute() or ".." in path.parts or ":" in path.parts[0] if path.parts else True
    if climbs or stat.S_ISLNK(member.external_attr >> 16):
        raise BadArchive(
            f"the archive is refused: its member {name!r} would be written outside the destination or is a link. "
            "Nothing was unpacked and the download was deleted; check the address."
        )


def _need_all_videos(top: Path) -> None:
    if find_frames(top) is None:
        raise BadArchive(f"the archive has no {FRAMES.as_posix()} folder: this is not DAVIS-2017 480p. It was deleted.")
    source = DavisSource(top)
    if lacking := [name for names in LISTS.values() for name in names if not source.files(name)]:
        raise BadArchive(
            f"the archive is not all of DAVIS-2017: {len(lacking)} of 90 videos are missing "
            f"({', '.join(lacking[:3])}, ...). It was deleted; check the address."
        )
