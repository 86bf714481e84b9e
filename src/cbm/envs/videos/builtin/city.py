"""Streets: lights behind a wet window, a skyline with traffic, cars on a country road."""

from __future__ import annotations

import numpy as np

from .canvas import Canvas
from .landscape import bush, ridge_layer
from .paint import *

NIGHTS = (
    (("0a0d1c", "2c2a48", "5a3c34"), ("ffb45c", "ff7a3c", "fff0c8", "ff4a4a", "8fd0ff")),
    (("06141a", "10444c", "2f6a58"), ("5ce0d8", "a8ffe0", "ffd88a", "4a9cff", "ffffff")),
    (("1a0a22", "4c1a54", "7c3a4c"), ("ff5ca8", "c86cff", "ffc86c", "6c8cff", "ffe8f0")),
    (("140f08", "4a3018", "7c4c18"), ("ffd24a", "ffa030", "fff4d0", "ff6a2c", "a0e08c")),
)


def bokeh(rng: Rng, look: int, size: int) -> Pictures:
    """A street at night through a wet window: lights out of focus pass behind drops that are sharp."""
    sky, lamps = by_look(look, NIGHTS)
    ground = ramp(sky, contrast(texture(rng, size, 1.5, gain=0.6), 1.6))
    lights = []
    for _ in range(whole(rng, 150, 190)):
        depth = between(rng, 0.0, 1.0)
        radius = 0.02 + 0.07 * depth * depth
        paint = tint(rng, colour(pick(rng, lamps)), 0.25) * between(rng, 0.4, 1.0)
        place = (between(rng, LOW, HIGH), between(rng, 0.0, SPAN + 0.4))
        lights.append((_aperture(size, radius, paint), place, depth, between(rng, 0.0, 1.0), between(rng, 0.5, 2.0)))
    glass = Canvas.layer(size)
    for _ in range(2600):
        _drop(rng, glass, lamps, sky)
    path, hand = camera(rng, 0.8), handheld(rng, 0.06)
    posts = [(between(rng, LOW, HIGH), between(rng, 0.03, 0.09)) for _ in range(whole(rng, 3, 6))]
    for t, dy, dx in shots(path):
        canvas = Canvas(cut(ground, 0.3 * dy, 0.5 * dx, size).copy(), size)
        for disc, (y0, x0), depth, phase, rate in lights:
            x = (x0 - dx * (0.6 + 1.2 * depth)) % (SPAN + 0.4) + LOW - 0.2
            strength = 0.75 + 0.25 * wave(rate * t + phase)
            canvas.stamp(Canvas(disc.pixels * strength, size), y0 - dy, x)
        for x0, wide in posts:
            x = (x0 - 2.2 * dx - LOW + 0.2) % (SPAN + 0.4) + LOW - 0.2
            canvas.box(LOW, x, SPAN, wide, colour(sky[0]) * 0.5, 0.9)
        sway_y, sway_x = hand(t)
        canvas.lay(glass.view(sway_y, 0.35 * dx + sway_x))
        yield canvas.pixels


def _drop(rng: Rng, glass: Canvas, lamps: tuple[str, ...], sky: tuple[str, ...]) -> None:
    """A drop of water: dark above, a light of the street upside down below, a gleam."""
    y, x = between(rng, glass.top, HIGH + 0.2), between(rng, glass.left, glass.right)
    size = 0.008 + 0.026 * between(rng, 0.0, 1.0) * between(rng, 0.0, 1.0)
    lamp = tint(rng, colour(pick(rng, lamps)), 0.3) * between(rng, 0.3, 0.9)
    glass.disc(y, x, 1.25 * size, colour(sky[0]) * 0.6, tall=1.15, alpha=0.75)
    glass.disc(y + 0.25 * size, x, 0.85 * size, lamp, alpha=0.9)
    if rng.random() < 0.5:
        glass.block(y - 0.5 * size, x - 0.2 * size, 0.4 * size, 0.4 * size, colour("ffffff"))


