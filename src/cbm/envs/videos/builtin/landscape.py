"""Open air: clouds, mountains in snow or rain, balloons over hills."""

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
    handheld,
    noise,
    noise_line,
    pick,
    ramp,
    slope,
    smooth,
    tint,
    wave,
    whole,
    window,
)

SKIES = (  # zenith ... horizon, lit cloud, cloud's shadow
    (("1f5fb4", "5c9be0", "cfe6f5"), "ffffff", "8d9db3"),
    (("2b2350", "a8446a", "ffb25c"), "ffd9a0", "6b3a5c"),
    (("39424e", "69737d", "a4a9a6"), "c9cdd0", "3b434c"),
    (("0c1638", "24407a", "6f88b8"), "9fb2dd", "1b2950"),
    (("4fa3a5", "a5d6c4", "f7e8bd"), "fff7e0", "7d9a94"),
    (("7a2a1c", "e0692c", "ffd36b"), "ffe9b8", "5a2230"),
)


def ridge_layer(rng: Rng, size: int, width: float, base: float, rough: float, top: str, foot: str) -> Canvas:
    """A mountain range across `width` units: an outline, relief light, snow or rock by height."""
    layer = Canvas.layer(1.0, width, size)
    rows, columns = layer.pixels.shape[:2]
    outline = base - rough * noise_line(rng, whole(rng, 3, 6), columns, gain=0.52)
    y, _ = grid(rows, columns, size)
    depth = y - outline[None, :]
    relief = noise(rng, (6, 8), (rows, columns), 6, 0.62)
    light = 0.82 + 3.0 * slope(relief, 1, 2)
    height = np.clip(depth * (1.0 / (rough + 0.12)) + 0.5 * (relief - 0.5), 0.0, 1.0)
    cover = np.clip(0.5 + depth * size, 0.0, 1.0)[..., None]
    layer.pixels[..., :3] = np.clip(ramp((top, foot), height) * light[..., None], 0.0, 1.0) * cover
    layer.pixels[..., 3:] = cover
    return layer


def conifers(rng: Rng, layer: Canvas, count: int, foot: float, paint: Array) -> None:
    """A row of firs along the foot of a layer."""
    span = layer.pixels.shape[1] / layer.unit
    for _ in range(count):
        x, tall = between(rng, 0.0, span), between(rng, 0.12, 0.34)
        shade, base = tint(rng, paint, 0.25), foot + between(rng, 0.0, 0.1)
        layer.box(base - 0.02, x - 0.006, 0.05, 0.012, shade * 0.5)
        for k in range(4):
            y, half = base - tall * (0.25 * k), tall * (0.26 - 0.05 * k)
            layer.polygon([(y, x - half), (y, x + half), (y - 0.42 * tall, x)], shade * (0.75 + 0.12 * k))


def sky_with_clouds(rng: Rng, size: int, cover: float, palette: int) -> tuple[Array, list[Array], Array, Array]:
    """Gradient (S, S, 3), two cloud sheets (2S, 2S), lit and shadow colour."""
    stops, lit, shadow = SKIES[palette]
    y, x = grid(size, size, size)
    gradient = ramp(stops, y + 0.0 * x)
    sheets = [noise(rng, (7, 4), (2 * size, 2 * size), 6, 0.48), noise(rng, (13, 7), (2 * size, 2 * size), 5, 0.5)]
    sheets = [sheet + (cover - 0.5) for sheet in sheets]
    return gradient, sheets, colour(lit), colour(shadow)


def draw_clouds(
    canvas: Canvas, sheets: list[Array], t: float, speed: float, lit: Array, shadow: Array, tall: float
) -> None:
    size = canvas.unit
    far = window(sheets[1], 0.15 * speed * t * size, -0.6 * speed * t * size, size)
    near = window(sheets[0], 0.3 * speed * t * size, speed * t * size, size)
    density = 0.68 * near + 0.32 * far
    cover = smooth(0.45, 0.58, density)
    y, _ = grid(size, size, size)
    cover = cover * smooth(-0.1, 0.35, tall - y)
    light = np.clip(
        0.75 + 4.5 * slope(density, -9, -6) + 2.0 * slope(density, -3, -2) - 1.8 * (density - 0.52), 0.0, 1.0
    )[..., None]
    canvas.lay(np.concatenate(((shadow + (lit - shadow) * light) * cover[..., None], cover[..., None]), axis=2))


