"""Leaves that sway."""

from __future__ import annotations

import numpy as np

from .canvas import Canvas, Shader
from .paint import Array, Rng, between, by_look, colour, film, noise, pick, ramp, smooth, tint, warp, wave, window

GREENS = (
    ("16301a", ("2f6a2c", "4f9a3c", "8cc04a", "1f4a24"), "f2f6c0"),
    ("2c1408", ("b8461c", "e08a28", "f2c244", "7a2a14"), "fff0c8"),
    ("0e2420", ("1f5a4c", "3a8a70", "78b898", "14403a"), "d8f4f0"),
    ("241c10", ("6a7a30", "9aa048", "c8bc60", "4a4a20"), "fff6d0"),
    ("281020", ("8a2f50", "c85a78", "f0a8b0", "5a1f3c"), "ffe8f0"),
)


def foliage(rng: Rng, look: int, frames: int, size: int) -> Array:
    """Three sheets of overlapping leaves that sway in gusts, with sun through the gaps."""
    floor, greens, sun = by_look(look, GREENS)
    back = ramp((floor, greens[3], greens[0]), noise(rng, 6, (2 * size, 2 * size), 6, 0.6))
    sheets = []
    for near in range(3):
        layer = Canvas.layer(1.25, 1.25, size)
        for _ in range((150, 90, 36)[near]):
            long = (0.05 + 0.04 * near) * between(rng, 0.75, 1.3)
            paint = tint(rng, colour(pick(rng, greens)), 0.25) * (0.55 + 0.22 * near)
            place = (between(rng, 0.0, 1.25), between(rng, 0.0, 1.25))
            layer.shade(*place, long, long, _leaf(size, long, paint, between(rng, 0.0, 1.0)))
        sheets.append(layer.pixels)
    under = Canvas(window(back, 0.0, 0.0, len(sheets[0])), size)
    under.lay(sheets[0])
    gust = [noise(rng, 3, (2 * size, 2 * size), 2), noise(rng, 4, (2 * size, 2 * size), 2)]
    flecks = noise(rng, 6, (2 * size, 2 * size), 4)
    speed, wind = pick(rng, (-1.0, 1.0)) * between(rng, 0.3, 0.6) * size, between(rng, 0.03, 0.06) * size
    rows, columns = np.meshgrid(np.arange(size, dtype=np.float32), np.arange(size, dtype=np.float32), indexing="ij")
    lit = colour(sun)

    def draw(t: float) -> Array:
        a = window(gust[0], 0.3 * speed * t, speed * t, size)
        b = window(gust[1], -speed * t, 0.4 * speed * t, size)
        swing = wave(0.8 * t)
        move_y, move_x = wind * (b - 0.5), wind * (2.0 * a - 1.0 + 0.4 * swing)
        y, x = rows + 0.125 * size, columns + 0.125 * size
        canvas = Canvas(warp(under.pixels, y + 0.6 * move_y, x + 0.6 * move_x), size)
        for sheet, push in zip(sheets[1:], (1.3, 2.0), strict=True):
            canvas.lay(warp(sheet, y + push * move_y, x + push * move_x))
        light = smooth(0.35, 0.75, window(flecks, 0.2 * speed * t, 0.5 * speed * t, size))[..., None]
        return canvas.pixels * (0.7 + 0.9 * light * lit)

    return film(frames, size, draw)


def _leaf(size: int, long: float, paint: Array, turn: float) -> Shader:
    """A pointed leaf with a midrib, veins, and one half in shade."""
    c, s = wave(turn + 0.25), wave(turn)

    def shader(dy: Array, dx: Array) -> tuple[Array, Array]:
        u, v = (dx * c + dy * s) * (1.0 / long), (dy * c - dx * s) * (1.0 / long)
        half = 0.42 * np.maximum(1.0 - u * u, 0.0) * (1.0 - 0.3 * u)
        cover = np.clip(0.5 + (half - np.abs(v)) * (long * size), 0.0, 1.0) * (np.abs(u) < 1.0)
        rib = 1.0 - smooth(0.015, 0.05, np.abs(v))
        veins = smooth(0.6, 1.0, wave(3.0 * (u - np.abs(v))))
        light = 0.95 + 0.3 * smooth(-0.05, 0.05, v) - 0.25 * u + 0.3 * rib + 0.12 * veins
        return cover, paint * light[..., None]

    return shader
