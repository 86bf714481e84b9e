"""Surfaces close up: marble and lava, waving cloth, walls with moving light."""

from __future__ import annotations

import numpy as np

from .paint import (
    Array,
    Rng,
    between,
    by_look,
    colour,
    film,
    grid,
    handheld,
    noise,
    pick,
    ramp,
    slope,
    smooth,
    tint,
    warp,
    wave,
    whole,
    window,
)

STONES = (
    ("0b3d2e", "1f7a55", "8fd6a8", "0f5a3c", "06281d"),  # malachite
    ("1a0503", "5a1208", "d6451a", "ffc04d", "3a0a05"),  # lava
    ("e9e2d6", "c9bda9", "8a7d6d", "f4efe6", "55493f"),  # pale marble
    ("2a1408", "7a4520", "c08850", "5a2f14", "e0b880"),  # walnut
    ("14213d", "31598f", "a8c8e8", "f0e6c8", "1b2f56"),  # agate
    ("3b0f3a", "8e2f72", "e88aa8", "f6d9c8", "5a1f5c"),  # fluorite
    ("101418", "3a4148", "8c8f8e", "d8b25a", "1c2126"),  # black and gold
)


def marble(rng: Rng, look: int, frames: int, size: int) -> Array:
    """Veins in stone or molten rock: a pattern bent by slowly moving noise."""
    shape = (2 * size, 2 * size)
    stone, veins = by_look(look, STONES), between(rng, 1.4, 3.2)
    pattern, bend_y, bend_x = noise(rng, 4, shape, 6, 0.55), noise(rng, 3, shape, 4), noise(rng, 3, shape, 4)
    grain = noise(rng, 24, shape, 4, 0.7)
    strength, speed = between(rng, 0.35, 0.7) * size, pick(rng, (-1.0, 1.0)) * between(rng, 0.15, 0.3) * size
    rows, columns = np.meshgrid(np.arange(size, dtype=np.float32), np.arange(size, dtype=np.float32), indexing="ij")

    def draw(t: float) -> Array:
        y = rows + strength * window(bend_y, speed * t, 0.0, size)
        x = columns + strength * window(bend_x, 0.0, -speed * t, size) + 0.5 * speed * t
        value = warp(pattern, y, x)
        fine = window(grain, 0.5 * speed * t, 0.5 * speed * t, size)
        tone = 0.5 + 0.5 * wave(veins * value + 0.15 * fine)
        light = 0.8 + 4.0 * slope(value, 2, 2) + 0.35 * (fine - 0.5)
        return ramp(stone, 0.86 * tone + 0.14 * fine) * light[..., None]

    return film(frames, size, draw)


CLOTHS = (
    ("b3202c", "f3ead8", "1d2f5c"),
    ("1f5d4c", "d8c27a", "7b1f2a"),
    ("f0c23b", "2b2b30", "e8e4d8"),
    ("2c6fb5", "f5f5f0", "e0523a"),
    ("6a3d8f", "e9b7c9", "2a1b3d"),
    ("c96f3b", "3d2a20", "ead9b8"),
)


def cloth(rng: Rng, look: int, frames: int, size: int) -> Array:
    """A striped, checked or dotted cloth with folds that run through it."""
    first, second, third = (colour(code) for code in by_look(look, CLOTHS))
    kind, repeat = pick(rng, ("tartan", "stripes", "checks", "dots")), between(rng, 3.5, 7.0)
    y, x = grid(size, size, size)
    turn = between(rng, -0.12, 0.12)
    along, across = wave(0.25 + turn), wave(turn)
    u0, v0 = along * x - across * y, across * x + along * y
    weave = 0.9 + 0.2 * noise(rng, 64, (size, size), 2)
    lumps = noise(rng, 3, (2 * size, 2 * size), 3)
    folds = [
        (between(rng, 0.6, 2.2), between(rng, -0.9, 0.9), between(rng, 0.5, 1.4), between(rng, 0.0, 1.0))
        for _ in range(4)
    ]

    def draw(t: float) -> Array:
        height = 1.6 * window(lumps, 0.25 * t * size, -0.4 * t * size, size)
        for fx, fy, rate, phase in folds:
            height = height + (0.32 / (0.6 + fx)) * wave(fx * u0 + fy * v0 - rate * t + phase)
        u, v = u0 + 0.10 * height, v0 + 0.06 * height
        p, q = u * repeat, v * repeat
        p, q = p - np.floor(p), q - np.floor(q)
        bar_p, bar_q = _band(p, 0.0, 0.5), _band(q, 0.0, 0.5)
        if kind == "stripes":
            cover, thin = bar_p, _band(p, 0.68, 0.82)
        elif kind == "dots":
            r = np.sqrt((p - 0.5) * (p - 0.5) + (q - 0.5) * (q - 0.5))
            cover, thin = 1.0 - smooth(0.27, 0.33, r), _band(q, 0.94, 1.0) * 0.0
        elif kind == "checks":
            cover, thin = bar_p + bar_q - 2.0 * bar_p * bar_q, 0.0 * p
        else:
            cover, thin = 0.5 * (bar_p + bar_q), np.maximum(_band(p, 0.72, 0.8), _band(q, 0.72, 0.8)) * 0.8
        paint = first + (second - first) * cover[..., None]
        paint = paint + (third - paint) * thin[..., None]
        fall = height - np.roll(height, 3, axis=1)
        fall[:, :3] = fall[:, 3:4]
        light = np.clip(0.78 + 7.0 * fall + 0.18 * (height - 0.8), 0.2, 1.35) * weave
        return paint * light[..., None]

    return film(frames, size, draw)


