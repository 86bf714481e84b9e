"""The browser that pages are tested in: Debian's Chromium, Chrome, or the one that Playwright has fetched.

Run as a script it says which, and ends with 1 where there is none; `make browser` asks it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# As root there is no sandbox; the others keep Chromium from calling home.
FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]


def find_browser() -> str | None:
    """The path of an executable; None where there is none."""
    named = os.environ.get("CBM_BROWSER")
    if named:
        return named
    for name in NAMES:
        path = shutil.which(name)
        if path and not _is_snap_stub(Path(path)):
            return path
    try:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            own = playwright.chromium.executable_path
    except Exception:  # not installed, or cannot run here
        return None
    return own if Path(own).exists() else None


def _is_snap_stub(path: Path) -> bool:
    """Ubuntu's /usr/bin/chromium-browser is a script that asks for a snap."""
    with path.open("rb") as file:
        return b"snap install" in file.read(4000) and not Path("/snap/bin/chromium").exists()


@contextmanager
def opened_pages(chromium: Any, width: int, complete: bool = False) -> Iterator[Callable[..., Any]]:
    """A function that opens an address, each in a context of its own.

    At the end there must have been no message, no error and no request for anything but `home` and what is under it;
    with `complete` none that failed either.
    """
    contexts, complaints = [], []

    def open_it(address: str, home: str, **options: Any) -> Any:
        context = chromium.new_context(**{"viewport": {"width": width, "height": 900}, **options})
        contexts.append(context)
        context.set_default_timeout(30_000)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))

        def watch(request: Any) -> None:
            if not request.url.startswith((home, "data:", "blob:")):
                complaints.append(f"asked for {request.url}")

        def failed(request: Any) -> None:
            if complete and request.failure != "net::ERR_ABORTED":  # that is the browser going on to another page
                complaints.append(f"{request.failure}: {request.url}")

        page.on("request", watch)
        page.on("requestfailed", failed)
        page.goto(address)
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert not complaints


if __name__ == "__main__":
    found = find_browser()
    print(found or "no browser")
    sys.exit(found is None)
