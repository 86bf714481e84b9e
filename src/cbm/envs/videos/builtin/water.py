"""Under and above water: a pool's caustics, fish over sand."""

from __future__ import annotations

import numpy as np

from .canvas import Canvas, blend
from .paint import *


class LightNet:
    """The moving net of bright lines that waves cast on the ground: ridges of two drifting sheets."""

    def __init__(self, rng: Rng, size: int) -> None:
        self.size = size
        self.sheets = [texture(rng, size, 3.5, 3, 0.45), texture(rng, size, 4.5, 3, 0.45)]

    def at(self, t: float, dy: float, dx: float) -> Array:
        a = cut(self.sheets[0], dy + t, dx + 0.6 * t, self.size)
        b = cut(self.sheets[1], dy - 0.7 * t, dx + 0.5 * t, self.size)
        c = cut(self.sheets[1], dy + 0.8, dx + t, self.size)
        bright, thin = np.maximum(1.0 - np.abs(a - b) * 5.0, 0.0), np.maximum(1.0 - np.abs(c - a) * 7.0, 0.0)
        bright = bright * bright
        return bright * bright * 0.8 + thin * thin * thin * 0.5


POOLS = (
    ("0a5f80", "2fa8c4", "d8f6f2"),
    ("0c3f3a", "2f8f78", "e4f7c8"),
    ("12265c", "3460b0", "cfe0ff"),
    ("5a4a30", "a8935e", "fff2cc"),
    ("3a2a5c", "7a68b8", "f2e0ff"),
)
PEBBLES = ("2f2c28", "7a6a55", "c8b89c", "6f7f78", "e8dfc8", "8a4a38")


def caustics(rng: Rng, look: int, size: int) -> Pictures:
    """The floor of a pool or brook, bent by the waves above and crossed by a net of light."""
    deep, shallow, lit = (colour(code) for code in by_look(look, POOLS))
    unit, big = size / SPAN, 2 * size
    net = LightNet(rng, size)
    y, x = grid(big, big, big)
    stones = grained(rng, size, 10.0, 0.92, 2.0)
    if rng.random() < 0.6:  # tiles
        count = whole(rng, 44, 64)
        p, q = x * count, y * count
        table = np.stack([tint(rng, shallow, 0.45) for _ in range(count * count)])
        tile = np.floor(q).astype(np.int64) * count + np.floor(p).astype(np.int64)
        p, q = p - np.floor(p), q - np.floor(q)
        joint = smooth(0.06, 0.14, np.minimum(np.minimum(p, 1.0 - p), np.minimum(q, 1.0 - q)))[..., None]
        lane = x * TEXTURE
        stripe = smooth(0.0, 0.02, 0.07 - np.abs(lane - np.floor(lane) - 0.4) - 0.0 * y)[..., None]
        floor = (deep * 0.6 + (table[tile] - deep * 0.6) * (0.2 + 0.8 * joint)) * (1.0 - 0.75 * stripe)
    else:
        floor = 0.75 * _pebbles(rng, size) + 0.25 * shallow
    floor = floor * (0.6 + 0.7 * stones)[..., None]
    speed, bend, path = between(rng, 0.5, 0.9), between(rng, 0.03, 0.06) * unit, camera(rng, 0.5, 1.0)
    rows, columns = np.meshgrid(np.arange(size, dtype=np.float32), np.arange(size, dtype=np.float32), indexing="ij")
    depth = smooth(-0.6, 1.3, view_grid(size)[0])[..., None]
    glints = smooth(0.76, 0.84, texture(rng, size, 16.0, 4, 0.8))
    for t, dy, dx in shots(path):
        swell = cut(net.sheets[0], speed * t, -speed * t, size) - 0.5
        chop = cut(net.sheets[1], -speed * t, 0.5 * speed * t, size) - 0.5
        row, column = rows + 2.0 * bend * swell + dy * unit, columns + 2.0 * bend * chop + dx * unit
        ground = warp(floor, np.floor(row), np.floor(column))  # whole pixels: sharp
        light = net.at(speed * t, 0.7 * dy, 0.7 * dx)[..., None]
        sparkle = cut(glints, 0.8 * speed * t, 0.5 * dx - speed * t, size)[..., None]
        yield ground * (0.55 + 0.35 * depth) + lit * (0.55 * light * (0.4 + 0.6 * depth) + 0.8 * sparkle) + deep * 0.08


def _pebbles(rng: Rng, size: int) -> Array:
    """Stones of all colours, lit from the upper left: a periodic texture."""
    canvas = Canvas(ramp(PEBBLES[:2], texture(rng, size, 10.0, gain=0.85)), size, 0.0, 0.0)
    for _ in range(2600):
        y, x, radius = between(rng, 0.0, TEXTURE), between(rng, 0.0, TEXTURE), between(rng, 0.03, 0.11)
        paint, tall = tint(rng, colour(pick(rng, PEBBLES)), 0.3), between(rng, 0.6, 1.1)
        canvas.disc(y + 0.3 * radius, x + 0.3 * radius, radius, colour("14120f"), tall=tall, alpha=0.6)
        canvas.disc(y, x, radius, paint * 0.7, tall=tall)
        canvas.disc(y - 0.2 * radius, x - 0.2 * radius, 0.65 * radius, paint, tall=tall, soft=0.3)
    return canvas.pixels


SCALES = ("f28c28", "e8d44d", "d23c4a", "4aa0d8", "f4f0e6", "7a4fb0", "2f3d4f", "3fb58c")
BEATS = 6  # drawings of a fish that swims


