"""Frames to a film that every player and browser shows."""

from __future__ import annotations

import io
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from cbm.system.files import write_whole


def write_film(path: Path, frames: Iterable[np.ndarray], fps: float, root: Path | None = None) -> None:
    """RGB frames (H, W, 3) of one size, as H.264 in yuv420p. An odd side loses its last row or column.

    `root` as in `write_whole`.
    """
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
    write_whole(path, output.getvalue(), root)
