"""Waiting for a page without `wait_for_function`, which the page's own policy forbids (it evaluates strings)."""

from __future__ import annotations

import time


def until(page, condition: str, seconds: float = 30.0) -> None:
    """Until an expression is true in the page."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, f"never came true: {condition}"
        page.wait_for_timeout(50)
