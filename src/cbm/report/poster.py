"""The still of a film that the page shows until the film is played."""

from __future__ import annotations

import base64
import io

WIDTH = 360  # pixels, about that of a card
TYPE = "image/webp"
MOST_PIXELS = 16_000_000  # of a film; a larger one has no still


def poster(film: bytes) -> bytes | None:
    """Its first frame as a small picture, so that playing begins where the still was; None where there is none."""
    import av

    try:
        with av.open(io.BytesIO(film)) as source:
            stream = source.streams.video[0]
            if stream.width * stream.height > MOST_PIXELS:
                return None
            picture = next(source.decode(video=0)).to_image()
    except (av.FFmpegError, IndexError, StopIteration, ValueError):
        return None
    output = io.BytesIO()
    scale = min(1.0, WIDTH / picture.width)
    picture = picture.resize((max(1, round(picture.width * scale)), max(1, round(picture.height * scale))))
    picture.save(output, "WEBP", quality=60, method=2)
    return output.getvalue()


def poster_url(film: bytes) -> str | None:
    """The same as an address that holds the picture itself."""
    picture = poster(film)
    return None if picture is None else f"data:{TYPE};base64,{base64.b64encode(picture).decode()}"
