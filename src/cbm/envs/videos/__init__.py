"""Videos for the background: generated ones, DAVIS, or a folder of your own. A new source is one line in `SOURCES`."""

from __future__ import annotations

import os
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from cbm.errors import CBMError

from .builtin import BuiltinSource
from .clips import SPLITS, VideoSource
from .davis import LISTS, DavisSource, default_root, find_frames
from .folder import FolderSource
from .sheet import contact_sheet as contact_sheet

SOURCES: dict[str, Callable[..., VideoSource]] = {
    "builtin": BuiltinSource,
    "davis": DavisSource,
    "folder": FolderSource,
}
WITHOUT_PATH = {"builtin"}


def open_source(spec: str = "builtin") -> VideoSource:
    """`builtin`, `davis` (in the cache or at `$CBM_DAVIS`), `davis:/path`, or the path of a folder."""
    name, colon, path = str(spec).partition(":")
    if name in SOURCES:
        if colon and (name in WITHOUT_PATH or not path):
            usage = f"`{name}`, without a path" if name in WITHOUT_PATH else f"`{name}:/path/to/folder`"
            raise CBMError(f"video source {spec!r}: write {usage}.")
        if name == "folder" and not path:
            raise CBMError("video source 'folder' needs a path: `folder:/path/to/folder`.")
        return SOURCES[name](path) if path else SOURCES[name]()
    folder = Path(spec).expanduser()
    if not folder.exists() and not _looks_like_path(str(spec)):
        raise CBMError(_unknown(str(spec)))
    return DavisSource(folder) if find_frames(folder) is not None else FolderSource(folder)


def _looks_like_path(spec: str) -> bool:
    return spec.startswith((".", "~")) or os.sep in spec or "/" in spec


def _unknown(spec: str) -> str:
    near = get_close_matches(spec.partition(":")[0], SOURCES, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    choices = ", ".join(name for name in SOURCES if name != "folder")
    return (
        f"unknown video source {spec!r}.{hint} Choose from: {choices}, davis:/path, "
        "or the path of a folder with videos (such as ./my-videos)."
    )


class SourceInfo(NamedTuple):
    name: str
    train: int
    unseen: int
    where: str


def list_sources() -> list[SourceInfo]:
    """What can be used on this machine, for `cbm videos list`."""
    builtin = BuiltinSource()
    rows = [
        SourceInfo("builtin", len(builtin.names("train")), len(builtin.names("unseen")), "generated when first used")
    ]
    try:
        davis = DavisSource()
    except CBMError:
        return [*rows, SourceInfo("davis", 0, 0, f"not in {default_root()}; get it: cbm videos download davis")]
    train, unseen = (len(LISTS[split]) - len(davis.missing(split)) for split in SPLITS)
    return [*rows, SourceInfo("davis", train, unseen, str(davis.frames))]
