"""The names that `cbm` itself offers, for the page about the Python API."""

from __future__ import annotations

import cbm

MARK = "<!-- names of cbm -->"


def fill(text: str) -> str:
    """The page's text, with every public name of the package in the place of the mark."""
    if MARK not in text:
        raise ValueError(f"the page about the API has no {MARK}")
    names = [name for name in cbm.__all__ if not name.startswith("_")]
    names.sort(key=lambda name: (name[0].isupper(), name))  # functions, then classes
    return text.replace(MARK, "\n\n".join(f"::: cbm.{name}" for name in names))
