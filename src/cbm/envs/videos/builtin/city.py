"""Streets: lights out of focus, a skyline with traffic, cars on a country road."""

from __future__ import annotations

import numpy as np

from .canvas import Canvas, Shader
from .landscape import ridge_layer
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
    smooth,
    tint,
    wave,
    whole,
    window,
)

NIGHTS = (
    (("0a0d1c", "1c2038", "3a2c34"), ("ffb45c", "ff7a3c", "fff0c8", "ff4a4a", "8fd0ff")),
    (("06141a", "10343c", "1f4a48"), ("5ce0d8", "a8ffe0", "ffd88a", "4a9cff", "ffffff")),
    (("1a0a22", "3c1a44", "5c2a3c"), ("ff5ca8", "c86cff", "ffc86c", "6c8cff", "ffe8f0")),
    (("140f08", "3a2814", "5c3c18"), ("ffd24a", "ffa030", "fff4d0", "ff6a2c", "ffe08c")),
)


def bokeh(rng: Rng, look: int, frames: int, size: int) -> Array:
    """A street at night out of focus: discs of light that drift and twinkle, mirrored by a wet road."""
    sky, lamps = by_look(look, NIGHTS)
    ground = ramp(sky, 0.6 * noise(rng, 3, (2 * size, 2 * size), 4, 0.5) + 0.2)
    horizon = between(rng, 0.55, 0.8)
    discs = []
    for _ in range(whole(rng, 45, 75)):
        depth = between(rng, 0.0, 1.0)
        place = (horizon - between(rng, 0.0, 1.0) * between(rng, 0.1, 0.8), between(rng, -0.15, 1.15))
        light = tint(rng, colour(pick(rng, lamps)), 0.15) * between(rng, 0.35, 0.95)
        discs.append((0.018 + 0.065 * depth * depth, place, light, between(rng, 0.0, 1.0), between(rng, 0.2, 1.2)))
    posts = [
        (between(rng, 0.0, 1.0), between(rng, 0.015, 0.05), between(rng, 0.1, 0.5)) for _ in range(whole(rng, 1, 4))
    ]
    sway, pan = handheld(rng, 0.02), pick(rng, (-1.0, 1.0)) * between(rng, 0.1, 0.35)
    split = round(horizon * size)
    mirror = np.clip(2 * split - 1 - np.arange(split, size), 0, size - 1)
    streaks = 0.25 + 0.75 * noise(rng, (10, 40), (size, size), 3)

    def draw(t: float) -> Array:
        dy, dx = sway(t)
        canvas = Canvas(window(ground, 0.0, pan * 0.3 * t * size, size), size)
        for radius, (y0, x0), light, phase, rate in discs:
            x = (x0 + pan * t * (0.4 + 9.0 * radius) + dx + 0.2) % 1.4 - 0.2
            strength = 0.75 + 0.25 * wave(rate * t + phase)
            canvas.shade(y0 + dy, x, 1.1 * radius, 1.1 * radius, _aperture(size, radius, light * strength), light=True)
        wet = canvas.pixels[mirror]
        for reach in (3, 7):  # the road smears what it mirrors
            wet = 0.5 * wet + 0.25 * (np.roll(wet, reach, axis=0) + np.roll(wet, -reach, axis=0))
        canvas.pixels[split:] = wet * (0.75 * streaks[split:, :, None]) + 0.25 * canvas.pixels[split:]
        for x0, wide, near in posts:
            x = (x0 + pan * (1.0 + near) * t + 0.2) % 1.4 - 0.2
            canvas.box(-0.1, x, 1.2, wide, colour(sky[0]) * 0.5, 0.9)
        return canvas.pixels

    return film(frames, size, draw)


