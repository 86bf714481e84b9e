"""The page, live on localhost: it asks for new numbers every few seconds and keeps its filters and zoom."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, unquote, urlsplit

from cbm.errors import CBMError
from cbm.report.data import page_data, run_data
from cbm.report.media import POSTER_TYPE, TYPES, Medium, poster, read_embedding
from cbm.report.page import assemble, show_each, to_json
from cbm.runs.read import Problem, Run, load_runs

_PAUSE = 1.5  # seconds during which an answer is reused without looking at the disk


class LiveData:
    """The current numbers of the runs below some folders. Runs whose files did not change are not computed again."""

    def __init__(self, paths: Sequence[Path], title: str) -> None:
        self._paths, self._title = paths, title
        self._known: dict[Path, tuple[Run, dict[str, Any]]] = {}
        self._media: dict[str, Medium] = {}
        self._lock = threading.Lock()
        self._asked = -1e9
        self._text, self._tag = "", ""

    def data(self) -> tuple[str, str]:
        """The numbers as JSON, and a tag that changes with them."""
        with self._lock:
            if time.monotonic() - self._asked > _PAUSE:
                text = to_json(self._look())
                self._text, self._tag = text, hashlib.sha256(text.encode()).hexdigest()[:16]
                self._asked = time.monotonic()
            return self._text, self._tag

    def medium(self, key: str) -> Medium | None:
        """A file that the page may ask for: only one that was listed."""
        with self._lock:
            return self._media.get(key)

    def _look(self) -> dict[str, Any]:
        loaded = load_runs(self._paths)
        problems = list(loaded.problems)
        known, self._known = self._known, {}

        def numbers(run: Run) -> dict[str, Any]:
            old, data = known.get(run.path, (None, {}))
            self._known[run.path] = run, data if old == run else run_data(run)
            return self._known[run.path][1]

        shown = show_each(loaded.runs, problems, numbers)
        self._media = {medium.key: medium for _, media in shown for medium in media}
        runs = [run | {"media": [_described(medium) for medium in media]} for run, media in shown]
        return page_data(self._title, runs, problems, live=True)


def _described(medium: Medium) -> dict[str, Any]:
    try:
        version = medium.path.lstat().st_mtime_ns
    except OSError:
        version = 0
    place = f"{quote(medium.key)}?v={version}"
    still = {"poster": f"poster/{place}"} if medium.kind == "film" else {}
    return medium.describe() | {"url": f"media/{place}"} | still


class Server(ThreadingHTTPServer):
    """For this machine only."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256  # waiting requests; with the default of 5, browsers retry after seconds

    def __init__(self, board: LiveData, port: int) -> None:
        self.board = board
        try:
            super().__init__(("127.0.0.1", port), Handler)
        except (OSError, OverflowError) as error:
            raise CBMError(_port_hint(port, error)) from None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


def _port_hint(port: int, error: Exception) -> str:
    if not 0 <= port < 65536:
        return f"--port {port}: ports go from 1 to 65535; 0 takes any that is free."
    reason = getattr(error, "strerror", None) or str(error)
    return f"port {port} cannot be used ({reason}). Type --port {port + 1 if port < 65535 else 0}, or --port 0 for any."


class Handler(BaseHTTPRequestHandler):
    """Serves the page, its numbers, the files that the numbers name, and stills of the films among them."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "cbm"
    sys_version = ""
    _HOSTS: ClassVar[frozenset[str]] = frozenset({"localhost", "127.0.0.1"})

    def do_GET(self) -> None:
        if (self.headers.get("Host") or "").rpartition(":")[0] not in self._HOSTS:  # another host name that points here
            self._head(HTTPStatus.FORBIDDEN, {})
            return
        path = unquote(urlsplit(self.path).path)
        kind, _, key = path[1:].partition("/")
        try:
            if path == "/":
                page = assemble({"live": True}).encode()
                self._send(page, "text/html; charset=utf-8", {"Cache-Control": "no-store"})
            elif path == "/data.json":
                self._numbers()
            elif kind in ("media", "poster") and (medium := self.server.board.medium(key)) is not None:
                self._file(medium, still=kind == "poster")
            else:
                self._head(HTTPStatus.NOT_FOUND, {})
        except (BrokenPipeError, ConnectionResetError):  # the browser went away
            self.close_connection = True

    do_HEAD = do_GET

    def _numbers(self) -> None:
        text, tag = self.server.board.data()
        headers = {"ETag": f'"{tag}"', "Cache-Control": "no-cache"}
        if self.headers.get("If-None-Match") == f'"{tag}"':
            self._head(HTTPStatus.NOT_MODIFIED, headers)
        else:
            self._send(text.encode(), "application/json", headers)

    def _file(self, medium: Medium, still: bool) -> None:
        """A medium, or the still of a film: all of it, or the range that the browser asks for."""
        try:
            content = poster(medium.read()) if still else medium.read()
            if content is not None and medium.kind == "tsne":
                content = read_embedding(content).encode()
        except (OSError, ValueError):
            content = None
        if content is None:
            self._head(HTTPStatus.NOT_FOUND, {})
            return
        size = len(content)
        form = POSTER_TYPE if still else medium.type
        fresh = "private, max-age=86400" if still else "no-cache"  # the address of a still has a version
        headers = {"Accept-Ranges": "bytes", "Cache-Control": fresh}
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if not asked or not any(asked.groups()):
            self._send(content, form, headers)
            return
        start, end = asked.groups()
        first = int(start) if start else max(0, size - int(end))
        last = min(int(end), size - 1) if start and end else size - 1
        if first > last:
            self._head(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, {"Content-Range": f"bytes */{size}"})
            return
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        self._send(content[first : last + 1], form, headers, HTTPStatus.PARTIAL_CONTENT)

    def _send(self, content: bytes, kind: str, headers: dict[str, str], status: HTTPStatus = HTTPStatus.OK) -> None:
        self._head(status, {"Content-Type": kind, "Content-Length": str(len(content)), **headers})
        if self.command != "HEAD":
            self.wfile.write(content)

    def _head(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        self.send_header("X-Content-Type-Options", "nosniff")
        if headers.get("Content-Type") == TYPES[".svg"]:  # which may hold scripts
            self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers and status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a log of requests does not belong in the terminal of a training run."""


def problems_of(paths: Sequence[Path]) -> list[Problem]:
    """What is wrong with the folders themselves, before anything is served."""
    return [Problem(path, "is a file" if path.exists() else "does not exist") for path in paths if not path.is_dir()]
