"""A picture of all clips of a source, to look at."""

from __future__ import annotations

from PIL import Image, ImageDraw

from cbm.envs.rendering.pictures import picture_grid

from .clips import Split, VideoSource

LABEL = 12  # pixels under each tile for the clip's name


def contact_sheet(source: VideoSource, split: Split = "train", columns: int = 10, tile: int = 96) -> Image.Image:
    """The middle frame of every clip, with its name."""
    names = source.names(split)
    clips = [source.clip(name) for name in names]
    middles = [clip[len(clip) // 2] for clip in clips]
    sheet = picture_grid(middles, columns, (tile, tile), Image.Resampling.LANCZOS, below=LABEL)
    pen = ImageDraw.Draw(sheet)
    for i, name in enumerate(names):
        x, y = i % columns * tile, i // columns * (tile + LABEL)
        pen.text((x + 2, y + tile), name.rpartition("/")[2][: tile // 6], fill="black")
    return sheet
