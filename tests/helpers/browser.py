"""The browser that the page is tested in: Debian's Chromium, Chrome, or the one that Playwright has fetched.

Run as a script it says which, and ends with 1 where there is none; `make browser` asks it.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

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


if __name__ == "__main__":
    found = find_browser()
    print(found or "no browser")
    sys.exit(found is None)
