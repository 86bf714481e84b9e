"""Write frames as a film: .mp4, which every player and browser shows, or .webp, an animated picture for a README."""

from __future__ import annotations

import io
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from PIL import Image

from cbm.errors import CBMError
from cbm.system.files import write_whole

_WEBP_QUALITY = 60  # twelve seconds of two agents side by side then take about 2 MB


def check_film(path: Path) -> None:
    """Raise an error if `path` does not have the suffix of a film."""
    if path.suffix not in _WRITERS:
        raise CBMError(f"a film must be an .mp4 file, or .webp, which a README can show, not {path}.")


def write_film(path: Path, frames: Iterable[np.ndarray], fps: float, root: Path | None = None) -> None:
    """Write RGB frames (H, W, 3) of one size. `root` is as in `write_whole`."""
    check_film(path)
    write_whole(path, _WRITERS[path.suffix](frames, fps), root)


def _mp4(frames: Iterable[np.ndarray], fps: float) -> bytes:
    """H.264 in yuv420p. An odd side loses its last row or column."""
    output = io.BytesIO()
    with av.open(output, "w", format="mp4") as container:
        stream = None
        for frame in frames:
            height, width = frame.shape[0] // 2 * 2, frame.shape[1] // 2 * 2  # yuv420p needs even sides
            if stream is None:
                stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1000))
                stream.height, stream.width = height, width
                stream.pix_fmt = "yuv420p"
                stream.options = {"crf": "18"}
            picture = np.ascontiguousarray(frame[:height, :width])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        if stream is not None:
            container.mux(stream.encode())
    return output.getvalue()


def _webp(frames: Iterable[np.ndarray], fps: float) -> bytes:
    """Half as wide and high as an .mp4, and played in a loop."""
    first, *others = (Image.fromarray(frame).reduce(2) for frame in frames)
    output = io.BytesIO()
    duration = round(1_000 / fps)
    first.save(output, "WEBP", save_all=True, append_images=others, duration=duration, loop=0, quality=_WEBP_QUALITY)
    return output.getvalue()


_WRITERS = {".mp4": _mp4, ".webp": _webp}