def _aperture(size: int, radius: float, light: Array) -> Shader:
    """What a lens makes of a point: an even disc with a slightly brighter rim."""

    def shader(dy: Array, dx: Array) -> tuple[Array, Array]:
        r = np.sqrt(dy * dy + dx * dx) * (1.0 / radius)
        edge = np.clip((1.0 - r) * (0.35 * radius * size) + 0.5, 0.0, 1.0)
        return edge * (0.6 + 0.4 * r * r), light

    return shader


TIMES = (  # sky, far ... near walls, lit window, share of windows lit
    (("0b1030", "2a2f66", "b0607a"), ("4a4878", "2f2e58", "16162e"), "ffd98a", 0.45),
    (("5f9bd6", "a8cdea", "e8f0ea"), ("a9b8c4", "8a7f78", "6b5a50"), "33424f", 0.9),
    (("e0703c", "f6b56a", "fbe3b0"), ("b8735c", "7d4a48", "3c2630"), "ffe9b0", 0.35),
    (("07090f", "12182a", "2c3850"), ("22304c", "18223a", "0c1220"), "9fd0ff", 0.4),
    (("8c98a0", "b4bcbe", "d4d4cc"), ("9aa2a6", "7c6a60", "a0523c"), "2c343a", 0.9),
)


def skyline(rng: Rng, look: int, frames: int, size: int) -> Array:
    """Three rows of buildings that pass at different speeds, and cars with their lights in front."""
    sky, walls, lamp, share = by_look(look, TIMES)
    y, x = grid(size, size, size)
    gradient = ramp(sky, np.minimum(1.25 * y + 0.0 * x, 1.0)) * (
        0.7 + 0.6 * noise(rng, (6, 3), (size, size), 5)[..., None]
    )
    rows = [_buildings(rng, size, i, colour(walls[i]), colour(lamp), share) for i in range(3)]
    speed, sway = pick(rng, (-1.0, 1.0)) * between(rng, 0.25, 0.6), handheld(rng, 0.01)
    kerb = between(rng, 0.84, 0.92)
    road = colour(walls[2]) * 0.55 + 0.05
    grain = 0.75 + 0.5 * noise(rng, (16, 5), (size, 2 * size), 4)
    cars = []
    for lane in range(whole(rng, 7, 12)):
        way = 1.0 if lane % 2 else -1.0
        paint = tint(rng, colour(pick(rng, ("b03028", "2c4c78", "d8d4cc", "26282c", "c89a3c"))), 0.2)
        cars.append((between(rng, 0.0, 1.6), way * between(rng, 0.5, 1.1), paint, 0.035 if way > 0 else 0.0))

    def draw(t: float) -> Array:
        canvas = Canvas(gradient.copy(), size)
        dy, dx = sway(t)
        for i, row in enumerate(rows):
            canvas.lay(row.view(dy, 0.65 + speed * t * (0.3 + 0.35 * i) + dx, size))
        cut = round(kerb * size)
        strip = window(grain, 0.0, 1.3 * speed * t * size, size)[cut:]
        canvas.pixels[cut:] = road * strip[..., None]
        for x0, pace, paint, near in cars:
            x = (x0 + (pace - speed) * t) % 1.6 - 0.3
            base = kerb + 0.045 + near
            front, back = (x + 0.1, x) if pace > 0 else (x, x + 0.1)
            canvas.box(base - 0.028, x, 0.028, 0.1, paint)
            canvas.box(base - 0.05, x + 0.022, 0.026, 0.055, paint * 0.6)
            for wheel in (0.022, 0.078):
                canvas.disc(base, x + wheel, 0.011, colour("101012"))
            canvas.glow(base - 0.015, front, 0.05, colour("fff2c0"), 0.6)
            canvas.glow(base - 0.015, back, 0.03, colour("ff3020"), 0.7)
        return canvas.pixels

    return film(frames, size, draw)


