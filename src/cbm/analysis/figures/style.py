"""What every figure has in common: PNG for screens, SVG for print, and a CSV with the numbers behind it.

Lines and points differ in style and marker, not only in colour, and colours differ in brightness, so that a figure
survives a black-and-white printer. Nothing in the files depends on when they were made.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cbm.system.child import outside
from cbm.system.files import write_whole

with outside():  # matplotlib would read a `matplotlibrc` in the current folder
    import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

matplotlib.rcParams |= {
    "figure.dpi": 150,
    "savefig.dpi": 150,
    "font.size": 9,
    "axes.titlesize": 9,
    "legend.fontsize": 7.5,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "cbm",  # the same ids in the same figure
}

Table = Iterable[Sequence[object]]  # rows of cells


class Style(NamedTuple):
    """How one method is drawn."""

    color: str
    linestyle: str | tuple[int, tuple[int, ...]]
    marker: str

    def line(self) -> dict[str, Any]:
        return {"color": self.color, "linestyle": self.linestyle, "marker": self.marker, "markersize": 4}


# From dark to light, so that neighbours differ in grey too.
STYLES = (
    Style("#12375c", "-", "o"),
    Style("#d1495b", "--", "s"),
    Style("#2e8b57", "-.", "^"),
    Style("#e08e1b", ":", "D"),
    Style("#6c4ab6", (0, (5, 1, 1, 1, 1, 1)), "v"),
    Style("#4aa5c4", (0, (8, 2)), "P"),
    Style("#8a8a3c", (0, (1, 1)), "X"),
    Style("#777777", (0, (3, 3)), "*"),
)


def style(index: int) -> Style:
    """The style of a method. After the last colour they repeat, with another line style and marker."""
    again = STYLES[(index + 3 * (index // len(STYLES))) % len(STYLES)]
    return Style(STYLES[index % len(STYLES)].color, again.linestyle, again.marker)


def save(figure: Figure, folder: Path, name: str, header: Sequence[str], rows: Table) -> list[Path]:
    """Write `name`.png, .svg and .csv to `folder`, and close the figure."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = [folder / f"{name}.png", folder / f"{name}.svg"]
    for path in pictures:
        form, output = path.suffix[1:], io.BytesIO()
        figure.savefig(output, format=form, bbox_inches="tight", metadata={"Date": None} if form == "svg" else None)
        write_whole(path, output.getvalue(), folder)
    plt.close(figure)
    return [*pictures, write_csv(folder / f"{name}.csv", header, rows)]


def write_csv(path: Path, header: Sequence[str], rows: Table) -> Path:
    """Numbers with six digits; None as an empty cell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    write_whole(path, text.getvalue().encode(), path.parent)
    return path


def thousands(env_step: int) -> str:
    """`90.4K` for 90376."""
    return f"{round(env_step / 1000, 1):g}K"
