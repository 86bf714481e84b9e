"""Opens pages for the tests of the report, without a network."""

from __future__ import annotations

from pathlib import Path

import pytest


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
