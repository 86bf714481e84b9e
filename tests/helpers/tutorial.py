"""Runs the tutorial from top to bottom. As a script it stores the outputs in the notebook: `make tutorial`."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.ipynb"


class CellFailed(Exception):
    """A cell that did not run to its end; the message says which, and why."""


def execute(notebook: NotebookNode, folder: Path, timeout: int = 900) -> NotebookNode:
    """Run every cell in a fresh kernel, in the current folder `folder`. Outputs are put into `notebook`."""
    client = NotebookClient(
        notebook,
        timeout=timeout,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    private = tempfile.TemporaryDirectory()  # for IPython's history
    with private as home, client.setup_kernel(env=os.environ | {"IPYTHONDIR": home}):
        for index, cell in enumerate(notebook.cells):
            try:
                client.execute_cell(cell, index)
            except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
                raise CellFailed(f"{name_of(notebook, index)} failed: {error}") from None
    return notebook


def name_of(notebook: NotebookNode, index: int) -> str:
    """Which cell that is for somebody who looks at the notebook: its number, as in `[3]`, and its first line."""
    number = sum(cell.cell_type == "code" for cell in notebook.cells[: index + 1])
    return f"code cell {number} ({notebook.cells[index].source.partition(chr(10))[0]!r})"


def fingerprint(notebook: NotebookNode) -> str:
    """Of the code: the stored outputs are those of the stored code if it is the same as when they were made."""
    code = "\0".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def store(path: Path) -> None:
    """Run the notebook and write it with its outputs; of pictures only the PNG, not their names in memory."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        execute(notebook, Path(folder))
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", {}):
                output.data = {"image/png": output.data["image/png"]}
    notebook.metadata["fingerprint"] = fingerprint(notebook)
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"  # as in the tests
    store(TUTORIAL)
