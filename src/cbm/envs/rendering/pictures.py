"""Pictures on one sheet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image


def picture_grid(
    pictures: Sequence[np.ndarray],
    columns: int,
    size: tuple[int, int],
    how: Image.Resampling = Image.Resampling.NEAREST,
    *,
    left: int = 0,
    top: int = 0,
    above: int = 0,
    below: int = 0,
) -> Image.Image:
    """Pictures (H, W, 3), resized to `size` (width, height), row by row on a white sheet.

    Pixels for text: `left` and `top` of the whole sheet, `above` and `below` each row.
    """
    width, height = size
    pitch = above + height + below
    rows = -(-len(pictures) // columns)
    sheet = Image.new("RGB", (left + width * min(columns, len(pictures)), top + pitch * rows), "white")
    for index, picture in enumerate(pictures):
        resized = Image.fromarray(np.ascontiguousarray(picture)).resize(size, how)
        sheet.paste(resized, (left + index % columns * width, top + index // columns * pitch + above))
    return sheet
