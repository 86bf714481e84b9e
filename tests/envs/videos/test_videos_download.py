"""The DAVIS download against a real server on this machine."""

from __future__ import annotations

import hashlib
import io
import stat
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from PIL import Image

from cbm.envs.videos import download, open_source
from cbm.envs.videos.davis import TRAIN, VAL
from cbm.envs.videos.download import download_davis
from cbm.errors import CBMError

JPEG = io.BytesIO()
Image.new("RGB", (16, 9), (200, 100, 50)).save(JPEG, "JPEG")


def make_zip(
    names: tuple[str, ...] = TRAIN + VAL,
    extra: dict[str, bytes] | None = None,
    link: str | None = None,
    method: int = zipfile.ZIP_STORED,
) -> bytes:
    """A DAVIS in small."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as bundle:
        for name in names:
            for frame in range(2):
                bundle.writestr(f"DAVIS/JPEGImages/480p/{name}/{frame:05d}.jpg", JPEG.getvalue())
        for path, content in (extra or {}).items():
            bundle.writestr(path, content)
        if link is not None:
            info = zipfile.ZipInfo(link)
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            bundle.writestr(info, "/etc")
    return buffer.getvalue()


class Server(ThreadingHTTPServer):
    content: bytes = b""
    version = '"1"'
    ranges = True  # whether it can send a part
    break_after: list[int]  # bytes after which the next connections break off
    status = 200
    wrong_by = 0  # the piece sent is said to begin so much later than asked
    requests: list[dict[str, str]]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        server.requests.append(dict(self.headers))
        if server.status != 200:
            self.send_error(server.status)
            return
        start, wanted = 0, self.headers.get("Range")
        if wanted and server.ranges and self.headers.get("If-Range", server.version) == server.version:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(server.content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(server.content)}")
                self.end_headers()
                return
            self.send_response(206)
            begin = start + server.wrong_by
            self.send_header("Content-Range", f"bytes {begin}-{len(server.content) - 1}/{len(server.content)}")
        else:
            self.send_response(200)
        body = server.content[start:]
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", server.version)
        self.end_headers()
        cut = server.break_after.pop(0) if server.break_after else len(body)
        self.wfile.write(body[:cut])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.content, server.break_after, server.requests = make_zip(), [], []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def address(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_port}/davis.zip"


def fetch(server: Server, destination: Path, sha256: str | None = None, attempts: int = download.ATTEMPTS) -> Path:
    with mock.patch.object(download, "ATTEMPTS", attempts):
        return download_davis(destination, url=address(server), sha256=sha256)


def test_success_gives_a_folder_that_opens(server: Server, tmp_path: Path) -> None:
    right = hashlib.sha256(server.content).hexdigest()
    folder = fetch(server, tmp_path / "deep" / "davis", sha256=right.upper())
    source = open_source(f"davis:{folder}")
    assert (source.names("train"), source.names("unseen")) == (TRAIN, VAL)
    assert source.clip("soapbox")[1].shape == (9, 16, 3)
    assert [f.name for f in folder.parent.iterdir()] == ["davis"], "no archive, part or temporary folder is left"


def test_the_default_destination_is_where_the_source_looks(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CBM_CACHE", str(tmp_path))
    monkeypatch.delenv("CBM_DAVIS", raising=False)
    assert download_davis(url=address(server)) == tmp_path / "davis"
    assert open_source("davis").names("train") == TRAIN
    download_davis(url=address(server))
    assert len(server.requests) == 1, "what is complete is not fetched again"


def test_a_connection_that_breaks_off_goes_on_by_itself(server: Server, tmp_path: Path) -> None:
    server.break_after = [1000, 2000]
    fetch(server, tmp_path / "davis")
    assert [r.get("Range") for r in server.requests] == [None, "bytes=1000-", "bytes=3000-"]
    assert open_source(f"davis:{tmp_path / 'davis'}").names("train") == TRAIN


def test_an_interrupted_download_goes_on_at_the_next_call(server: Server, tmp_path: Path) -> None:
    server.break_after = [5000, 0]
    with pytest.raises(CBMError, match=r"was lost.*Check the network.*run the same command again"):
        fetch(server, tmp_path / "davis", attempts=1)
    assert not (tmp_path / "davis").exists()
    assert (tmp_path / "davis.zip.part").stat().st_size == 5000
    fetch(server, tmp_path / "davis", sha256=hashlib.sha256(server.content).hexdigest())
    assert server.requests[-1]["Range"] == "bytes=5000-"
    assert [f.name for f in tmp_path.iterdir()] == ["davis"]


def test_a_complete_part_is_used(server: Server, tmp_path: Path) -> None:
    server.break_after = [5000, 0]
    with pytest.raises(CBMError):
        fetch(server, tmp_path / "davis", attempts=1)
    (tmp_path / "davis.zip.part").write_bytes(server.content)
    fetch(server, tmp_path / "davis")
    assert server.requests[-1]["Range"] == f"bytes={len(server.content)}-"


@pytest.mark.parametrize("change", ["no ranges", "new version", "too long", "wrong piece"])
def test_it_starts_again_when_going_on_would_be_wrong(server: Server, tmp_path: Path, change: str) -> None:
    server.break_after = [5000, 0]
    with pytest.raises(CBMError):
        fetch(server, tmp_path / "davis", attempts=1)
    if change == "no ranges":
        server.ranges = False
    elif change == "new version":
        server.version, server.content = '"2"', make_zip(names=VAL + TRAIN)
    elif change == "wrong piece":
        server.wrong_by = 7
    else:
        (tmp_path / "davis.zip.part").write_bytes(b"x" * (len(server.content) + 1))
    fetch(server, tmp_path / "davis", sha256=hashlib.sha256(server.content).hexdigest())
    assert open_source(f"davis:{tmp_path / 'davis'}").names("unseen") == VAL


def test_a_part_from_another_address_is_not_continued(server: Server, tmp_path: Path) -> None:
    (tmp_path / "davis.zip.part").write_bytes(b"something else")
    (tmp_path / "davis.zip.part.from").write_text("http://elsewhere/davis.zip\n")
    fetch(server, tmp_path / "davis")
    assert "Range" not in server.requests[0]


def refused(server: Server, folder: Path, message: str, **options: Any) -> None:
    """It fails with the message, and nothing at all is left behind."""
    folder.mkdir()
    with pytest.raises(CBMError, match=message):
        fetch(server, folder / "davis", **options)
    assert list(folder.iterdir()) == []


def test_a_wrong_checksum_is_refused(server: Server, tmp_path: Path) -> None:
    found = hashlib.sha256(server.content).hexdigest()
    refused(server, tmp_path / "d", f"wrong checksum: expected sha256 {'0' * 64}, got {found}", sha256="0" * 64)


@pytest.mark.parametrize(
    "path", ["../evil.txt", "/evil.txt", "DAVIS/../../evil.txt", "..\\evil.txt", "C:\\evil.txt", "\\evil.txt"]
)
def test_a_path_that_climbs_out_is_refused(server: Server, tmp_path: Path, path: str) -> None:
    server.content = make_zip(extra={path: b"evil"})
    refused(server, tmp_path / "d", "refused: its member .*evil.txt")
    assert not list(tmp_path.rglob("evil*"))


def test_a_link_is_refused(server: Server, tmp_path: Path) -> None:
    server.content = make_zip(link="DAVIS/link")
    refused(server, tmp_path / "d", "refused: its member 'DAVIS/link'.*is a link")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_archive_is_refused(server: Server, tmp_path: Path, method: int) -> None:
    spoiled = bytearray(make_zip(extra={"DAVIS/notes": bytes(range(256)) * 400}, method=method))
    spoiled[spoiled.index(b"DAVIS/notes") + 300] ^= 0xFF
    server.content = bytes(spoiled)
    refused(server, tmp_path / "d", "not a valid zip archive")
    server.content = b"<html>moved</html>"
    refused(server, tmp_path / "e", "not a valid zip archive")


def test_another_archive_is_refused(server: Server, tmp_path: Path) -> None:
    server.content = make_zip(names=TRAIN)
    refused(server, tmp_path / "d", r"30 of 90 videos are missing \(bike-packing")
    server.content = make_zip(names=(), extra={"README": b"hello"})
    refused(server, tmp_path / "e", "no JPEGImages/480p folder")


def test_network_errors_name_the_address(server: Server, tmp_path: Path) -> None:
    server.status = 404
    refused(server, tmp_path / "d", r"davis.zip: the server says 404")
    assert len(server.requests) == 1, "no use in trying again"
    server.status = 503
    refused(server, tmp_path / "e", r"503.*\(2 attempts\)", attempts=2)
    (tmp_path / "f").mkdir()
    once = mock.patch.object(download, "ATTEMPTS", 1)
    with once, pytest.raises(CBMError, match=r"127.0.0.1:9/x.zip: .*Check the network"):
        download_davis(tmp_path / "f" / "davis", url="http://127.0.0.1:9/x.zip")
    with pytest.raises(CBMError, match="must begin with http"):
        download_davis(tmp_path / "f" / "davis", url="file:///etc/passwd")


def test_a_full_disk_is_said_before_and_while_writing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(10, 9, 1))
    refused(server, tmp_path / "d", "not enough room in .*Make room or choose another destination")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(1 << 40, 0, 1 << 40))

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zipfile.ZipFile.extract", full)
    (tmp_path / "e").mkdir()
    with pytest.raises(CBMError, match="no room left on the disk"):
        fetch(server, tmp_path / "e" / "davis")
    assert {f.name for f in (tmp_path / "e").iterdir()} == {"davis.zip.part", "davis.zip.part.from"}
    monkeypatch.undo()
    fetch(server, tmp_path / "e" / "davis")
    assert server.requests[-1]["Range"] == f"bytes={len(server.content)}-", "the download was kept"


def test_something_else_at_the_destination_is_left_alone(server: Server, tmp_path: Path) -> None:
    (tmp_path / "davis").mkdir()
    (tmp_path / "davis" / "mine.txt").write_text("keep")
    with pytest.raises(CBMError, match="not a complete DAVIS: remove it or choose another destination"):
        fetch(server, tmp_path / "davis")
    assert (tmp_path / "davis" / "mine.txt").read_text() == "keep"
    (tmp_path / "file").write_text("a file")
    with pytest.raises(CBMError, match=r"cannot write .*file/davis"):
        fetch(server, tmp_path / "file" / "davis")
