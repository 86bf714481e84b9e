"""Surfaces close up: marble and lava, waving cloth, walls with moving light."""

from __future__ import annotations

import numpy as np

from .paint import *

STONES = (
    ("0b3d2e", "1f7a55", "8fd6a8", "0f5a3c", "06281d"),  # malachite
    ("1a0503", "5a1208", "d6451a", "ffc04d", "3a0a05"),  # lava
    ("e9e2d6", "c9bda9", "8a7d6d", "f4efe6", "55493f"),  # pale marble
    ("2a1408", "7a4520", "c08850", "5a2f14", "e0b880"),  # walnut
    ("14213d", "31598f", "a8c8e8", "f0e6c8", "1b2f56"),  # agate
    ("3b0f3a", "8e2f72", "e88aa8", "f6d9c8", "5a1f5c"),  # fluorite
    ("101418", "3a4148", "8c8f8e", "d8b25a", "1c2126"),  # black and gold
)


def marble(rng: Rng, look: int, size: int) -> Pictures:
    """Veins in stone or molten rock that the camera passes: a pattern bent by slowly moving noise."""
    unit, stone, other = size / SPAN, by_look(look, STONES), by_look(look + 3, STONES)
    veins = between(rng, 2.0, 4.0)
    pattern = texture(rng, size, 1.2, gain=0.62)
    grain = grained(rng, size, 14.0, 0.92, 1.8)
    bend_y, bend_x, hue = texture(rng, size, 1.0, 3), texture(rng, size, 1.0, 3), texture(rng, size, 0.8, 4, 0.6)
    cracks = 1.0 - smooth(0.0, 0.02, np.abs(texture(rng, size, 2.5, 6, 0.6) - 0.5))
    rows, columns = np.meshgrid(np.arange(size, dtype=np.float32), np.arange(size, dtype=np.float32), indexing="ij")
    strength, speed, path = between(rng, 0.4, 0.8) * unit, between(rng, 0.3, 0.6), camera(rng, 0.7, 1.1)
    for t, dy, dx in shots(path):
        y = rows + dy * unit + strength * cut(bend_y, dy + speed * t, dx, size)
        x = columns + dx * unit + strength * cut(bend_x, dy, dx - speed * t, size)
        value = warp(pattern, y, x)
        fine, crack = cut(grain, dy, dx, size), cut(cracks, dy, dx, size)
        tone = 0.5 + 0.5 * wave(veins * value + 0.12 * fine)
        tone = np.clip(0.8 * tone + 0.2 * fine, 0.0, 1.0)
        light = (0.75 + 5.0 * slope(value) + 0.45 * (fine - 0.5)) * (1.0 - 0.65 * crack)
        mix = smooth(0.45, 0.6, cut(hue, dy, dx, size))[..., None]
        paint = ramp(stone, tone)
        yield (paint + (ramp(other, tone) - paint) * (0.7 * mix)) * light[..., None]


CLOTHS = (
    ("b3202c", "f3ead8", "1d2f5c"),
    ("1f5d4c", "d8c27a", "7b1f2a"),
    ("f0c23b", "2b2b30", "e8e4d8"),
    ("2c6fb5", "f5f5f0", "e0523a"),
    ("6a3d8f", "e9b7c9", "2a1b3d"),
    ("c96f3b", "3d2a20", "ead9b8"),
)


def cloth(rng: Rng, look: int, size: int) -> Pictures:
    """A striped, checked or dotted cloth, coarsely woven, with folds that run through it."""
    first, second, third = (colour(code) for code in by_look(look, CLOTHS))
    kind, repeat = pick(rng, ("tartan", "stripes", "checks", "dots")), between(rng, 3.0, 5.0)
    y, x = view_grid(size)
    turn, unit = between(rng, -0.12, 0.12), size / SPAN
    along, across = wave(0.25 + turn), wave(turn)
    u0, v0 = along * x - across * y, across * x + along * y
    weave = grained(rng, size, (40.0, 20.0), 0.95, 2.2)
    lumps = texture(rng, size, 1.6, 4)
    rates = ((0.6, 2.2), (-0.9, 0.9), (1.0, 2.4), (0.0, 1.0))
    folds = [tuple(between(rng, *rate) for rate in rates) for _ in range(4)]
    path = camera(rng, 0.5, 1.0)
    for t, dy, dx in shots(path):
        height = 1.6 * window(lumps, 0.5 * t * unit, -0.8 * t * unit, size)
        for fx, fy, rate, phase in folds:
            height = height + (0.32 / (0.6 + fx)) * wave(fx * u0 + fy * v0 - rate * t + phase)
        u, v = u0 + dx + 0.10 * height, v0 + dy + 0.06 * height
        p, q = u * repeat, v * repeat
        p, q = p - np.floor(p), q - np.floor(q)
        bar_p, bar_q = _band(p, 0.0, 0.5), _band(q, 0.0, 0.5)
        if kind == "stripes":
            cover, thin = bar_p, _band(p, 0.68, 0.82)
        elif kind == "dots":
            r = np.sqrt((p - 0.5) * (p - 0.5) + (q - 0.5) * (q - 0.5))
            cover, thin = 1.0 - smooth(0.27, 0.33, r), 1.0 - smooth(0.08, 0.12, r)
        elif kind == "checks":
            cover, thin = bar_p + bar_q - 2.0 * bar_p * bar_q, _band(p, 0.2, 0.3) * _band(q, 0.0, 1.0)
        else:
            cover, thin = 0.5 * (bar_p + bar_q), np.maximum(_band(p, 0.72, 0.8), _band(q, 0.72, 0.8)) * 0.8
        paint = first + (second - first) * cover[..., None]
        paint = paint + (third - paint) * thin[..., None]
        threads = warp(weave, np.floor((v + 1.0) * unit), np.floor((u + 1.0) * unit))
        light = np.clip(0.75 + 6.0 * slope(height, 0, 2) + 0.18 * (height - 0.8), 0.2, 1.35) * (0.7 + 0.6 * threads)
        yield paint * light[..., None]


