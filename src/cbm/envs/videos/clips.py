"""What a clip and a video source are, and reading images and folders of them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, get_args

import numpy as np
from PIL import Image

from cbm.errors import CBMError, UnknownChoice

Split = Literal["train", "unseen"]
SPLITS: tuple[Split, ...] = get_args(Split)

# More than a frame of 8K video: larger pictures are refused before they fill the memory.
MAX_PIXELS = 50_000_000

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".tif", ".tiff"})


@dataclass(frozen=True)
class Clip:
    """Frames in one array (T, H, W, 3), usually memory-mapped, or an image file each, decoded when it is asked for."""

    name: str
    frames: np.ndarray | tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, index: int) -> np.ndarray:
        """Frame `index`, (H, W, 3) uint8, of any height and width."""
        frame = self.frames[index]
        return read_image(frame) if isinstance(frame, Path) else np.asarray(frame)


class VideoSource(Protocol):
    """Named clips in two sets that never overlap."""

    @property
    def name(self) -> str: ...
    def names(self, split: Split) -> tuple[str, ...]:
        """The names in a fixed order: "N videos" are the first N."""
        ...

    def clip(self, name: str) -> Clip: ...


def read_image(file: Path) -> np.ndarray:
    """(H, W, 3) uint8, or an error that names the file."""
    try:
        with open_regular(file) as content, Image.open(content) as image:
            check_pixels(file, image.width, image.height)
            return np.asarray(image.convert("RGB"))
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise CBMError(
            f"cannot read the image {file} ({error}). It is missing, broken or cut short: "
            "copy or download it again, or remove it."
        ) from error


def open_regular(file: Path) -> BinaryIO:
    """Open a file for reading, but never wait for a pipe or a device."""
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"not a regular file: {file}")
    return os.fdopen(handle, "rb")


def check_pixels(file: Path, width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise CBMError(
            f"{file} is too large: {width} x {height} pixels; the limit is {MAX_PIXELS // 1_000_000} million. "
            "Make it smaller (1000 pixels per side are more than agents see), or remove it."
        )


def natural_order(path: Path) -> tuple[tuple[int, int, str], ...]:
    """Sorts frame_2 before frame_10."""
    parts = re.findall(r"\d+|\D+", path.name.lower())
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)


def media_files(folder: Path, suffixes: frozenset[str] = IMAGE_SUFFIXES) -> tuple[Path, ...]:
    """The regular files with such a suffix directly in a folder, not hidden, in natural order."""
    with os.scandir(folder) as entries:
        found = [Path(entry.path) for entry in entries if not entry.name.startswith(".") and entry.is_file()]
    return tuple(sorted((file for file in found if file.suffix.lower() in suffixes), key=natural_order))


def check_split(split: str) -> None:
    if split not in SPLITS:
        raise UnknownChoice("split of the videos", split, SPLITS)


def check_name(source: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise UnknownChoice(f"clip of the video source {source}", name, known)