def _aperture(size: int, radius: float, light: Array) -> Canvas:
    """What a lens makes of a point: an even disc with a slightly brighter rim. It covers nothing, only adds light."""
    disc = Canvas.sprite(1.1 * radius, 1.1 * radius, size)
    view, dy, dx = disc.around(0.0, 0.0, 1.1 * radius, 1.1 * radius)
    r = np.sqrt(dy * dy + dx * dx) * (1.0 / radius)
    edge = np.clip((1.0 - r) * (radius * disc.unit) + 0.5, 0.0, 1.0)
    view[..., :3] += (edge * (0.6 + 0.4 * r * r))[..., None] * light
    return disc


TIMES = (  # sky, far ... near walls, lit window, share of windows lit
    (("0b1030", "2a2f66", "b0607a"), ("6a5898", "4f3e68", "36364e"), "ffd98a", 0.5),
    (("5f9bd6", "a8cdea", "e8f0ea"), ("a9b8c4", "9a7f68", "8b5a50"), "33424f", 0.8),
    (("e0703c", "f6b56a", "fbe3b0"), ("c8836c", "8d5a58", "5c3640"), "ffe9b0", 0.4),
    (("101830", "22305a", "4c5880"), ("42507c", "384a5a", "2c3240"), "9fd0ff", 0.5),
    (("8c98a0", "b4bcbe", "d4d4cc"), ("9aa2a6", "8c7a60", "a0523c"), "2c343a", 0.8),
)


def skyline(rng: Rng, look: int, size: int) -> Pictures:
    """Three rows of buildings that pass at different speeds, and cars with their lights in front."""
    sky, walls, lamp, share = by_look(look, TIMES)
    haze = contrast(texture(rng, size, (3.0, 1.0), gain=0.62), 1.5)
    gradient = ramp(sky, np.clip(0.9 * view_grid(size)[0] + 0.3, 0.0, 1.0))
    rows = [_buildings(rng, size, i, colour(walls[i]), colour(lamp), share) for i in range(3)]
    for row in rows:
        row.roughen(patchy(rng, size, texture(rng, size, 4.0, gain=0.7)), 0.4)
    path, kerb = camera(rng, 0.8), between(rng, 0.76, 0.84)
    tar = ramp(("1c1c20", "3c3c40", "6c6a68"), grained(rng, size, (30.0, 6.0), 0.9, 1.8))
    traffic = []
    for i in range(whole(rng, 34, 42)):
        lane, way = i % 6, 1.0 if i % 2 else -1.0
        paint = tint(rng, colour(pick(rng, BODIES)), 0.25)
        sprite = _car(size, 0.06, 0.5 + 0.16 * lane, paint, rng.random() < 0.3, 0.0, way)
        traffic.append((lane, between(rng, 0.0, 3.2), way * between(rng, 0.4, 1.4), sprite))
    traffic.sort(key=lambda car: car[0])
    for t, dy, dx in shots(path):
        light = 0.75 + 0.5 * cut(haze, 0.0, 0.1 * dx + 0.1 * t, size)[..., None]
        canvas = Canvas(gradient * light, size)
        for i, row in enumerate(rows):
            canvas.lay(row.view(dy, dx * (0.5 + 0.25 * i)))
        edge = round((kerb - dy - LOW) * canvas.unit)
        canvas.pixels[edge:] = cut(tar, dy, dx, size)[edge:]
        for lane in range(1, 6):
            for k in range(10):
                dash = (0.35 * k - dx) % 3.5 + LOW - 0.4
                canvas.block(kerb + 0.12 * lane + 0.03 - dy, dash, 0.012, 0.16, colour("d8d0a8"))
        for lane, x0, pace, sprite in traffic:
            canvas.stamp(sprite, kerb + 0.01 + 0.12 * lane - dy, (x0 + pace * t - dx) % 3.2 + LOW - 0.4)
        yield canvas.pixels


