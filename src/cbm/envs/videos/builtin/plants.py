"""Leaves and flowers that sway."""

from __future__ import annotations

import numpy as np

from .canvas import MARGIN, Canvas, blend
from .paint import *

GREENS = (  # ground, leaves, flowers, sun
    ("16301a", ("2f6a2c", "4f9a3c", "8cc04a", "1f4a24"), ("f4f0e0", "e8c030"), "f2f6c0"),
    ("2c1408", ("b8461c", "e08a28", "f2c244", "7a2a14"), ("7a1f3a", "c8d060"), "fff0c8"),
    ("0e2420", ("1f5a4c", "3a8a70", "78b898", "14403a"), ("d05a8a", "f0e8f4"), "d8f4f0"),
    ("241c10", ("6a7a30", "9aa048", "c8bc60", "4a4a20"), ("d84a2c", "f0a030"), "fff6d0"),
    ("281020", ("8a2f50", "c85a78", "f0a8b0", "5a1f3c"), ("f8f0e8", "6a8a4a"), "ffe8f0"),
)


def foliage(rng: Rng, look: int, frames: int, size: int) -> Array:
    """Three sheets of leaves and flowers that sway in gusts while the camera passes, with sun through the gaps."""
    floor, greens, flowers, sun = by_look(look, GREENS)
    unit = size / SPAN
    back = ramp((floor, greens[3], greens[0], greens[2]), contrast(texture(rng, size, 5.0, gain=0.8), 1.5))
    sheets = []
    for near in range(3):
        layer = Canvas.layer(unit)
        for _ in range((700, 420, 150)[near]):
            long = (0.045 + 0.035 * near) * between(rng, 0.7, 1.3)
            paint = tint(rng, colour(pick(rng, greens)), 0.45) * (0.5 + 0.28 * near)
            place = (between(rng, layer.top, layer.top + SPAN + 2 * MARGIN), between(rng, layer.left, layer.right))
            _leaf(layer, *place, long, paint, between(rng, 0.0, 1.0))
            if rng.random() < 0.12:
                _flower(rng, layer, *place, 0.45 * long, colour(pick(rng, flowers)))
        layer.roughen(patchy(rng, size, contrast(texture(rng, size, 20.0, gain=0.95), 1.6)), 0.45)
        sheets.append(layer)
    path, flecks = camera(rng, 0.6, 1.0), texture(rng, size, 3.0, 5, 0.6)
    wind = [(between(rng, 0.02, 0.05), between(rng, 0.8, 1.8), between(rng, 0.0, 1.0)) for _ in sheets]
    lit = colour(sun)

    def draw(t: float) -> Array:
        dy, dx = path(t)
        canvas = Canvas(cut(back, dy, 0.4 * dx, size).copy(), unit)
        for near, (sheet, (reach, rate, phase)) in enumerate(zip(sheets, wind, strict=True)):
            canvas.lay(_sway(sheet, dy, dx * (0.6 + 0.2 * near), reach, rate * t + phase, size))
        light = smooth(0.44, 0.58, cut(flecks, 0.3 * t, 0.5 * dx + 0.4 * t, size))[..., None]
        return canvas.pixels * (0.6 + 0.85 * light * lit)

    return film(frames, size, draw)


def _sway(sheet: Canvas, dy: float, dx: float, reach: float, turns: float, size: int) -> Array:
    """The view of a layer in which each row is pushed sideways by whole pixels: gusts run through it."""
    unit = size / SPAN
    rows = np.arange(size)
    push = np.floor(reach * unit * wave(turns + rows.astype(np.float32) * (1.3 / size)) + 0.5).astype(np.int64)
    first = np.clip(round((LOW + dx - sheet.left) * unit) + push, 0, sheet.pixels.shape[1] - size)
    top = round((LOW + dy - sheet.top) * unit)
    lines = np.clip(rows + top, 0, len(sheet.pixels) - 1)
    windows = np.lib.stride_tricks.sliding_window_view(sheet.pixels, size, axis=1)  # (H, starts, 4, size)
    return np.moveaxis(windows[lines, first], 1, 2)


def _leaf(layer: Canvas, y: float, x: float, long: float, paint: Array, turn: float) -> None:
    """A pointed leaf with a midrib, veins, and one half in shade."""
    c, s = wave(turn + 0.25), wave(turn)
    view, dy, dx = layer.around(y, x, long, long)
    u, v = (dx * c + dy * s) * (1.0 / long), (dy * c - dx * s) * (1.0 / long)
    half = 0.42 * np.maximum(1.0 - u * u, 0.0) * (1.0 - 0.3 * u)
    cover = np.clip(0.5 + (half - np.abs(v)) * (long * layer.unit), 0.0, 1.0) * (np.abs(u) < 1.0)
    rib = 1.0 - smooth(0.03, 0.09, np.abs(v))
    veins = smooth(0.4, 0.9, wave(3.0 * (u - np.abs(v))))
    light = 0.85 + 0.45 * smooth(-0.05, 0.05, v) - 0.3 * u + 0.4 * rib + 0.2 * veins
    blend(view, cover, paint * light[..., None])


def _flower(rng: Rng, layer: Canvas, y: float, x: float, radius: float, paint: Array) -> None:
    turn = between(rng, 0.0, 1.0)
    for k in range(5):
        angle = turn + 0.2 * k
        place = (y + 0.6 * radius * wave(angle), x + 0.6 * radius * wave(angle + 0.25))
        layer.disc(*place, 0.5 * radius, tint(rng, paint, 0.25))
    layer.disc(y, x, 0.3 * radius, colour("f0c020"))