def _band(p: Array, low: float, high: float) -> Array:
    """1 where a periodic coordinate lies in [low, high], soft by a few hundredths."""
    return smooth(low, low + 0.04, p) * (1.0 - smooth(high - 0.04, high, p))


BONDS = (  # face colours, joint
    (("8f3f2c", "a8543a", "74301f", "b8694c"), "b9ad9d"),
    (("d9d2c2", "c4b9a4", "e6e0d4", "b3a68f"), "6f675c"),
    (("3f5f74", "577b8f", "2f4a5c", "7d9dae"), "d8dcd8"),
    (("5c6147", "7a7d5c", "474b36", "8f9070"), "34372a"),
    (("c98a5a", "b06f42", "dba878", "9a5b34"), "4a2f20"),
    (("3c3a40", "55525a", "2a292e", "716d76"), "8f8a86"),
)


def bricks(rng: Rng, look: int, frames: int, size: int) -> Array:
    """A wall of bricks or tiles: the camera pans, leaf shadows and a patch of window light pass over it."""
    faces, joint = by_look(look, BONDS)
    big = 2 * size
    rows, columns = whole(rng, 12, 26), whole(rng, 6, 14)
    offset = pick(rng, (0.5, 0.5, 0.5, 0.0))
    y, x = grid(big, big, big)
    course = np.floor(y * rows)
    place = x * columns + offset * (course % 2.0)
    brick = np.floor(place).astype(np.int64) % columns
    p, q = place - np.floor(place), y * rows - course
    aspect = rows / columns
    edge = np.minimum(np.minimum(p, 1.0 - p) * aspect, np.minimum(q, 1.0 - q))
    wear = noise(rng, 12, (big, big), 6, 0.65)
    body = smooth(0.03, 0.11, edge + 0.07 * (wear - 0.5))[..., None]
    table = np.stack([tint(rng, colour(pick(rng, faces)), 0.22) for _ in range(rows * columns)])
    paint = table[course.astype(np.int64) * columns + brick] * (0.65 + 0.7 * wear)[..., None]
    relief = slope(body[..., 0] + 0.5 * wear, 2, 2)[..., None]
    wall = (colour(joint) * (0.7 + 0.4 * wear)[..., None]) * (1.0 - body) + paint * body
    stains = noise(rng, 3, (big, big), 3)
    wall = wall * (1.0 + 0.5 * relief) * (0.7 + 0.55 * stains)[..., None]

    leaves, far = noise(rng, 10, (big, big), 4, 0.5), noise(rng, 4, (big, big), 3)
    pan_y, pan_x = between(rng, -0.15, 0.15) * size, pick(rng, (-1.0, 1.0)) * between(rng, 0.1, 0.3) * size
    sway, sun = handheld(rng, 0.05), between(rng, 0.3, 0.7)
    gy, gx = grid(size, size, size)
    lean, warm = between(rng, -0.5, 0.5), colour("ffedc8")
    panes = (between(rng, 0.12, 0.2), between(rng, 0.15, 0.26))
    start, speed = between(rng, 0.1, 0.9), pick(rng, (-1.0, 1.0)) * between(rng, 0.3, 0.7)

    def draw(t: float) -> Array:
        dy, dx = sway(t)
        shadow = 0.6 * window(leaves, (dy + 0.1 * t) * size, 2.0 * dx * size, size)
        shadow = smooth(0.42, 0.58, shadow + 0.4 * window(far, 0.2 * t * size, dx * size, size))
        v, u = gy - 0.5 - dy, gx - (start + speed * t) + lean * (gy - 0.5)
        pane = smooth(0.0, 0.02, panes[0] - np.abs(np.abs(u) - panes[0] - 0.015))
        pane = pane * smooth(0.0, 0.02, panes[1] - np.abs(np.abs(v) - panes[1] - 0.015))
        light = 0.42 + 0.5 * sun * shadow + 0.75 * pane * (0.6 + 0.4 * shadow)
        return window(wall, pan_y * t, pan_x * t, size) * (light[..., None] * warm)

    return film(frames, size, draw)