def clouds(rng: Rng, look: int, frames: int, size: int) -> Array:
    """Two sheets of cloud that drift apart over hills and a line of trees."""
    gradient, sheets, lit, shadow = sky_with_clouds(rng, size, between(rng, 0.5, 0.6), look % len(SKIES))
    speed, sway = pick(rng, (-1.0, 1.0)) * between(rng, 0.2, 0.5), handheld(rng, 0.03)
    horizon = between(rng, 0.78, 1.0)
    greens = [("4d6b3a", "1d2f1a"), ("8a8048", "3d3a1e"), ("3d5560", "16232c")]
    top, foot = by_look(look, greens)
    hills = ridge_layer(rng, size, 1.6, horizon, 0.16, top, foot)
    conifers(rng, hills, whole(rng, 10, 26), horizon + 0.08, colour(foot))
    sun_y, sun_x = between(rng, 0.05, 0.5), between(rng, 0.1, 0.9)

    def draw(t: float) -> Array:
        canvas = Canvas(gradient.copy(), size)
        canvas.glow(sun_y, sun_x, 0.4, lit, 0.25)
        canvas.disc(sun_y, sun_x, 0.04, lit, soft=0.3)
        draw_clouds(canvas, sheets, t, speed, lit, shadow, 1.3)
        dy, dx = sway(t)
        canvas.lay(hills.view(dy, 0.25 + 0.4 * speed * t + dx, size))
        return canvas.pixels

    return film(frames, size, draw)


RANGES = (  # sky, then far ... near (top, foot)
    (("7f93b0", "d9dfe6"), (("aebccf", "9fb0c6"), ("f4f7fb", "6d7f96"), ("dfe6ee", "3c4a5c"))),
    (("3b4466", "e2a27c"), (("a48594", "87708a"), ("e8c6ad", "5c4d66"), ("6b4f5c", "2c2436"))),
    (("8fb4c9", "e8eddf"), (("a9bfc2", "9bb3ae"), ("8f9f82", "627a58"), ("58703c", "263a1c"))),
    (("1a2238", "4c5f80"), (("4a5a78", "3d4c6a"), ("8b9ab4", "2d3a56"), ("2c3850", "101828"))),
    (("c9b28a", "f2e2bd"), (("d6b48a", "c99f74"), ("c47f4e", "96542f"), ("8c4528", "4a2418"))),
)


def mountains(rng: Rng, look: int, frames: int, size: int) -> Array:
    """Three ranges and a wood pass at different speeds behind falling snow or rain."""
    sky, ranges = by_look(look, RANGES)
    y, x = grid(size, size, size)
    gradient = ramp(sky, np.minimum(1.4 * y + 0.0 * x, 1.0))
    layers = [ridge_layer(rng, size, 1.9, 0.42 + 0.17 * i, 0.36 - 0.06 * i, *ranges[i]) for i in range(len(ranges))]
    wood = Canvas.layer(1.0, 2.4, size)
    conifers(rng, wood, whole(rng, 25, 50), between(rng, 0.95, 1.05), colour(ranges[2][1]) * 0.8)
    speed, sway = pick(rng, (-1.0, 1.0)) * between(rng, 0.15, 0.45), handheld(rng, 0.012)
    rain, wind = rng.random() < 0.4, between(rng, -0.6, 0.6)
    drops = [
        (between(rng, 0.0, 1.2), between(rng, 0.0, 1.2), between(rng, 0.0, 1.0), between(rng, 0.0, 1.0))
        for _ in range(110)
    ]
    white = colour("f3f6fa")

    def draw(t: float) -> Array:
        canvas = Canvas(gradient.copy(), size)
        dy, dx = sway(t)
        for i, layer in enumerate([*layers, wood]):
            canvas.lay(layer.view(dy, 0.5 + speed * t * (0.25 + 0.3 * i) + dx, size))
        for y0, x0, near, phase in drops:
            fall = (2.5 if rain else 0.5) * (0.5 + near)
            py = (y0 + fall * t) % 1.2 - 0.1
            px = (x0 + wind * fall * t + (0.0 if rain else 0.02 * wave(2.0 * t + phase))) % 1.2 - 0.1
            if rain:
                long = 0.03 + 0.05 * near
                canvas.line((py, px), (py + long, px + wind * long), 0.005, white, 0.25 + 0.25 * near)
            else:
                canvas.disc(py, px, 0.004 + 0.011 * near * near, white, soft=0.6, alpha=0.9)
        return canvas.pixels

    return film(frames, size, draw)