def _band(p: Array, low: float, high: float) -> Array:
    """1 where a periodic coordinate lies in [low, high], soft by a few hundredths."""
    return smooth(low, low + 0.04, p) * (1.0 - smooth(high - 0.04, high, p))


BONDS = (  # face colours, joint
    (("8f3f2c", "b8643a", "74301f", "c8795c"), "b9ad9d"),
    (("d9d2c2", "c4b9a4", "e6e0d4", "a3967f"), "5f574c"),
    (("3f5f74", "577b8f", "2f4a5c", "8dadbe"), "d8dcd8"),
    (("5c6147", "7a7d5c", "474b36", "9fa080"), "34372a"),
    (("c98a5a", "b06f42", "dba878", "8a4b24"), "4a2f20"),
    (("3c3a40", "55525a", "2a292e", "817d86"), "9f9a96"),
)


def bricks(rng: Rng, look: int, size: int) -> Pictures:
    """A wall of bricks or tiles: the camera pans, leaf shadows and a patch of window light pass over it."""
    faces, joint = by_look(look, BONDS)
    big = 2 * size
    rows, columns = whole(rng, 26, 44), whole(rng, 12, 22)
    offset = pick(rng, (0.5, 0.5, 0.5, 0.0))
    y, x = grid(big, big, big)
    course = np.floor(y * rows)
    place = x * columns + offset * (course % 2.0)
    brick = np.floor(place).astype(np.int64) % columns
    p, q = place - np.floor(place), y * rows - course
    edge = np.minimum(np.minimum(p, 1.0 - p) * (rows / columns), np.minimum(q, 1.0 - q))
    wear = grained(rng, size, 6.0, 0.85, 1.6)
    body = smooth(0.06, 0.16, edge + 0.08 * (wear - 0.5))[..., None]
    table = np.stack([tint(rng, colour(pick(rng, faces)), 0.3) for _ in range(rows * columns)])
    paint = table[course.astype(np.int64) * columns + brick] * (0.65 + 0.7 * wear)[..., None]
    relief = slope(body[..., 0] + 0.5 * wear)[..., None]
    wall = (colour(joint) * (0.6 + 0.6 * wear)[..., None]) * (1.0 - body) + paint * body
    stains = texture(rng, size, 0.8, 4, 0.6)
    wall = wall * (1.0 + 0.5 * relief) * (0.55 + 0.75 * stains)[..., None]

    leaves, far = texture(rng, size, 5.0, 5, 0.6), texture(rng, size, 1.5, 3)
    path, sway, sun = camera(rng, 0.6, 1.0), handheld(rng, 0.05), between(rng, 0.4, 0.8)
    gy, gx = view_grid(size)
    lean, warm = between(rng, -0.5, 0.5), colour("ffedc8")
    panes = (between(rng, 0.15, 0.25), between(rng, 0.2, 0.32))
    start, speed = between(rng, 0.1, 0.9), pick(rng, (-1.0, 1.0)) * between(rng, 0.4, 0.9)
    for t, dy, dx in shots(path):
        sy, sx = sway(t)
        shadow = 0.6 * cut(leaves, dy + sy + 0.2 * t, dx + 2.0 * sx, size)
        shadow = smooth(0.46, 0.55, shadow + 0.4 * cut(far, dy + 0.2 * t, dx + sx, size))
        v, u = gy - 0.5 - sy, gx - (start + speed * t) + lean * (gy - 0.5)
        pane = smooth(0.0, 0.02, panes[0] - np.abs(np.abs(u) - panes[0] - 0.015))
        pane = pane * smooth(0.0, 0.02, panes[1] - np.abs(np.abs(v) - panes[1] - 0.015))
        light = 0.45 + 0.7 * sun * shadow + 0.6 * pane * (0.6 + 0.4 * shadow)
        yield cut(wall, dy, dx, size) * (light[..., None] * warm)
