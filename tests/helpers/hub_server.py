"""As much of the Hugging Face Hub as push and pull speak to, on 127.0.0.1: repositories, commits, LFS, downloads."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hub:
    """Repositories in memory: {repository: {path: bytes}}."""

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, bytes]] = {}
        self.lfs: dict[str, bytes] = {}
        self.commits = 0
        hub = self

        class Handler(_Handler):
            at = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def sha(self) -> str:
        return f"{self.commits:040x}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    at: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *words: Any) -> None:
        pass

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, data: Any, status: int = 200, **headers: str) -> None:
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _missing(self) -> None:
        self._answer({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")

    def do_POST(self) -> None:
        path, body = self.path.partition("?")[0], self._body()
        if path == "/api/repos/create":
            asked = json.loads(body)
            repo = f"{asked.get('organization') or 'somebody'}/{asked['name']}"
            self.at.repos.setdefault(repo, {})
            self._answer({"url": f"{self.at.url}/{repo}", "name": repo})
        elif path.endswith("/info/lfs/objects/batch"):
            objects = [
                {**each, "actions": {"upload": {"href": f"{self.at.url}/lfs/{each['oid']}"}}}
                for each in json.loads(body)["objects"]
            ]
            self._answer({"transfer": "basic", "objects": objects})
        elif "/preupload/" in path:
            modes = [
                {
                    "path": file["path"],
                    "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular",
                    "shouldIgnore": False,
                }
                for file in json.loads(body)["files"]
            ]
            self._answer({"files": modes})
        elif "/commit/" in path:
            repo = path.removeprefix("/api/models/").partition("/commit/")[0]
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    self.at.repos[repo][value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    self.at.repos[repo][value["path"]] = self.at.lfs[value["oid"]]
            self.at.commits += 1
            self._answer({"commitUrl": f"{self.at.url}/{repo}/commit/{self.at.sha}", "commitOid": self.at.sha})
        else:
            self._answer({"error": path}, 404)

    def do_PUT(self) -> None:
        body = self._body()
        self.at.lfs[hashlib.sha256(body).hexdigest()] = body
        self._answer(b"")

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/"):
            repo = path.removeprefix("/api/models/").partition("/revision/")[0]
            if repo not in self.at.repos:
                return self._missing()
            siblings = [{"rfilename": name} for name in self.at.repos[repo]]
            return self._answer({"id": repo, "modelId": repo, "sha": self.at.sha, "siblings": siblings})
        repo, _, rest = path.removeprefix("/").partition("/resolve/")
        data = self.at.repos.get(repo, {}).get(rest.partition("/")[2].replace("%2B", "+"))
        if data is None:
            return self._missing()
        self._answer(data, ETag=f'"{hashlib.sha256(data).hexdigest()}"', X_Repo_Commit=self.at.sha)

    do_HEAD = do_GET