SILKS = ("d8342a", "f2b632", "2b6cb8", "f4efe2", "3d9a50", "7b3f98", "e87a2c", "1d2b4f")


def balloons(rng: Rng, look: int, frames: int, size: int) -> Array:
    """Striped hot-air balloons that rise past clouds and hills."""
    gradient, sheets, lit, shadow = sky_with_clouds(rng, size, 0.46, by_look(look, (0, 5, 4, 1)))
    hills = ridge_layer(rng, size, 1.5, between(rng, 0.75, 0.9), 0.2, "7c9a4e", "2f4a24")
    fleet = []
    for _ in range(whole(rng, 5, 9)):
        radius = between(rng, 0.05, 0.17)
        stripes = [colour(pick(rng, SILKS)) for _ in range(3)]
        place = (between(rng, 0.1, 1.0), between(rng, 0.05, 0.95))
        motion = (between(rng, 0.1, 0.5), between(rng, -0.2, 0.2), between(rng, 0.1, 0.4))
        fleet.append((radius, stripes, whole(rng, 4, 8), place, motion))
    fleet.sort(key=lambda balloon: balloon[0])
    drift = between(rng, 0.1, 0.25)

    def draw(t: float) -> Array:
        canvas = Canvas(gradient.copy(), size)
        draw_clouds(canvas, sheets, t, drift, lit, shadow, 1.1)
        canvas.lay(hills.view(0.0, 0.2 + 0.3 * drift * t, size))
        for radius, stripes, gores, (y0, x0), (rise, blow, turn) in fleet:
            y, x = y0 - rise * t * 2.0 * radius / 0.17, x0 + blow * t
            basket = y + 1.75 * radius
            for side in (-0.55, 0.55):
                canvas.line((y + 0.8 * radius, x + side * radius), (basket, x + 0.1 * side * radius), 0.004, shadow)
            canvas.box(basket, x - 0.13 * radius, 0.2 * radius, 0.26 * radius, colour("5b3a1e"))
            canvas.shade(y, x, 1.4 * radius, 1.1 * radius, _envelope(size, radius, stripes, gores, turn * t))
        return canvas.pixels

    return film(frames, size, draw)


def _envelope(size: int, radius: float, stripes: list[Array], gores: int, turn: float) -> Shader:
    """A drop-shaped balloon whose gores turn about its axis."""

    def shader(dy: Array, dx: Array) -> tuple[Array, Array]:
        v, u = dy * (1.0 / radius), dx * (1.0 / radius)
        lower = np.maximum(v, 0.0)
        across = np.maximum(1.0 - lower * lower * 0.45 - lower * 0.12, 0.3)
        v = v * (1.0 - 0.25 * smooth(0.0, 1.3, v))
        w = u / (across * np.sqrt(np.maximum(1.0 - v * v, 1e-3)))
        inside = 1.0 - np.sqrt(v * v + (u / across) * (u / across))
        # the angle around the axis, asin(w) / pi to a few per cent
        angle = np.clip(w, -1.0, 1.0)
        angle = 0.5 * angle * (0.64 + 0.36 * angle * angle)
        stripe = np.floor((angle + 8.0 + turn) * (2.0 * gores)).astype(np.int64) % len(stripes)
        light = np.clip(0.78 - 0.4 * u - 0.3 * v, 0.25, 1.15)[..., None]
        return np.clip(0.5 + inside * (radius * size), 0.0, 1.0), np.stack(stripes)[stripe] * light

    return shader