def _buildings(rng: Rng, size: int, near: int, wall: Array, lamp: Array, share: float) -> Canvas:
    """A row of house fronts with windows, `near` = 0 far ... 2 near."""
    layer = Canvas.layer(size)
    x = layer.left - 0.05
    while x < layer.right:
        wide = between(rng, 0.12, 0.28) * (0.8 + 0.25 * near)
        top = -0.15 + 0.2 * near + between(rng, 0.0, 0.5)
        front = np.clip(tint(rng, wall, 0.35), 0.08, 1.0)
        layer.block(top, x, 2.0, wide, front)
        layer.block(top, x + 0.8 * wide, 2.0, 0.2 * wide, front * 0.65)
        layer.block(top, x, 0.02, wide, front * 1.3)
        if rng.random() < 0.5:
            layer.block(top - between(rng, 0.04, 0.16), x + 0.4 * wide, 0.17, 0.014, front * 0.6)
        columns, floor = whole(rng, 2, 6), between(rng, 0.055, 0.095) + 0.01 * near
        step, high = 0.76 * wide / columns, between(rng, 0.45, 0.7)
        for k in range(int((1.1 - top) / floor)):
            for c in range(columns):
                lit = rng.random() < share
                pane = front + 0.8 * (tint(rng, lamp, 0.4) - front) if lit else front * between(rng, 0.5, 0.9)
                layer.block(top + 0.03 + k * floor, x + 0.03 * wide + (c + 0.2) * step, high * floor, 0.6 * step, pane)
        x += wide * between(rng, 0.85, 1.2)
    return layer


FIELDS = (  # sky, hills (top, foot), grass, asphalt
    (("4f8fd0", "cfe4f2"), ("6f8f56", "3f5f34"), ("2c5a1a", "5c8a3a", "a6c870"), "5a5a5e"),
    (("d8895c", "f8d8a0"), ("8a5c4a", "4f342c"), ("6a4a1c", "a8803c", "efc878"), "64564e"),
    (("8f9aa4", "d0d4d2"), ("5f6f6a", "36463f"), ("2a4630", "4a6650", "8fa688"), "4c5054"),
    (("2f3f78", "c08aa8"), ("4a3f68", "2a2444"), ("1a2a3f", "3a4a5f", "76868a"), "3c3c48"),
)
BODIES = ("c8281e", "1f5fa8", "f0c030", "e8e6e0", "2f8a5a", "e87a28", "303840")


def road(rng: Rng, look: int, size: int) -> Pictures:
    """A camera that follows cars along a country road: wheels turn, hedges, trees and hills pass."""
    sky, hill, grass, asphalt = by_look(look, FIELDS)
    haze = texture(rng, size, (2.5, 1.2), gain=0.6)[:size, :size]
    gradient = ramp(sky, np.clip(0.9 * view_grid(size)[0] + 0.2 + 0.9 * smooth(0.5, 0.75, haze), 0.0, 1.0))
    far = ridge_layer(rng, size, 0.3, 0.35, hill[0], hill[1])
    near = ridge_layer(rng, size, 0.42, 0.12, grass[2], grass[0])
    for _ in range(whole(rng, 55, 75)):
        radius, place = between(rng, 0.05, 0.14), between(rng, near.left, near.right)
        green = colour(pick(rng, grass))
        near.block(0.46, place - 0.008, 0.12, 0.016, colour("4a3424"))
        bush(rng, near, between(rng, 0.34, 0.52), place, radius, green)
    near.roughen(patchy(rng, size, texture(rng, size, 12.0, gain=0.85)), 0.6)
    turf = ramp(grass, grained(rng, size, (16.0, 8.0), 0.9, 2.4))
    tar = ramp(("18181a", asphalt, "b0aca8"), grained(rng, size, (40.0, 10.0), 0.9, 1.8))
    verge, pace, way = between(rng, 0.52, 0.58), between(rng, 2.0, 3.2), pick(rng, (-1.0, 1.0))
    cars = []
    for i in range(whole(rng, 5, 8)):
        lane = i % 2
        scale = 0.9 + 0.3 * lane + between(rng, 0.0, 0.15)
        paint, tall = tint(rng, colour(pick(rng, BODIES)), 0.2), rng.random() < 0.3
        turning = [_car(size, 0.12, scale, paint, tall, step / 8, way) for step in range(4)]
        cars.append((lane, between(rng, 0.0, 3.0), pick(rng, (-1.0, 1.0)) * between(rng, 0.2, 0.9), turning))
    cars.sort(key=lambda car: car[0])
    hand = handheld(rng, 0.03)
    for t, dy, dx in shots(hand):
        canvas = Canvas(gradient.copy(), size)
        move = way * pace * t + dx
        start = PAN if way < 0 else 0.0
        canvas.lay(far.view(dy, start + 0.12 * move))
        canvas.lay(near.view(dy, start + 0.4 * move))
        top, kerb, end = (round((v - dy - LOW) * canvas.unit) for v in (verge, verge + 0.1, 1.06))
        canvas.pixels[top:kerb] = cut(turf, dy, 0.7 * move, size)[top:kerb]
        canvas.pixels[kerb:end] = cut(tar, dy, move, size)[kerb:end]
        canvas.pixels[end:] = cut(turf, dy, 1.2 * move, size)[end:]
        for k in range(10):
            canvas.block(0.81 - dy, (0.34 * k - move) % 3.4 + LOW - 0.4, 0.016, 0.16, colour("e8e4d4"))
            canvas.block(verge + 0.02 - dy, (0.34 * k - 0.7 * move) % 3.4 + LOW - 0.4, 0.1, 0.022, colour("f0ece0"))
        for lane, x0, drift, turning in cars:
            place = (x0 + drift * t) % 3.0 + LOW - 0.3
            canvas.stamp(turning[int(t * 60.0) % 4], (0.64, 0.86)[lane] - dy, place)
        yield canvas.pixels


