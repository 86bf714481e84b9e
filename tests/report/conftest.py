"""Opens pages for the tests of the report, without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser import opened_pages


@pytest.fixture
def open_page(chromium):
    """Opens a page from a file or an address, offline; at the end there must have been no error and no request."""
    with opened_pages(chromium, width=1200) as open_it:

        def ready(target: Path | str, **options):
            address = target.as_uri() if isinstance(target, Path) else target
            page = open_it(address, home=address, **options)
            page.wait_for_selector("html[data-ready]", state="attached")
            return page

        yield ready
