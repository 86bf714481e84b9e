"""The page as one file: template, style, script and data in one text, with nothing to fetch."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from cbm.report.data import page_data, run_data
from cbm.report.media import Medium, embed, media_of
from cbm.runs.labels import label_runs
from cbm.runs.read import Loaded, Problem, Run
from cbm.system.files import write_whole

_SCRIPTS = ("base.js", "stats.js", "chart.js", "tsne.js", "sections.js", "page.js")
_NARROW = "default-src 'none'; img-src data: blob:; media-src data: blob:"  # fetches nothing
_LIVE = "default-src 'none'; img-src 'self' data: blob:; media-src 'self' blob:; connect-src 'self'"


@dataclass(frozen=True)
class Written:
    """A page on the disk, and what is not in it."""

    path: Path
    size: int
    left_out: int  # films and pictures that did not fit
    problems: Sequence[Problem]


def write_page(loaded: Loaded, path: Path, title: str, budget: int) -> Written:
    """Write the page of these runs to a file of at most about `budget` bytes."""
    problems = list(loaded.problems)
    shown = show_each(loaded.runs, problems, run_data)
    runs = [run for run, _ in shown]
    media = [medium for _, found in shown for medium in found]
    texts, about = embed(media, runs, budget - len(to_json(runs)) - 250_000, problems)
    for run, found in shown:
        run["media"] = [medium.describe() | about[medium.key] for medium in found if medium.key in about]
    blocks = [f'<script type="text/plain" id="{place}">{_escape(text)}</script>' for place, text in texts.items()]
    encoded = assemble(page_data(title, runs, problems, live=False), blocks).encode()
    write_whole(path, encoded)
    return Written(path, len(encoded), sum("left_out" in each for each in about.values()), problems)


def show_each(
    runs: Sequence[Run], problems: list[Problem], numbers: Callable[[Run], dict[str, Any]]
) -> list[tuple[dict[str, Any], list[Medium]]]:
    """The numbers of each run, with its labels, and its media. A run that cannot be shown is left out and reported."""
    shown = []
    for run in runs:
        try:
            label_runs([run])
            media = media_of(run, problems)
            data = numbers(run)
            to_json([data, [medium.describe() for medium in media]])
        except Exception as error:  # its files may hold anything, and must not break the other runs
            problems.append(Problem(run.path, f"skipped: it cannot be shown ({type(error).__name__}: {error})"))
        else:
            shown.append((run, data, media))
    labels = label_runs([run for run, _, _ in shown])
    return [(data | label._asdict(), media) for (_, data, media), label in zip(shown, labels, strict=True)]


def assemble(data: Mapping[str, Any], blocks: Sequence[str] = ()) -> str:
    """The text of the page. Its policy allows only its own script and style, by their checksums."""
    static = resources.files("cbm.report") / "static"
    page, style, *parts = ((static / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", *_SCRIPTS))
    script = '"use strict";\n(() => {\n' + "\n".join(parts) + "\n})();\n"
    policy = f"{_LIVE if data['live'] else _NARROW}; script-src {_checksum(script)}; style-src {_checksum(style)}"
    holes = {"policy": policy, "style": style, "data": to_json(data), "media": "\n".join(blocks), "script": script}
    return re.sub(r"\{\{(\w+)\}\}", lambda hole: holes[hole.group(1)], page)  # in one pass, as values may hold braces


def to_json(data: object) -> str:
    """JSON that is safe inside a script element, whatever it contains."""
    return _escape(json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False))


def _escape(text: str) -> str:
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return text.encode("utf-8", "replace").decode()  # a lone surrogate, as odd file names have, becomes a question mark


def _checksum(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def count_states(runs: Sequence[Run]) -> str:
    """`5 runs: 4 complete, 1 running`."""
    found = Counter(run.status.state for run in runs)
    states = [f"{found[state]} {state}" for state in ("complete", "running", "stopped", "failed") if found[state]]
    return f"{len(runs)} run{'s' * (len(runs) != 1)}: {', '.join(states)}"
