"""How busy videos are: four numbers about the part of a frame that an agent sees."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

import numpy as np
from PIL import Image

from cbm.errors import CBMError

from .clips import SPLITS, Clip, VideoSource

# A camera of 45 degrees, dm_control's default, sees this share of the width of a sky face: tan(45 / 2 degrees).
SEEN = 0.41421
PIXELS = 84
SKY_SIZE = 800  # what the background is stretched to before it is seen; as in `rendering.sky`, which needs MuJoCo
EDGE = 9.0  # grey levels per pixel above which a slope counts as an edge
SHADES = 8  # of each of red, green and blue, for the entropy
WAVES = (4, 40)  # cycles per picture between which the spectrum's slope is fitted
APART = 3  # frames between two that are compared
LOOKED_AT = 10  # frames of a clip, evenly spread, and as many pairs


@dataclass(frozen=True)
class Measures:
    """Medians over frames, then over clips. docs/videos.md explains them."""

    edge_density: float
    spectrum_slope: float
    colour_entropy: float
    change: float

    def to_json(self) -> dict[str, float]:
        return {name: round(value, 3) for name, value in asdict(self).items()}


def all_names(source: VideoSource) -> tuple[str, ...]:
    """The clips of both splits, or of one if a copy lacks the other."""
    found: list[str] = []
    for split in SPLITS:
        try:
            found += source.names(split)
        except CBMError:
            if split == SPLITS[-1] and not found:
                raise
    return tuple(found)


def median(rows: list[Measures]) -> Measures:
    return Measures(*(float(np.median([getattr(row, field.name) for row in rows])) for field in fields(Measures)))


def measure_clip(clip: Clip, *, apart: int = APART) -> Measures:
    """`apart` is the number of frames between those that are compared; 1 if the source keeps only every third frame."""
    if len(clip) <= apart:
        raise CBMError(f"the clip {clip.name!r} has {len(clip)} frames, too few to compare those {apart} apart.")
    places = np.unique(np.linspace(0, len(clip) - 1 - apart, LOOKED_AT).astype(int)).tolist()
    first = [seen(clip[i]) for i in places]
    later = [seen(clip[i + apart]) for i in places]
    grey = [frame.mean(axis=2) for frame in first]
    return Measures(
        edge_density=float(np.median([edge_density(frame) for frame in grey])),
        spectrum_slope=float(np.median([spectrum_slope(frame) for frame in grey])),
        colour_entropy=float(np.median([colour_entropy(frame) for frame in first])),
        change=float(np.median([np.abs(a - b).mean() for a, b in zip(first, later, strict=True)])),
    )


def seen(frame: np.ndarray) -> np.ndarray:
    """The central part of a frame as an undisturbed camera shows it: (84, 84, 3), float in [0, 255]."""
    sky = Image.fromarray(frame).resize((SKY_SIZE, SKY_SIZE), Image.Resampling.BILINEAR)
    low, high = (0.5 * SKY_SIZE * (1.0 + side * SEEN) for side in (-1, 1))
    picture = sky.resize((PIXELS, PIXELS), Image.Resampling.BOX, box=(low, low, high, high))
    return np.asarray(picture, np.float64)


def edge_density(grey: np.ndarray) -> float:
    """The share of pixels where Sobel's gradient is above `EDGE`."""
    across = grey[:, 2:] - grey[:, :-2]
    down = grey[2:] - grey[:-2]
    gx = (across[:-2] + 2.0 * across[1:-1] + across[2:]) / 8.0
    gy = (down[:, :-2] + 2.0 * down[:, 1:-1] + down[:, 2:]) / 8.0
    return float((np.hypot(gx, gy) > EDGE).mean())


def spectrum_slope(grey: np.ndarray) -> float:
    """The exponent a of power ~ frequency^a: a line through the logarithms of the mean power at each frequency."""
    side = len(grey)
    taper = np.hanning(side)
    power = np.abs(np.fft.fft2((grey - grey.mean()) * taper[:, None] * taper)) ** 2
    waves = np.fft.fftfreq(side) * side
    ring = np.round(np.hypot(waves[:, None], waves)).astype(int).ravel()
    mean = np.bincount(ring, power.ravel()) / np.bincount(ring)
    frequency = np.arange(WAVES[0], WAVES[1] + 1)
    return float(np.polyfit(np.log(frequency), np.log(mean[frequency] + 1e-9), 1)[0])


def colour_entropy(frame: np.ndarray) -> float:
    """Entropy in bits of the histogram over `SHADES`**3 colours."""
    red, green, blue = np.moveaxis((frame * (SHADES / 256.0)).astype(int), 2, 0)
    share = np.bincount(((red * SHADES + green) * SHADES + blue).ravel()) / red.size
    share = share[share > 0]
    return float(-(share * np.log2(share)).sum())
