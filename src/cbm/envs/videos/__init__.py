"""Videos for the background: generated ones, DAVIS, or a folder of your own. A new source is one line in `SOURCES`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw

from cbm.envs.rendering.pictures import picture_grid
from cbm.errors import CBMError, UnknownChoice

from .builtin import BuiltinSource
from .clips import SPLITS, Split, VideoSource
from .davis import LISTS, DavisSource, default_root, find_frames
from .folder import FolderSource

SOURCES: dict[str, Callable[..., VideoSource]] = {
    "builtin": BuiltinSource,
    "davis": DavisSource,
    "folder": FolderSource,
}
WITHOUT_PATH = {"builtin"}
LABEL = 12  # pixels under each tile of a contact sheet for the clip's name


def open_source(spec: str = "builtin") -> VideoSource:
    """`builtin`, `davis` (in the cache or at `$CBM_DAVIS`), `davis:/path`, or the path of a folder."""
    name, colon, path = spec.partition(":")
    if name in SOURCES:
        if colon and (name in WITHOUT_PATH or not path):
            usage = f"`{name}`, without a path" if name in WITHOUT_PATH else f"`{name}:/path/to/folder`"
            raise CBMError(f"video source {spec!r}: write {usage}.")
        if name == "folder" and not path:
            raise CBMError("video source 'folder' needs a path: `folder:/path/to/folder`.")
        return SOURCES[name](path) if path else SOURCES[name]()
    folder = Path(spec).expanduser()
    is_path = folder.exists() or spec.startswith((".", "~")) or os.sep in spec or "/" in spec
    if not is_path:
        others = ("davis:/path", "folder:/path", "or the path of a folder with videos (such as ./my-videos)")
        raise UnknownChoice("video source", spec, [*(name for name in SOURCES if name != "folder"), *others])
    return DavisSource(folder) if find_frames(folder) is not None else FolderSource(folder)


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


class SourceInfo(NamedTuple):
    name: str
    train: int
    unseen: int
    where: str


def list_sources() -> list[SourceInfo]:
    """What can be used on this machine, for `cbm videos list`."""
    train, unseen = (len(BuiltinSource().names(split)) for split in SPLITS)
    rows = [SourceInfo("builtin", train, unseen, "generated when first used")]
    try:
        davis = DavisSource()
    except CBMError:
        return [*rows, SourceInfo("davis", 0, 0, f"not in {default_root()}; get it: cbm videos download davis")]
    train, unseen = (len(LISTS[split]) - len(davis.missing(split)) for split in SPLITS)
    return [*rows, SourceInfo("davis", train, unseen, str(davis.frames))]
