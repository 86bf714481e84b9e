"""As many runs as the paper has: how large the page is, and how fast it opens."""

from __future__ import annotations

import json

import pytest

from cbm.cli import main
from synthetic import write_many

PAINTED = """() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"""


@pytest.mark.slow
def test_two_hundred_runs_stay_small_and_open_fast(tmp_path, open_page):
    write_many(tmp_path / "runs", 200)
    path = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "runs"), "-o", str(path)]) == 0
    assert path.stat().st_size < 20_000_000
    seconds = []
    for _ in range(3):
        page = open_page(path)
        seconds.append(page.evaluate(PAINTED) / 1000)
    print(f"{path.stat().st_size / 1e6:.1f} MB, opened in {', '.join(f'{s:.2f}' for s in seconds)} s")
    assert min(seconds) < 3.0  # the others may have met a busy machine
    runs = json.loads(page.locator("#data").text_content())["runs"]
    assert len(runs) == 200
    settings = {(run["task"], run["method"]) for run in runs}
    embedded = [medium for run in runs for medium in run["media"] if medium["kind"] == "film" and "embed" in medium]
    assert len(embedded) >= len(settings)  # a film of each
    assert page.locator("#left-out").is_visible()
