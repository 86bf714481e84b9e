"""A picture of all clips of a source, to look at."""

from __future__ import annotations

from PIL import Image, ImageDraw

from .clips import Split, VideoSource

LABEL = 12  # pixels under each tile for the clip's name


def contact_sheet(
    source: VideoSource, split: Split = "train", *, columns: int = 10, tile: int = 96, limit: int | None = None
) -> Image.Image:
    """The middle frame of every clip (or of the first `limit`), with its name."""
    names = source.names(split)[:limit]
    rows = -(-len(names) // columns)
    sheet = Image.new("RGB", (min(columns, len(names)) * tile, rows * (tile + LABEL)), "white")
    pen = ImageDraw.Draw(sheet)
    for i, name in enumerate(names):
        clip = source.clip(name)
        x, y = i % columns * tile, i // columns * (tile + LABEL)
        picture = Image.fromarray(clip[len(clip) // 2]).resize((tile, tile), Image.Resampling.LANCZOS)
        sheet.paste(picture, (x, y))
        pen.text((x + 2, y + tile), name.rpartition("/")[2][: tile // 6], fill="black")
    return sheet
