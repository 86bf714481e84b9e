"""The site, built once, and a browser to open it in."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser import opened_pages
from site_build import ROOT, build


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def browse(chromium, site):
    """Opens a page of the site as a file. At the end there must have been no message and no request elsewhere."""
    home = site.as_uri()
    with opened_pages(chromium, width=1280, complete=True) as open_it:
        yield lambda name="index.html", **options: open_it(f"{home}/{name}", home, **options)
