"""The tutorial: it runs from top to bottom, what is stored in it is what it prints, and its page shows it."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tutorial import TUTORIAL, CellFailed, execute, fingerprint


@pytest.fixture(scope="module")
def stored() -> NotebookNode:
    notebook = nbformat.read(TUTORIAL, as_version=4)
    nbformat.validate(notebook)
    return notebook


def kinds(notebook: NotebookNode) -> list[list[str]]:
    """What each cell left behind: pictures, or something that was printed."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [["picture" if is_picture(output) else output.get("name") for output in cell.outputs] for cell in cells]


def is_picture(output: NotebookNode) -> bool:
    return "image/png" in output.get("data", {})


def printed(notebook: NotebookNode) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output.text for output in outputs if output.output_type == "stream")


@pytest.mark.timeout(2400)  # about a minute and a half of processor time
def test_it_runs_from_top_to_bottom(stored, tmp_path):
    played = execute(nbformat.from_dict(stored), tmp_path)
    assert kinds(played) == kinds(nbformat.read(TUTORIAL, as_version=4))
    assert not list(tmp_path.iterdir())  # it leaves no files where it is run
    by_chance, learned = map(float, re.search(r"random actions: (.+); the last 20 .+: (.+)", printed(played)).groups())
    assert learned > by_chance + 3  # the small agent with CBM


def test_what_is_stored_belongs_to_the_code(stored):
    assert stored.metadata["fingerprint"] == fingerprint(stored), "type: make tutorial"
    pictures = [kind for cell in kinds(stored) for kind in cell if kind == "picture"]
    assert len(pictures) == 9
    assert {kind for cell in kinds(stored) for kind in cell} == {"picture", "stdout"}
    assert TUTORIAL.stat().st_size < 1_500_000


def test_nothing_of_the_machine_is_stored(stored):
    text = printed(stored) + str(stored.metadata) + "".join(str(cell.metadata) for cell in stored.cells)
    assert not re.findall(
        r"/(?:home|root|tmp|usr|opt|work|mnt|Users)\b|\b0x[0-9a-f]{6,}|\d\d:\d\d:\d\d|\d ?m?s\b", text
    )


def test_every_picture_has_a_description(stored):
    for cell in stored.cells:
        if any(map(is_picture, cell.get("outputs", ()))):
            assert len(cell.metadata["alt"]) > 20


def test_a_cell_that_fails_is_named(tmp_path):
    cells = [new_markdown_cell("# Title"), new_code_cell("x = 1"), new_code_cell("# divide\nx / 0"), new_code_cell("y")]
    with pytest.raises(CellFailed, match=r"(?s)code cell 2 \('# divide'\) failed.*ZeroDivisionError"):
        execute(new_notebook(cells=cells), tmp_path)


def test_a_kernel_that_dies_is_the_fault_of_a_cell(tmp_path):
    notebook = new_notebook(cells=[new_code_cell("import os"), new_code_cell("os._exit(3)")])
    with pytest.raises(CellFailed, match=r"code cell 2 \('os._exit\(3\)'\) failed"):
        execute(notebook, tmp_path)


def test_its_page(stored, site: Path, browse):
    page = browse("tutorial.html")
    assert page.locator("article h2").count() == 6
    pictures = page.locator("article img")
    assert pictures.count() == 9
    assert pictures.evaluate_all("all => all.every(image => image.complete && image.naturalWidth > 100 && image.alt)")
    assert page.locator("article .output").count() == sum(kind == "stdout" for cell in kinds(stored) for kind in cell)
    page.get_by_role("link", name="Train", exact=True).first.click()
    page.wait_for_url("**/training.html")
    assert (site / "tutorial.ipynb").read_bytes() == TUTORIAL.read_bytes()
