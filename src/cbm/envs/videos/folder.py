"""Any folder of video files or of image folders as a video source."""

from __future__ import annotations

import hashlib
from pathlib import Path

import av
import numpy as np

from cbm.errors import CBMError

from .cache import cache_dir, cached_array
from .clips import SPLITS, Clip, Split, check_name, check_pixels, check_split, media_files, natural_order, open_regular

VIDEO_SUFFIXES = frozenset({".mp4", ".avi", ".mov", ".mkv", ".webm", ".gif"})
# The agent sees 84 x 84 pixels of a background that is drawn at most 800 wide: more would only take disk space.
MAX_SIDE = 512
# Ten seconds at 30 frames/s, 135 MB at most. An episode has up to 1000 steps and bounces at the ends of a clip.
MAX_FRAMES = 300
UNSEEN_EVERY = 3  # without train/ and unseen/: every third clip by name is unseen

KINDS = "video files (" + ", ".join(sorted(s[1:] for s in VIDEO_SUFFIXES)) + ") or folders of images"


class FolderSource:
    """Clips of a folder. Its subfolders `train` and `unseen` are the splits; without them every third is unseen."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root).expanduser()
        self.name = str(self.root)
        if not self.root.is_dir():
            what = "is a file: name the folder that holds it" if self.root.exists() else "does not exist"
            raise CBMError(f"no videos: the folder {self.root} {what}.")
        self._clips = self._split()

    def names(self, split: Split) -> tuple[str, ...]:
        check_split(split)
        return tuple(self._clips[split])

    def clip(self, name: str) -> Clip:
        known = {**self._clips["train"], **self._clips["unseen"]}
        check_name(self.name, name, tuple(known))
        path = known[name]
        return Clip(name, media_files(path) if path.is_dir() else decoded(path))

    def _split(self) -> dict[Split, dict[str, Path]]:
        halves = {split: self.root / split for split in SPLITS}
        given = [split for split, half in halves.items() if half.is_dir() and not media_files(half)]
        if len(given) == len(SPLITS):
            return {split: {f"{split}/{clip.name}": clip for clip in find_clips(halves[split])} for split in SPLITS}
        if given:
            raise CBMError(f"{self.root} has a folder {given[0]!r} but not both: it needs `train` and `unseen`.")
        found = find_clips(self.root, ", or `train` and `unseen` folders of them")
        if len(found) < UNSEEN_EVERY:
            raise CBMError(
                f"too few videos in {self.root}: {len(found)}. Every third is kept as unseen, so at least "
                f"{UNSEEN_EVERY} are needed; or sort them into `train` and `unseen` folders yourself."
            )
        unseen = found[UNSEEN_EVERY - 1 :: UNSEEN_EVERY]
        train = [path for path in found if path not in unseen]
        return {"train": {p.name: p for p in train}, "unseen": {p.name: p for p in unseen}}


def find_clips(folder: Path, or_else: str = "") -> list[Path]:
    """Video files and folders of images directly in `folder`, by name. `or_else`: what it could have instead."""
    try:
        folders = [entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
        clips = [*media_files(folder, VIDEO_SUFFIXES), *filter(media_files, folders)]
    except PermissionError as error:
        raise CBMError(f"no permission to read the videos in {error.filename or folder}.") from error
    if not clips:
        raise CBMError(f"no videos in {folder}: it needs {KINDS}{or_else}.")
    return sorted(clips, key=natural_order)


def decoded(file: Path) -> np.ndarray:
    """The frames of a video file, decoded once and then memory-mapped from the cache."""
    try:
        state = file.stat()
    except OSError as error:
        raise CBMError(f"cannot read the video {file} ({error.strerror}).") from error
    key = f"{file.resolve()} {state.st_mtime_ns} {state.st_size} {MAX_SIDE} {MAX_FRAMES}"
    place = cache_dir() / "decoded-v1" / f"{file.stem}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.npy"
    return cached_array(place, lambda: decode(file))


def decode(file: Path) -> np.ndarray:
    """The first `MAX_FRAMES` frames, at most `MAX_SIDE` pixels on the longer side: uint8 (T, H, W, 3)."""
    frames: list[np.ndarray] = []
    try:
        with open_regular(file) as content, av.open(content) as container:
            if not container.streams.video:
                raise ValueError("it has no video stream")
            picture = container.streams.video[0]
            check_pixels(file, picture.width, picture.height)
            for frame in container.decode(video=0):
                if not frames:
                    scale = min(1.0, MAX_SIDE / max(frame.width, frame.height))
                    width, height = max(1, round(frame.width * scale)), max(1, round(frame.height * scale))
                frames.append(frame.to_ndarray(width=width, height=height, format="rgb24"))
                if len(frames) == MAX_FRAMES:
                    break
    except (av.FFmpegError, OSError, ValueError, IndexError) as error:
        raise CBMError(_broken(file, str(error))) from error
    if not frames:
        raise CBMError(_broken(file, "it has no frames"))
    return np.stack(frames)


def _broken(file: Path, why: str) -> str:
    return (
        f"cannot decode the video {file} ({why}). It is broken, cut short or not a video: "
        "play it to check, then copy or convert it again, or remove it."
    )