def _buildings(rng: Rng, size: int, near: int, wall: Array, lamp: Array, share: float) -> Canvas:
    """A row of house fronts with windows, `near` = 0 far ... 2 near."""
    layer = Canvas.layer(1.0, 2.3, size)
    x = -0.05
    while x < 2.3:
        wide = between(rng, 0.07, 0.17) * (0.8 + 0.35 * near)
        top = 0.25 + 0.13 * near + between(rng, 0.0, 0.4)
        front = tint(rng, wall, 0.22)
        layer.box(top, x, 1.0, wide, front)
        layer.box(top, x + 0.8 * wide, 1.0, 0.2 * wide, front * 0.75)
        if rng.random() < 0.4:
            layer.box(top - between(rng, 0.02, 0.1), x + 0.4 * wide, 0.12, 0.012, front * 0.7)
        columns, floor = whole(rng, 3, 6), 0.03 + 0.012 * near
        step = 0.76 * wide / columns
        for k in range(int((0.96 - top) / floor)):
            for c in range(columns):
                lit = rng.random() < share
                pane = tint(rng, lamp, 0.25) if lit else front * 0.55
                layer.box(top + 0.012 + k * floor, x + 0.03 * wide + (c + 0.2) * step, 0.55 * floor, 0.6 * step, pane)
        x += wide * between(rng, 0.85, 1.25)
    return layer


FIELDS = (  # sky, hills (top, foot), grass, asphalt
    (("4f8fd0", "cfe4f2"), ("6f8f56", "3f5f34"), ("5c8a3a", "86a850"), "4a4a4e"),
    (("d8895c", "f8d8a0"), ("8a5c4a", "4f342c"), ("a8803c", "cfa858"), "54463e"),
    (("8f9aa4", "d0d4d2"), ("5f6f6a", "36463f"), ("4a6650", "6f8668"), "3c4044"),
    (("2f3f78", "c08aa8"), ("4a3f68", "2a2444"), ("3a4a4f", "56666a"), "2c2c38"),
)
BODIES = ("c8281e", "1f5fa8", "f0c030", "e8e6e0", "2f8a5a", "e87a28", "303840")


