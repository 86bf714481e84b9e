"""Open air: clouds over fields, mountains in snow or rain, balloons over hills."""

from __future__ import annotations

import numpy as np

from .canvas import Canvas, blend
from .paint import *

SKIES = (  # zenith ... horizon, lit cloud, cloud's shadow
    (("1f5fb4", "5c9be0", "cfe6f5"), "ffffff", "8d9db3"),
    (("2b2350", "a8446a", "ffb25c"), "ffd9a0", "6b3a5c"),
    (("39424e", "69737d", "a4a9a6"), "d9dde0", "3b434c"),
    (("0c1638", "24407a", "6f88b8"), "afc2ed", "1b2950"),
    (("4fa3a5", "a5d6c4", "f7e8bd"), "fff7e0", "7d9a94"),
    (("7a2a1c", "e0692c", "ffd36b"), "ffe9b8", "5a2230"),
)


def ridge_layer(rng: Rng, size: int, base: float, rough: float, top: str, foot: str) -> Canvas:
    """A range of hills or mountains: an outline, relief light, snow or rock by height."""
    layer = Canvas.layer(size / SPAN)
    rows, columns = layer.pixels.shape[:2]
    outline = base - rough * noise_line(rng, whole(rng, 6, 11), columns, 7, 0.56)
    y = grid(rows, columns, layer.unit)[0] + layer.top
    depth = y - outline[None, :]
    relief = texture(rng, size, (3.0, 4.0), gain=0.66)
    light = 0.85 + 4.0 * slope(patchy(rng, size, relief), 1, 1)[:rows, :columns]
    relief = contrast(relief, 1.8)[:rows, :columns]
    height = np.clip(depth * (1.0 / (rough + 0.12)) + 0.9 * (relief - 0.5), 0.0, 1.0)
    cover = np.clip(0.5 + depth * layer.unit, 0.0, 1.0)[..., None]
    layer.pixels[..., :3] = np.clip(ramp((top, foot), height) * light[..., None], 0.0, 1.0) * cover
    layer.pixels[..., 3:] = cover
    return layer


def conifers(rng: Rng, layer: Canvas, count: int, foot: float, paint: Array) -> None:
    """A row of firs along the foot of a layer."""
    for _ in range(count):
        x, tall = between(rng, layer.left, layer.right), between(rng, 0.12, 0.34)
        shade, base = tint(rng, paint, 0.5), foot + between(rng, 0.0, 0.14)
        layer.box(base - 0.02, x - 0.006, 0.05, 0.012, shade * 0.5)
        for k in range(5):
            y, half = base - tall * (0.2 * k), tall * (0.26 - 0.04 * k)
            layer.polygon([(y, x - half), (y, x + half), (y - 0.4 * tall, x)], shade * (0.6 + 0.2 * k))


def bush(rng: Rng, layer: Canvas, y: float, x: float, radius: float, green: Array) -> None:
    """A round crown of leaves, lit from above."""
    for _ in range(14):
        dy, dx = between(rng, -0.8, 0.7) * radius, between(rng, -0.9, 0.9) * radius
        paint = np.clip(tint(rng, green * (0.95 - 0.6 * dy / radius), 0.3), 0.0, 1.0)
        layer.disc(y + dy, x + dx, between(rng, 0.2, 0.45) * radius, paint)


class CloudySky:
    """A gradient with two sheets of cloud."""

    def __init__(self, rng: Rng, size: int, cover: float, palette: int) -> None:
        stops, lit, shadow = SKIES[palette]
        y, x = view_grid(size)
        self.size, self.lit, self.shadow = size, colour(lit), colour(shadow)
        self.gradient = ramp(stops, np.clip(0.8 * y + 0.2 + 0.0 * x, 0.0, 1.0))
        near, far = texture(rng, size, (3.5, 2.0), gain=0.6), texture(rng, size, (6.0, 4.0), gain=0.66)
        self.near, self.far = near + (cover - 0.5), far + (cover - 0.5)

    def draw(self, dy: float, dx: float, blown: float) -> Canvas:
        near = cut(self.near, dy, dx + blown, self.size)
        density = 0.68 * near + 0.32 * cut(self.far, dy, 0.6 * dx + 0.5 * blown, self.size)
        cover = smooth(0.45, 0.53, density)[..., None]
        relief = 6.0 * slope(density, -4, -3) + 5.0 * slope(density, -1, -1)
        light = np.clip(0.7 + relief - 1.8 * (density - 0.52), 0.0, 1.0)[..., None]
        cloud = self.shadow + (self.lit - self.shadow) * light
        return Canvas(self.gradient + (cloud - self.gradient) * cover, self.size / SPAN)


CROPS = (("3d4b1a", "7d8b3a", "d8cf70"), ("5a3018", "b87830", "f4d070"), ("16332c", "3d6550", "9ab888"))


