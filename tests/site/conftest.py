"""The site, built once, and a browser to open it in."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    contexts, complaints = [], []

    def open_it(name: str = "index.html", **options):
        options.setdefault("viewport", {"width": 1280, "height": 900})
        context = chromium.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(30_000)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))

        def failed(request):
            if request.failure != "net::ERR_ABORTED":  # that is the browser going on to another page
                complaints.append(f"{request.failure}: {request.url}")

        def watch(request):
            if not request.url.startswith((site.as_uri(), "data:", "blob:")):
                complaints.append(f"asked for {request.url}")

        page.on("requestfailed", failed)
        page.on("request", watch)
        page.goto(f"{site.as_uri()}/{name}")
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert not complaints
