"""A browser for the tests of the page, started once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from browser import FLAGS, find_browser


@pytest.fixture(scope="session")
def chromium():
    executable = find_browser()
    if executable is None:
        message = "no Chromium here; make browser installs one"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium):
    """Opens a page from a file or an address, offline; at the end there must have been no error and no request."""
    contexts, complaints = [], []

    def open_it(target: Path | str, **options):
        options.setdefault("viewport", {"width": 1200, "height": 900})
        context = chromium.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(30_000)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        local = target.as_uri() if isinstance(target, Path) else target

        def watch(request):
            if not request.url.startswith((local, "data:", "blob:")):
                complaints.append(f"asked for {request.url}")

        page.on("request", watch)
        page.goto(local)
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert not complaints