def _car(size: int, y: float, s: float, paint: Array, tall: bool, turn: float, way: float) -> Canvas:
    """Wheels on the line `y`: shadow, body, cabin, windows, spokes."""
    canvas = Canvas.sprite(y + 0.2, y + 0.22, size)
    x, long, high = -0.17 * s, 0.34 * s, 0.075 * s
    roof = (0.12 if tall else 0.075) * s
    canvas.disc(y + 0.005, x + 0.5 * long, 0.58 * long, colour("101010"), tall=0.09, soft=0.5, alpha=0.6)
    canvas.box(y - high - 0.02 * s, x, high, long, paint)
    canvas.box(y - high - 0.02 * s, x, 0.012 * s, long, np.clip(paint * 1.5 + 0.1, 0.0, 1.0))
    canvas.box(y - 0.045 * s, x, 0.025 * s, long, paint * 0.5)
    top, base = y - high - 0.02 * s - roof, y - high - 0.02 * s
    slant = 0.02 * s if tall else 0.07 * s
    left, right = x + 0.16 * long, x + 0.86 * long
    canvas.polygon([(base, left), (base, right), (top, right - slant), (top, left + slant)], paint * 0.9)
    middle, glass = 0.5 * (left + right), colour("9fc0d0")
    lift = top + 0.012 * s
    canvas.polygon([(base, left + 0.02), (base, middle - 0.006), (lift, middle - 0.006), (lift, left + slant)], glass)
    canvas.polygon(
        [(base, middle + 0.006), (base, right - 0.02), (lift, right - slant), (lift, middle + 0.006)], glass * 0.6
    )
    front, back = (x + 0.95 * long, x) if way > 0 else (x, x + 0.95 * long)
    canvas.box(base + 0.015 * s, front, 0.02 * s, 0.05 * long, colour("fff0c0"))
    canvas.box(base + 0.015 * s, back, 0.02 * s, 0.05 * long, colour("e02818"))
    for wheel in (x + 0.2 * long, x + 0.8 * long):
        canvas.disc(y - 0.012 * s, wheel, 0.036 * s, colour("161618"))
        canvas.disc(y - 0.012 * s, wheel, 0.021 * s, colour("a8acb0"))
        dy, dx = 0.02 * s * wave(way * turn), 0.02 * s * wave(way * turn + 0.25)
        canvas.line((y - 0.012 * s - dy, wheel - dx), (y - 0.012 * s + dy, wheel + dx), 0.008 * s, colour("404448"))
    return canvas
