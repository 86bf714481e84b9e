"""Runs made with bad intentions, in `cbm report` and `cbm watch`: no script runs, no foreign file is shown."""

from __future__ import annotations

import base64
import http.client
import json
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from attempt import attempt

from cbm.report.server import LiveData, Server
from toy import tiny_options

SECRET = "the secret of somebody else, long enough to be found in base64 at any of its three offsets"
SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
PICTURE = f'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(3)</script><text>{SECRET}</text></svg>'


class Host:
    """A good run, of which each try makes a hostile one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.good, self.secret = folder, folder / "good", folder / "secret.txt"
        self.secret.write_text(SECRET)
        outcome = attempt(["train", *tiny_options(training__total_steps=120), "--out", self.good], folder, 600)
        assert outcome.status == 0, outcome.text

    def attack(self, number: int) -> str | None:
        """What went wrong with a report on the hostile run, and with a server that shows it."""
        dice = random.Random(number)
        run = self.folder / dice.choice([f"run-{number}", f"run-{number}-" + SCRIPT.replace("/", "∕")])
        shutil.copytree(self.good, run)
        what = dice.choice([self._strings, self._link, self._drawing])(run, dice)
        try:
            return next((f"{what}: {wrong}" for wrong in (*self._report(run), *self._served(run)) if wrong), None)
        finally:
            shutil.rmtree(run)

    def _strings(self, run: Path, dice: random.Random) -> str:
        """A script in the place of some texts of a JSON file."""
        path = run / dice.choice(["config.json", "evals.jsonl", "metrics.jsonl", "analysis.jsonl"])
        if path.exists():
            lines = [path.read_text()] if path.suffix == ".json" else path.read_text().splitlines()
            changed = [json.dumps(_replaced(json.loads(line), dice)) for line in lines if line.strip()]
            path.write_text("\n".join(changed) + "\n")
        return f"scripts in {path.name}"

    def _link(self, run: Path, dice: random.Random) -> str:
        """A link to a file outside, under a name that is shown or read."""
        names = ["videos/best-000000120.mp4", "figures/x.png", "figures/x.svg", "config.json", "evals.jsonl", "videos"]
        name = dice.choice(names)
        path = run / name
        if path.is_dir():
            shutil.rmtree(path)
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(self.secret if name != "videos" else self.folder)
        return f"{name} as a link"

    def _drawing(self, run: Path, dice: random.Random) -> str:
        """A picture with a script in it; what it says itself may be shown."""
        folder = run / dice.choice(["figures", "videos"])
        folder.mkdir(exist_ok=True)
        (folder / dice.choice(["x.svg", "x.png", "x.mp4"])).write_text(PICTURE.replace(SECRET, ""))
        return f"a drawing with a script in {folder.name}"

    def _report(self, run: Path) -> Iterator[str | None]:
        page = self.folder / "page.html"
        page.unlink(missing_ok=True)
        outcome = attempt(["report", run, self.good, "-o", page], self.folder)
        yield outcome.complaint and f"{outcome.complaint}: {outcome.text[-2000:]}"
        yield None if page.exists() else f"the good run is not shown either: {outcome.text}"
        text = page.read_text() if page.exists() else ""
        yield "a script in the page" if "<script>alert" in text or "<img src=x" in text else None
        yield "a foreign file in the page" if _holds_secret(text) else None

    def _served(self, run: Path) -> Iterator[str | None]:
        with Server(LiveData([run, self.good], "title"), 0) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            for path in _paths(run):
                connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
                connection.request("GET", path)
                answer = connection.getresponse()
                text = answer.read().decode(errors="replace")
                policy = answer.getheader("Content-Security-Policy") or ""
                connection.close()
                if _holds_secret(text):
                    yield f"a foreign file at {path}"
                if answer.status >= 500:
                    yield f"status {answer.status} at {path}"
                if "svg" in (answer.getheader("Content-Type") or "") and "sandbox" not in policy:
                    yield f"a drawing that may run scripts at {path}"
            server.shutdown()


def _replaced(value: object, dice: random.Random) -> object:
    """The same JSON with every third text replaced by a script."""
    if isinstance(value, dict):
        return {key: _replaced(item, dice) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, dice) for item in value]
    return SCRIPT if isinstance(value, str) and dice.random() < 0.3 else value


def _paths(run: Path) -> Iterator[str]:
    """Everything of the run by its own name, and some ways out of it."""
    files = [path.relative_to(run).as_posix() for path in run.rglob("*") if "replay" not in path.parts]
    for start in ("", f"/{quote(run.name)}", "/media", "/media/0", "/film", "/figures"):
        yield from (f"{start}/{quote(name)}" for name in files[:12])
        yield from (f"{start}/{out}secret.txt" for out in ("../", "%2e%2e/", "..%2f", "/../../", "....//"))
    yield from ("/", "/data.json", "//etc/hostname", "/%00", "/" + "a" * 5_000)


def _holds_secret(text: str) -> bool:
    pieces = [base64.b64encode(b"x" * offset + SECRET.encode()).decode()[8:-8] for offset in range(3)]
    return SECRET in text or any(piece in text for piece in pieces)