def fish(rng: Rng, look: int, size: int) -> Pictures:
    """Shoals over sand, stones and coral: bodies that bend as they swim, weed that sways, light from the waves."""
    big = 2 * size
    deep, shallow, lit = (colour(code) for code in by_look(look, POOLS))
    y, x = grid(big, big, big)
    lumps = grained(rng, size, 6.0, 0.88, 1.8)
    ripples = wave(38.0 * y + 2.5 * lumps + 6.0 * x)
    sand = ramp(("5f4a36", "c9b283", "fff0c4"), 0.5 + 0.2 * ripples + 0.6 * (lumps - 0.5))
    sand = sand * (0.35 + 0.75 * shallow) * (1.0 + 1.2 * slope(lumps))[..., None]
    net, reef = LightNet(rng, size), Canvas.layer(size)
    for _ in range(whole(rng, 60, 90)):
        _coral(rng, reef, between(rng, LOW, HIGH + 0.2), between(rng, reef.left, reef.right))
    reef.roughen(contrast(texture(rng, size, 16.0, gain=0.9), 1.5), 0.5)
    shoal = []
    for _ in range(whole(rng, 80, 110)):
        long, paint = between(rng, 0.03, 0.1), tint(rng, colour(pick(rng, SCALES)), 0.3)
        way, bars = pick(rng, (-1.0, 1.0)) * between(rng, 0.4, 1.6), whole(rng, 2, 6)
        swimming = [_fish(size, long, paint, deep * 0.3, bars, way, beat / BEATS) for beat in range(BEATS)]
        place = (between(rng, LOW, HIGH), between(rng, 0.0, 2.8))
        shoal.append((long, swimming, place, way, between(rng, 0.0, 1.0)))
    shoal.sort(key=lambda one: one[0])
    path, light = camera(rng, 0.5, 1.0), shade_and_sun(rng, size, 0.5, 1.25)
    haze = 0.2 * (HIGH - view_grid(size)[0])[..., None]
    for t, dy, dx in shots(path):
        canvas = Canvas(cut(sand, dy, dx, size).copy(), size)
        canvas.lay(reef.view(dy, dx))
        canvas.pixels += lit * (0.35 * net.at(0.8 * t, 0.8 * dy, 0.8 * dx)[..., None])
        for _, swimming, (y0, x0), way, phase in shoal:
            cx = (x0 + way * t - dx) % 2.8 + LOW - 0.2
            cy = y0 + 0.06 * wave(0.8 * t + phase) - dy
            canvas.stamp(swimming[int((4.0 * t + phase) * BEATS) % BEATS], cy, cx)
        yield canvas.pixels * ((1.0 - haze) * cut(light, dy, dx, size)) + shallow * haze


def _coral(rng: Rng, reef: Canvas, y: float, x: float) -> None:
    """A stone, or a fan of branches."""
    paint = tint(rng, colour(pick(rng, ("c85a6a", "e8a05a", "8a6ab0", "5a8a5a", "b0a890", "3a6a4a"))), 0.25)
    reach = between(rng, 0.06, 0.16)
    if rng.random() < 0.4:
        reef.disc(y + 0.2 * reach, x + 0.2 * reach, reach, colour("101418"), tall=0.6, alpha=0.6)
        reef.disc(y, x, reach, paint * 0.5, tall=0.65)
        reef.disc(y - 0.1 * reach, x - 0.15 * reach, 0.7 * reach, paint * 0.9, tall=0.6, soft=0.4)
        return
    for _ in range(9):
        side = between(rng, -1.0, 1.0)
        tip = (y - reach * (1.2 - 0.5 * abs(side)), x + side * reach)
        reef.line((y, x), tip, 0.02, paint * between(rng, 0.5, 1.1))
        reef.disc(*tip, 0.016, np.clip(paint * 1.4, 0.0, 1.0))


def _fish(size: int, long: float, paint: Array, shadow: Array, bars: int, way: float, beat: float) -> Canvas:
    """Body, forked tail, bars and an eye, bent sideways by a wave that runs towards the tail."""
    sprite = Canvas.sprite(1.6 * long, 1.8 * long, size)
    sprite.disc(0.9 * long, 0.3 * long, long, shadow, tall=0.35, soft=0.5, alpha=0.5)
    view, dy, dx = sprite.around(0.0, 0.0, 0.9 * long, 1.75 * long)
    u = dx * ((1.0 if way > 0 else -1.0) / long)  # 1 at the nose, -1 where the tail begins
    v = dy * (1.0 / long) - 0.13 * (1.0 - u) * wave(beat + 0.25 * u)
    body = 0.46 * np.sqrt(np.maximum(1.0 - u * u, 0.0)) * (0.85 + 0.15 * u)
    tail = np.where(u < -0.8, (-0.8 - u) * 0.75 + 0.06, 0.0)
    tail = np.where((u > -1.55) & (np.abs(v) > (-1.2 - u) * 0.9), tail, 0.0)
    half = np.maximum(body, tail)
    cover = np.clip(0.5 + (half - np.abs(v)) * (long * sprite.unit), 0.0, 1.0) * (half > 0.0)
    bar = 0.5 + 0.5 * wave(u * (0.5 * bars) + 0.2 * v)
    light = np.clip(0.85 - 0.9 * v, 0.3, 1.4) * (1.0 - 0.6 * smooth(0.55, 0.8, bar))
    eye = np.sqrt((u - 0.68) * (u - 0.68) + (v + 0.08) * (v + 0.08))
    shade = paint * light[..., None]
    shade = shade + (1.0 - shade) * (1.0 - smooth(0.09, 0.13, eye))[..., None]
    blend(view, cover, shade * smooth(0.04, 0.08, eye)[..., None])
    return sprite