def clouds(rng: Rng, look: int, frames: int, size: int) -> Array:
    """Clouds drift over hills, a line of trees, and a field of corn in the wind; birds pass."""
    sky = CloudySky(rng, size, between(rng, 0.5, 0.58), look % len(SKIES))
    path, blown = camera(rng, 0.8), pick(rng, (-1.0, 1.0)) * between(rng, 0.6, 1.2)
    horizon, crop, unit = between(rng, 0.5, 0.62), by_look(look, CROPS), size / SPAN
    hills = ridge_layer(rng, size, horizon, 0.2, crop[1], crop[0])
    conifers(rng, hills, whole(rng, 60, 90), horizon + 0.08, colour(crop[0]) * 1.3)
    hills.roughen(patchy(rng, size, texture(rng, size, 10.0, gain=0.85)), 0.6)
    ears = patchy(rng, size, contrast(texture(rng, size, (10.0, 40.0), gain=0.9), 2.4))
    gust = texture(rng, size, (2.0, 1.0), 3, 0.5)
    sun_y, sun_x = between(rng, 0.05, 0.4), between(rng, 0.1, 0.9)
    flock = [(between(rng, -0.3, 0.5), between(rng, 0.0, 1.6), between(rng, 0.0, 1.0)) for _ in range(40)]
    y, _ = view_grid(size)

    def draw(t: float) -> Array:
        dy, dx = path(t)
        canvas = sky.draw(dy, 0.3 * dx, blown * t)
        canvas.glow(sun_y - dy, sun_x - 0.1 * dx, 0.4, sky.lit, 0.3)
        canvas.lay(hills.view(dy, 0.7 * dx, size))
        edge = round((horizon + 0.12 - dy - LOW) * unit)
        bend = cut(gust, 0.5 * t, dx + blown * t, size)
        field = ramp(crop, np.clip(cut(ears, dy, 1.2 * dx, size) + 0.9 * (bend - 0.5), 0.0, 1.0))
        canvas.pixels[edge:] = (field * (0.7 + 0.4 * y)[..., None])[edge:]
        for y0, x0, phase in flock:
            py, px = y0 - dy + 0.02 * wave(t + phase), (x0 + 0.8 * t - 0.3 * dx) % 2.8 + LOW - 0.2
            wing = 0.018 * wave(6.0 * t + phase)
            for side in (-0.03, 0.03):
                canvas.line((py, px), (py - wing, px + side), 0.009, sky.shadow * 0.4)
        return canvas.pixels

    return film(frames, size, draw)


RANGES = (  # sky, then far ... near (top, foot)
    (("7f93b0", "d9dfe6"), (("aebccf", "8f9fb6"), ("f4f7fb", "5d6f86"), ("eff6fe", "3c4a5c"))),
    (("3b4466", "e2a27c"), (("b48594", "776080"), ("f8d6bd", "5c4d66"), ("8b6f6c", "2c2436"))),
    (("8fb4c9", "e8eddf"), (("a9bfc2", "8ba39e"), ("afbf92", "526a48"), ("88a05c", "263a1c"))),
    (("1a2238", "4c5f80"), (("5a6a88", "3d4c6a"), ("abbad4", "2d3a56"), ("4c5870", "101828"))),
    (("c9b28a", "f2e2bd"), (("d6b48a", "b98f64"), ("e49f6e", "86441f"), ("bc7548", "4a2418"))),
)


def mountains(rng: Rng, look: int, frames: int, size: int) -> Array:
    """Three ranges and a wood pass at different speeds behind falling snow or rain."""
    sky, ranges = by_look(look, RANGES)
    unit = size / SPAN
    y, x = view_grid(size)
    gradient = ramp(sky, np.clip(y + 0.4 + 0.0 * x, 0.0, 1.0))
    layers = [ridge_layer(rng, size, 0.32 + 0.2 * i, 0.42 - 0.06 * i, *ranges[i]) for i in range(len(ranges))]
    wood = Canvas.layer(unit)
    for row in range(3):
        conifers(rng, wood, 45, between(rng, 0.85, 0.95) + 0.22 * row, colour(ranges[2][1]) * (1.1 + 0.3 * row))
    wood.roughen(patchy(rng, size, texture(rng, size, 12.0, gain=0.85)), 0.6)
    path, rain, wind = camera(rng, 0.8), rng.random() < 0.4, between(rng, -0.6, 0.6)
    white, drops = colour("f3f6fa"), []
    for _ in range(320):
        near = between(rng, 0.0, 1.0)
        if rain:
            long = 0.05 + 0.08 * near
            drop = Canvas.sprite(0.6 * long, 0.4 * long, unit)
            drop.line((-0.5 * long, -0.5 * wind * long), (0.5 * long, 0.5 * wind * long), 0.009, white, 0.4)
        else:
            drop = Canvas.sprite(0.03, 0.03, unit)
            drop.disc(0.0, 0.0, 0.007 + 0.014 * near * near, white, soft=0.4, alpha=0.9)
        place = (between(rng, 0.0, 2.6), between(rng, 0.0, 2.6))
        drops.append((drop, place, (3.5 if rain else 1.0) * (0.5 + near), between(rng, 0.0, 1.0)))

    def draw(t: float) -> Array:
        canvas = Canvas(gradient.copy(), unit)
        dy, dx = path(t)
        for i, layer in enumerate([*layers, wood]):
            canvas.lay(layer.view(dy, dx * (0.4 + 0.2 * i), size))
        for drop, (y0, x0), fall, phase in drops:
            sway = 0.0 if rain else 0.03 * wave(2.0 * t + phase)
            py, px = (y0 + fall * t) % 2.6, (x0 + wind * fall * t + sway - dx) % 2.6
            canvas.stamp(drop, py + LOW - 0.1, px + LOW - 0.1)
        return canvas.pixels

    return film(frames, size, draw)