def road(rng: Rng, look: int, frames: int, size: int) -> Array:
    """A camera that follows cars along a country road: wheels turn, trees and hills pass."""
    sky, hill, grass, asphalt = by_look(look, FIELDS)
    y, x = grid(size, size, size)
    haze = noise(rng, (6, 3), (size, size), 5)
    gradient = ramp(sky, np.clip(1.5 * y + 0.0 * x + 0.9 * smooth(0.45, 0.8, haze), 0.0, 1.0))
    far, near = (
        ridge_layer(rng, size, 2.0, 0.48, 0.24, hill[0], hill[1]),
        ridge_layer(rng, size, 2.4, 0.56, 0.1, grass[1], grass[0]),
    )
    for _ in range(whole(rng, 10, 20)):
        _tree(rng, near, between(rng, 0.0, 2.4), between(rng, 0.5, 0.62), between(rng, 0.04, 0.09), colour(grass[0]))
    verge, span = between(rng, 0.6, 0.66), 4
    turf = ramp(grass, noise(rng, (10, 30), (size, span * size // 2), 5, 0.65))
    tar = colour(asphalt) * (0.75 + 0.5 * noise(rng, (24, 20), (size, span * size // 2), 4, 0.6))[..., None]
    pace, way = between(rng, 1.2, 2.4), pick(rng, (-1.0, 1.0))
    cars = []
    for i in range(whole(rng, 2, 5)):
        lane = i % 2
        scale = 0.75 + 0.35 * lane + between(rng, 0.0, 0.15)
        motion = (between(rng, 0.1, 0.9), pick(rng, (-1.0, 1.0)) * between(rng, 0.1, 0.7))
        cars.append((lane, scale, motion, tint(rng, colour(pick(rng, BODIES)), 0.12), rng.random() < 0.3))
    cars.sort(key=lambda car: car[0])
    cut = [round(v * size) for v in (verge, verge + 0.06, 0.96)]

    def draw(t: float) -> Array:
        canvas = Canvas(gradient.copy(), size)
        move = way * pace * t
        canvas.lay(far.view(0.0, 0.5 + 0.08 * move, size))
        canvas.lay(near.view(0.0, 0.7 + 0.25 * move, size))
        canvas.pixels[cut[0] : cut[1]] = window(turf, 0.0, 0.7 * move * size, size)[cut[0] : cut[1]]
        canvas.pixels[cut[1] : cut[2]] = window(tar, 0.0, move * size, size)[cut[1] : cut[2]]
        canvas.pixels[cut[2] :] = window(turf, 0.0, 1.2 * move * size, size)[cut[2] :]
        for k in range(7):
            dash = (0.3 * k - move) % 2.1 - 0.4
            canvas.polygon(
                [(0.8, dash), (0.8, dash + 0.13), (0.812, dash + 0.134), (0.812, dash - 0.003)], colour("e8e4d4")
            )
        for lane, scale, (x0, drift), paint, tall in cars:
            place = (x0 + drift * t + 0.5) % 1.8 - 0.5
            _car(canvas, (0.75, 0.89)[lane], place, scale, paint, tall, move * 3.0, way)
        return canvas.pixels

    return film(frames, size, draw)


def _tree(rng: Rng, layer: Canvas, x: float, foot: float, radius: float, green: Array) -> None:
    layer.box(foot, x - 0.008, 2.2 * radius, 0.016, colour("4a3424"))
    for _ in range(9):
        dy, dx = between(rng, -0.8, 0.5) * radius, between(rng, -0.8, 0.8) * radius
        layer.disc(foot + dy, x + dx, 0.55 * radius, tint(rng, green * (0.85 - 0.4 * dy / radius), 0.12), soft=0.3)


def _car(canvas: Canvas, y: float, x: float, s: float, paint: Array, tall: bool, turn: float, way: float) -> None:
    """Wheels on the line `y`: shadow, body, cabin, windows, spokes."""
    long, high = 0.34 * s, 0.075 * s
    roof = (0.12 if tall else 0.075) * s
    canvas.disc(y + 0.005, x + 0.5 * long, 0.58 * long, colour("101010"), tall=0.09, soft=0.5, alpha=0.6)
    canvas.box(y - high - 0.02 * s, x, high, long, paint)
    canvas.box(y - 0.045 * s, x, 0.025 * s, long, paint * 0.6)
    top, base = y - high - 0.02 * s - roof, y - high - 0.02 * s
    slant = 0.02 * s if tall else 0.07 * s
    left, right = x + 0.16 * long, x + 0.86 * long
    canvas.polygon([(base, left), (base, right), (top, right - slant), (top, left + slant)], paint * 0.9)
    middle, glass = 0.5 * (left + right), colour("9fc0d0")
    lift = top + 0.012 * s
    canvas.polygon([(base, left + 0.02), (base, middle - 0.006), (lift, middle - 0.006), (lift, left + slant)], glass)
    canvas.polygon(
        [(base, middle + 0.006), (base, right - 0.02), (lift, right - slant), (lift, middle + 0.006)], glass * 0.85
    )
    canvas.glow(base + 0.02 * s, x + (long if way > 0 else 0.0), 0.05 * s, colour("fff0c0"), 0.9)
    for wheel in (x + 0.2 * long, x + 0.8 * long):
        canvas.disc(y - 0.012 * s, wheel, 0.036 * s, colour("161618"))
        canvas.disc(y - 0.012 * s, wheel, 0.021 * s, colour("a8acb0"))
        dy, dx = 0.02 * s * wave(way * turn), 0.02 * s * wave(way * turn + 0.25)
        canvas.line((y - 0.012 * s - dy, wheel - dx), (y - 0.012 * s + dy, wheel + dx), 0.008 * s, colour("404448"))
