"""Tests use networks too small for threads, and two of them run at once. Some press Ctrl-C, some need a browser."""

from __future__ import annotations

import os
import signal

import pytest

from browser import FLAGS, find_browser

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before PyTorch is imported, here and in the processes that tests start
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs them in the background has it ignored


@pytest.fixture(scope="session")
def chromium():
    """A browser for the tests of pages, started once."""
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
