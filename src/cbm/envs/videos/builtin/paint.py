"""Random numbers, noise and colour for the generated clips.

A clip must be the same bit for bit on every machine. So the generators use only operations that IEEE 754 rounds
exactly (+ - * / sqrt floor min max) and draw with `Generator.random`: no sin, exp or pow (their last bit depends
on the CPU), no float sums, no BLAS, no image library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Literal, TypeVar

import numpy as np

T = TypeVar("T")
Array = np.ndarray
Number = TypeVar("Number", float, np.ndarray)
Rng = np.random.Generator
Pictures = Iterator[Array]  # of a clip, (size, size, 3) in [0, 1], without end

FRAMES_PER_UNIT = 60  # frames of clip time 1

# Scenes are measured in what an agent sees: the square from (0, 0) to (1, 1) fills its frame, and the picture reaches
# from LOW to HIGH around it, because a camera of 45 degrees sees 0.41 of the width of a background.
SPAN = 2.4
LOW, HIGH = 0.5 - 0.5 * SPAN, 0.5 + 0.5 * SPAN
TEXTURE = 2 * SPAN  # side of a periodic texture, in the same units


def between(rng: Rng, low: float, high: float) -> float:
    return low + (high - low) * float(rng.random())


def whole(rng: Rng, low: int, high: int) -> int:
    """An integer in [low, high)."""
    return low + int((high - low) * float(rng.random()))


def pick(rng: Rng, choices: Sequence[T]) -> T:
    return choices[whole(rng, 0, len(choices))]


def by_look(look: int, choices: Sequence[T]) -> T:
    """The palette for the clip number `look` of a family: neighbours differ."""
    return choices[look % len(choices)]


def wave(turns: Number) -> Number:
    """sin(2 pi turns) to about 0.1 %, by a polynomial."""
    t: Any = turns - (np.floor(turns + 0.5) if isinstance(turns, np.ndarray) else math.floor(turns + 0.5))
    p = t * (8.0 - 16.0 * abs(t))
    return p * (0.775 + 0.225 * abs(p))


def smooth(low: float, high: float, x: Array) -> Array:
    """0 below `low`, 1 above `high`, smooth in between."""
    t = np.clip((x - low) * (1.0 / (high - low)), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def grid(height: int, width: int, unit: float) -> tuple[Array, Array]:
    """Coordinates of the pixel centres, y (H, 1) and x (1, W), in units of `unit` pixels."""
    y = (np.arange(height, dtype=np.float32) + 0.5) * (1.0 / unit)
    x = (np.arange(width, dtype=np.float32) + 0.5) * (1.0 / unit)
    return y[:, None], x[None, :]


def view_grid(size: int) -> tuple[Array, Array]:
    """The same for a picture, from LOW to HIGH."""
    y, x = grid(size, size, size / SPAN)
    return y + LOW, x + LOW


def spread(lattice: Array, length: int) -> Array:
    """A periodic cubic B-spline through `lattice` along axis 0, at `length` points."""
    n = len(lattice)
    t = np.arange(length, dtype=np.float32) * (n / length)
    i = np.floor(t).astype(np.int64)
    f = (t - i.astype(np.float32)).reshape(-1, *[1] * (lattice.ndim - 1))
    f2, f3, g = f * f, f * f * f, 1.0 - f
    weights = (g * g * g, 3.0 * f3 - 6.0 * f2 + 4.0, 3.0 * (f + f2 - f3) + 1.0, f3)
    a, b, c, d = (weight * lattice[(i + k) % n] for k, weight in enumerate(weights, -1))
    return (a + b + c + d) * (1.0 / 6.0)


def stretch(values: Array) -> Array:
    """To [0, 1] exactly."""
    low, high = float(values.min()), float(values.max())
    return (values - low) * (1.0 / max(high - low, 1e-6))


def texture(rng: Rng, size: int, per_unit: float | tuple[float, float], octaves: int = 8, gain: float = 0.72) -> Array:
    """Periodic value noise in [0, 1] over a square of TEXTURE units, (2 size, 2 size).

    `octaves` grids of random values: `per_unit` bumps to a unit, then each twice as fine, down to the pixels. With a
    gain of 0.72 the power falls with the third power of the frequency, about as in photographs.
    """
    bumps, side = per_unit if isinstance(per_unit, tuple) else (per_unit, per_unit), 2 * size
    rows, columns = (max(2, round(number * TEXTURE)) for number in bumps)
    total, weight = np.zeros((side, side), np.float32), 1.0
    for _ in range(octaves):
        lattice = rng.random((rows, columns), dtype=np.float32)
        total += weight * spread(spread(lattice, side).T, side).T
        if rows == columns == side:
            break
        rows, columns, weight = min(2 * rows, side), min(2 * columns, side), weight * gain
    return stretch(total)


def patchy(rng: Rng, size: int, values: Array) -> Array:
    """A texture in [0, 1] that is rough here and almost smooth there, as real surfaces are."""
    rough = smooth(0.35, 0.65, texture(rng, size, 1.3, 3, 0.5))
    return 0.5 + (values - 0.5) * (0.15 + 0.85 * rough)


def grained(rng: Rng, size: int, per_unit: float | tuple[float, float], gain: float, strength: float) -> Array:
    """Stone, wood, cloth, grass: a patchy texture with strong contrast."""
    return patchy(rng, size, contrast(texture(rng, size, per_unit, gain=gain), strength))


def shade_and_sun(rng: Rng, size: int, dark: float, bright: float) -> Array:
    """Light on a scene, a texture (2S, 2S, 1): wide patches of sun and shade with sharp and with soft edges."""
    return (dark + (bright - dark) * smooth(0.42, 0.58, texture(rng, size, 0.9, 6, 0.45)))[..., None]


def contrast(values: Array, strength: float) -> Array:
    """Values in [0, 1] pushed apart around the middle."""
    return np.clip(0.5 + strength * (values - 0.5), 0.0, 1.0)


def noise_line(rng: Rng, cells: int, length: int, octaves: int, gain: float) -> Array:
    """The same along a line, (length,): ridges, kerbs, outlines."""
    total, weight = np.zeros(length, np.float32), 1.0
    for _ in range(octaves):
        total += weight * spread(rng.random(cells, dtype=np.float32), length)
        cells, weight = cells * 2, weight * gain
    return stretch(total)


def crop(pixels: Array, row: int, column: int, size: int, mode: Literal["wrap", "clip"]) -> Array:
    """`size` x `size` pixels; beyond the edge they repeat (wrap), or the last one does (clip)."""
    if 0 <= row <= pixels.shape[0] - size and 0 <= column <= pixels.shape[1] - size:
        return pixels[row : row + size, column : column + size]
    rows, columns = np.arange(row, row + size), np.arange(column, column + size)
    return pixels.take(rows, axis=0, mode=mode).take(columns, axis=1, mode=mode)


def window(texture: Array, top: float, left: float, size: int) -> Array:
    """`size` x `size` pixels of a texture from a place between pixels; beyond its edge it repeats."""
    row, column = math.floor(top), math.floor(left)
    fy, fx = top - row, left - column
    part = crop(texture, row, column, size + 1, "wrap")
    part = part[:-1] + (part[1:] - part[:-1]) * fy
    return part[:, :-1] + (part[:, 1:] - part[:, :-1]) * fx


def cut(texture: Array, dy: float, dx: float, size: int) -> Array:
    """`size` x `size` pixels of a periodic texture, moved by (dy, dx) units to the next pixel: fast and sharp."""
    unit, (height, width) = size / SPAN, texture.shape[:2]
    return crop(texture, round(dy * unit) % height, round(dx * unit) % width, size, "wrap")


def warp(texture: Array, y: Array, x: Array) -> Array:
    """A periodic texture at the pixel positions `y`, `x` (same shape), linear between pixels."""
    height, width = texture.shape[:2]
    row, column = np.floor(y), np.floor(x)
    fy, fx = y - row, x - column
    top, left = row.astype(np.int64), column.astype(np.int64)
    line, place = np.arange(height) * width, np.arange(width)
    top, bottom = line.take(top, mode="wrap"), line.take(top + 1, mode="wrap")
    left, right = place.take(left, mode="wrap"), place.take(left + 1, mode="wrap")
    if texture.ndim == 3:
        fy, fx = fy[..., None], fx[..., None]
    flat = texture.reshape(height * width, *texture.shape[2:])
    a, b = flat.take(top + left, axis=0), flat.take(top + right, axis=0)
    c, d = flat.take(bottom + left, axis=0), flat.take(bottom + right, axis=0)
    for far, near, f in ((b, a, fx), (d, c, fx), (d, b, fy)):  # in place: near + (far - near) f
        far -= near
        far *= f
        far += near
    return d


def slope(height: Array, dy: int = 1, dx: int = 1) -> Array:
    """Difference to the neighbour `dy` up and `dx` left: relief light from there."""
    fall = height - np.roll(height, (dy, dx), axis=(0, 1))
    rows, columns = len(fall), fall.shape[1]  # what wrapped around takes the value next to it
    fall = fall[np.clip(np.arange(rows), max(dy, 0), rows - 1 + min(dy, 0))]
    return fall[:, np.clip(np.arange(columns), max(dx, 0), columns - 1 + min(dx, 0))]


def colour(code: str) -> Array:
    """A hex colour such as "ffcc88" as float32 RGB in [0, 1]."""
    return np.array([value / 255.0 for value in bytes.fromhex(code)], np.float32)


def tint(rng: Rng, base: Array, amount: float) -> Array:
    """`base` a little brighter or darker, and a little off in hue."""
    value = 1.0 + between(rng, -amount, amount)
    shift = (rng.random(3, dtype=np.float32) - 0.5) * amount
    return np.clip(base * (value + shift), 0.0, 1.0)


def ramp(codes: Sequence[str], values: Array) -> Array:
    """Colours along equally spaced `codes` for values in [0, 1]: (...) -> (..., 3)."""
    stops = np.stack([colour(code) for code in codes])
    place = np.arange(1024, dtype=np.float32) * ((len(codes) - 1) / 1023.0)
    lower = np.minimum(np.floor(place).astype(np.int64), len(codes) - 2)
    f = (place - lower.astype(np.float32))[:, None]
    table = stops[lower] * (1.0 - f) + stops[lower + 1] * f
    index = np.clip(values * 1023.0, 0.0, 1023.0).astype(np.int64)
    return table.take(index, axis=0)


Camera = Callable[[float], tuple[float, float]]  # time -> (dy, dx) in units


def handheld(rng: Rng, amount: float) -> Camera:
    """The sway of a camera, smooth and at most about `amount`."""
    rates = [between(rng, 0.5, 1.5), between(rng, 2.0, 4.0)]
    phases = [between(rng, 0.0, 1.0) for _ in range(4)]

    def at(t: float) -> tuple[float, float]:
        dy = 0.7 * wave(rates[0] * t + phases[0]) + 0.3 * wave(rates[1] * t + phases[1])
        dx = 0.7 * wave(rates[0] * t + phases[2]) + 0.3 * wave(rates[1] * t + phases[3])
        return amount * dy, amount * dx

    return at


PAN, SWAY = 1.3, 0.06  # the most that a camera travels to the side, and sways


def camera(rng: Rng, slow: float = 0.7, fast: float = PAN) -> Camera:
    """A camera in the hand of someone who walks or drives past: dx from 0 to PAN or back, dy around 0."""
    hand, way = handheld(rng, 0.5 * SWAY), pick(rng, (-1.0, 1.0))
    pace, lift, start = between(rng, slow, fast), between(rng, -0.1, 0.1), between(rng, 0.0, 1.0)

    def at(t: float) -> tuple[float, float]:
        dy, dx = hand(t)
        return dy + lift * wave(0.5 * t + start), dx + pace * (t if way > 0 else 1.0 - t)

    return at


def shots(path: Camera) -> Iterator[tuple[float, float, float]]:
    """The time of each frame, and where the camera is then."""
    return ((i / FRAMES_PER_UNIT, *path(i / FRAMES_PER_UNIT)) for i in count())


SHARPEN = 0.18  # what a video camera does, too; it makes up for the stretch from a clip's size to the sky's


def film(pictures: Pictures, frames: int, size: int) -> Array:
    """The first `frames` pictures, with a lens' darker corners: uint8 (T, H, W, 3)."""
    y, x = view_grid(size)
    lens = (255.0 * (1.04 - 0.08 * ((y - 0.5) * (y - 0.5) + (x - 0.5) * (x - 0.5))))[..., None]
    clip = np.empty((frames, size, size, 3), np.uint8)
    for frame, drawn in zip(clip, pictures, strict=False):
        picture = np.clip(drawn * lens, 0.0, 255.0)
        crisp = picture * (1.0 + 4.0 * SHARPEN) + 0.5
        inner = crisp[1:-1, 1:-1]
        for part in (picture[:-2, 1:-1], picture[2:, 1:-1], picture[1:-1, :-2], picture[1:-1, 2:]):
            inner -= SHARPEN * part
        for edge in ((0,), (-1,), (slice(None), 0), (slice(None), -1)):
            crisp[edge] = picture[edge] + 0.5
        frame[:] = np.clip(crisp, 0.0, 255.0)
    return clip