SILKS = ("d8342a", "f2b632", "2b6cb8", "f4efe2", "3d9a50", "7b3f98", "e87a2c", "1d2b4f")


def balloons(rng: Rng, look: int, frames: int, size: int) -> Array:
    """Striped hot-air balloons that rise past clouds, hills and woods."""
    sky, unit = CloudySky(rng, size, 0.5, by_look(look, (0, 5, 4, 1))), size / SPAN
    hills = ridge_layer(rng, size, between(rng, 0.6, 0.75), 0.25, "9cba5e", "2f4a24")
    for _ in range(90):
        place = (between(rng, 0.75, HIGH), between(rng, hills.left, hills.right))
        bush(rng, hills, *place, between(rng, 0.03, 0.1), colour(pick(rng, ("3d6a2c", "6a8a3a", "8a7a34"))))
    hills.roughen(patchy(rng, size, texture(rng, size, 10.0, gain=0.85)), 0.6)
    fleet = []
    for _ in range(whole(rng, 22, 32)):
        radius = between(rng, 0.06, 0.2)
        stripes, gores = [colour(pick(rng, SILKS)) for _ in range(3)], whole(rng, 4, 8)
        turning = [_balloon(unit, radius, stripes, gores, step / 30) for step in range(10)]
        place = (between(rng, 0.0, 3.0), between(rng, 0.0, 3.0))
        motion = (between(rng, 0.3, 1.2), between(rng, -0.5, 0.5), between(rng, 0.3, 1.0))
        fleet.append((radius, turning, place, motion))
    fleet.sort(key=lambda balloon: balloon[0])
    path = camera(rng, 0.6)

    def draw(t: float) -> Array:
        dy, dx = path(t)
        canvas = sky.draw(dy, 0.5 * dx, 0.5 * t)
        canvas.lay(hills.view(dy, 0.7 * dx, size))
        for radius, turning, (y0, x0), (rise, blow, turn) in fleet:
            near = 0.6 + 4.0 * radius
            y, x = (y0 - near * rise * t - dy) % 3.0 + LOW - 0.3, (x0 + blow * t - near * dx) % 3.0 + LOW - 0.3
            canvas.stamp(turning[int(turn * t * 30.0) % 10], y, x)
        return canvas.pixels

    return film(frames, size, draw)


def _balloon(unit: float, radius: float, stripes: list[Array], gores: int, turn: float) -> Canvas:
    """Ropes, a basket, and a drop-shaped envelope whose gores turn about its axis."""
    sprite = Canvas.sprite(2.05 * radius, 1.15 * radius, unit)
    for side in (-0.55, 0.55):
        sprite.line((0.8 * radius, side * radius), (1.75 * radius, 0.1 * side * radius), 0.006, colour("30201a"))
    sprite.box(1.75 * radius, -0.13 * radius, 0.24 * radius, 0.26 * radius, colour("5b3a1e"))
    view, dy, dx = sprite.around(0.0, 0.0, 1.4 * radius, 1.1 * radius)
    v, u = dy * (1.0 / radius), dx * (1.0 / radius)
    lower = np.maximum(v, 0.0)
    across = np.maximum(1.0 - lower * lower * 0.45 - lower * 0.12, 0.3)
    v = v * (1.0 - 0.25 * smooth(0.0, 1.3, v))
    w = u / (across * np.sqrt(np.maximum(1.0 - v * v, 1e-3)))
    inside = 1.0 - np.sqrt(v * v + (u / across) * (u / across))
    # the angle around the axis, asin(w) / pi to a few per cent
    angle = np.clip(w, -1.0, 1.0)
    angle = 0.5 * angle * (0.64 + 0.36 * angle * angle)
    place = (angle + 8.0 + turn) * (2.0 * gores)
    stripe = np.floor(place).astype(np.int64) % len(stripes)
    seam = 0.75 + 0.25 * smooth(0.0, 0.2, place - np.floor(place))
    light = np.clip(0.78 - 0.4 * u - 0.3 * v, 0.25, 1.15) * seam
    blend(view, np.clip(0.5 + inside * (radius * unit), 0.0, 1.0), np.stack(stripes)[stripe] * light[..., None])
    return sprite
