"""Under and above water: a pool's caustics, fish over sand."""

from __future__ import annotations

import numpy as np

from .canvas import Canvas, Shader
from .paint import (
    Array,
    Rng,
    between,
    by_look,
    colour,
    film,
    grid,
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


def light_net(sheets: list[Array], t: float, speed: float, size: int) -> Array:
    """The moving net of bright lines that waves cast on the ground: ridges of two drifting sheets."""
    a = window(sheets[0], speed * t * size, 0.6 * speed * t * size, size)
    b = window(sheets[1], -0.7 * speed * t * size, 0.5 * speed * t * size, size)
    c = window(sheets[1], 0.3 * size, speed * t * size, size)
    ridge = 1.0 - np.abs(a - b) * 3.4
    fine = 1.0 - np.abs(c - a) * 4.5
    bright, thin = np.maximum(ridge, 0.0), np.maximum(fine, 0.0)
    bright = bright * bright
    return bright * bright * 0.8 + thin * thin * thin * 0.4


POOLS = (
    ("0a5f80", "2fa8c4", "d8f6f2"),
    ("0c3f3a", "2f8f78", "e4f7c8"),
    ("12265c", "3460b0", "cfe0ff"),
    ("5a4a30", "a8935e", "fff2cc"),
    ("3a2a5c", "7a68b8", "f2e0ff"),
)


def caustics(rng: Rng, look: int, frames: int, size: int) -> Array:
    """The floor of a pool or brook, bent by the waves above and crossed by a net of light."""
    deep, shallow, lit = (colour(code) for code in by_look(look, POOLS))
    big = 2 * size
    sheets = [noise(rng, 14, (big, big), 2, 0.4), noise(rng, 17, (big, big), 2, 0.4)]
    y, x = grid(big, big, big)
    stones = noise(rng, 10, (big, big), 6, 0.6)
    if rng.random() < 0.6:  # tiles
        count = whole(rng, 8, 18)
        p, q = x * count, y * count
        table = np.stack([tint(rng, shallow, 0.14) for _ in range(count * count)])
        tile = np.floor(q).astype(np.int64) * count + np.floor(p).astype(np.int64)
        p, q = p - np.floor(p), q - np.floor(q)
        joint = smooth(0.02, 0.09, np.minimum(np.minimum(p, 1.0 - p), np.minimum(q, 1.0 - q)))[..., None]
        lane = smooth(0.0, 0.01, 0.05 - np.abs(x - 0.37 - 0.0 * y))[..., None]
        floor = (deep + (table[tile] - deep) * (0.35 + 0.65 * joint)) * (1.0 - 0.75 * lane)
    else:  # pebbles: a stepped height field with relief
        steps = np.floor(stones * 9.0)
        floor = ramp(("2f2c28", "7a6a55", "b8a88c", "6f7f78", "d8cfb8"), (steps * 0.37) % 1.0)
        floor = floor * (0.9 + 0.8 * slope(stones, 1, 1) * 6.0)[..., None]
        floor = 0.55 * floor + 0.45 * shallow
    floor = floor * (0.75 + 0.4 * stones)[..., None]
    speed, drift, bend = between(rng, 0.15, 0.3), between(rng, -0.25, 0.25), between(rng, 6.0, 14.0) * size / 256
    rows, columns = np.meshgrid(np.arange(size, dtype=np.float32), np.arange(size, dtype=np.float32), indexing="ij")
    depth = smooth(-0.2, 1.1, grid(size, size, size)[0] + 0.0 * columns)[..., None]

    def draw(t: float) -> Array:
        swell = window(sheets[0], speed * t * size, -speed * t * size, size) - 0.5
        chop = window(sheets[1], -speed * t * size, 0.5 * speed * t * size, size) - 0.5
        ground = warp(floor, rows + 2.0 * bend * swell, columns + 2.0 * bend * chop + drift * t * size)
        net = light_net(sheets, t, speed, size)[..., None]
        return ground * (0.5 + 0.35 * depth) + lit * (0.62 * net * (0.4 + 0.6 * depth)) + deep * 0.12

    return film(frames, size, draw)


SCALES = ("f28c28", "e8d44d", "d23c4a", "4aa0d8", "f4f0e6", "7a4fb0", "2f3d4f", "3fb58c")


def fish(rng: Rng, look: int, frames: int, size: int) -> Array:
    """A shoal over rippled sand: bodies that bend as they swim, weed that sways, light from the waves."""
    big = 2 * size
    deep, shallow, lit = (colour(code) for code in by_look(look, POOLS))
    y, x = grid(big, big, big)
    lumps = noise(rng, 5, (big, big), 6, 0.6)
    ripples = wave(13.0 * y + 2.5 * lumps + 2.0 * x)
    sand = ramp(("8f7a56", "c9b283", "efe0b4"), 0.5 + 0.25 * ripples + 0.5 * (lumps - 0.5))
    sand = sand * (0.45 + 0.7 * shallow)
    sheets = [noise(rng, 14, (big, big), 2, 0.4), noise(rng, 17, (big, big), 2, 0.4)]
    shoal = []
    for _ in range(whole(rng, 12, 20)):
        paint = tint(rng, colour(pick(rng, SCALES)), 0.2)
        place = (between(rng, 0.06, 0.94), between(rng, -0.1, 1.1))
        way = pick(rng, (-1.0, 1.0)) * between(rng, 0.2, 0.9)
        shoal.append((between(rng, 0.035, 0.1), paint, whole(rng, 2, 6), place, way, between(rng, 0.0, 1.0)))
    shoal.sort(key=lambda one: one[0])
    weeds = [
        (between(rng, 0.0, 1.0), between(rng, 0.15, 0.45), between(rng, 0.0, 1.0), tint(rng, colour("2f7a3c"), 0.3))
        for _ in range(whole(rng, 8, 16))
    ]
    speed, drift = between(rng, 0.15, 0.25), between(rng, -0.3, 0.3)

    def draw(t: float) -> Array:
        net = light_net(sheets, t, speed, size)[..., None]
        canvas = Canvas(window(sand, 0.0, drift * t * size, size) * 0.85 + lit * (0.25 * net), size)
        for foot, tall, phase, green in weeds:
            previous = (1.02, foot)
            for k in range(1, 6):
                lean = 0.012 * k * k * 0.35 * wave(0.9 * t + phase - 0.08 * k)
                point = (1.02 - tall * 0.2 * k, foot + lean)
                canvas.line(previous, point, 0.03 - 0.004 * k, green * (0.7 + 0.1 * k))
                previous = point
        for long, paint, bars, (y0, x0), way, phase in shoal:
            cx = (x0 + way * t + 0.2) % 1.4 - 0.2
            cy = y0 + 0.03 * wave(0.8 * t + phase)
            canvas.disc(cy + 0.09, cx + 0.03, long, deep * 0.3, tall=0.35, soft=0.7, alpha=0.4)
            canvas.shade(cy, cx, 0.9 * long, 1.75 * long, _fish(size, long, paint, bars, way, 3.0 * t + phase))
        haze = 0.25 * (1.0 - grid(size, size, size)[0])[..., None]
        return canvas.pixels * (1.0 - haze) + shallow * haze

    return film(frames, size, draw)


def _fish(size: int, long: float, paint: Array, bars: int, way: float, beat: float) -> Shader:
    """Body, forked tail, bars and an eye, bent sideways by a wave that runs towards the tail."""
    facing = 1.0 if way > 0 else -1.0

    def shader(dy: Array, dx: Array) -> tuple[Array, Array]:
        u = dx * (facing / long)  # 1 at the nose, -1 where the tail begins
        v = dy * (1.0 / long) - 0.13 * (1.0 - u) * wave(beat + 0.25 * u)
        body = 0.46 * np.sqrt(np.maximum(1.0 - u * u, 0.0)) * (0.85 + 0.15 * u)
        tail = np.where(u < -0.8, (-0.8 - u) * 0.75 + 0.06, 0.0)
        tail = np.where((u > -1.55) & (np.abs(v) > (-1.2 - u) * 0.9), tail, 0.0)
        half = np.maximum(body, tail)
        cover = np.clip(0.5 + (half - np.abs(v)) * (long * size), 0.0, 1.0) * (half > 0.0)
        bar = 0.5 + 0.5 * wave(u * (0.5 * bars) + 0.2 * v)
        light = np.clip(0.85 - 0.9 * v, 0.3, 1.4) * (1.0 - 0.55 * smooth(0.55, 0.8, bar))
        eye = np.sqrt((u - 0.68) * (u - 0.68) + (v + 0.08) * (v + 0.08))
        shade = paint * light[..., None]
        shade = shade + (1.0 - shade) * (1.0 - smooth(0.09, 0.13, eye))[..., None]
        return cover, shade * smooth(0.04, 0.08, eye)[..., None]

    return shader
