"""Open air: clouds over fields, mountains in snow or rain, balloons over hills, leaves in the wind."""

from __future__ import annotations

import numpy as np

from .canvas import MARGIN, Canvas, blend
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
    layer = Canvas.layer(size)
    rows, columns = layer.pixels.shape[:2]
    outline = base - rough * noise_line(rng, whole(rng, 6, 11), columns, 7, 0.56)
    y = grid(rows, columns, layer.unit)[0] + layer.top
    depth = y - outline[None, :]
    relief = texture(rng, size, (3.0, 4.0), gain=0.66)
    light = 0.85 + 4.0 * slope(patchy(rng, size, relief))[:rows, :columns]
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
        self.size, self.lit, self.shadow = size, colour(lit), colour(shadow)
        self.gradient = ramp(stops, np.clip(0.8 * view_grid(size)[0] + 0.2, 0.0, 1.0))
        near, far = texture(rng, size, (3.5, 2.0), gain=0.6), texture(rng, size, (6.0, 4.0), gain=0.66)
        self.near, self.far = near + (cover - 0.5), far + (cover - 0.5)

    def draw(self, dy: float, dx: float, blown: float) -> Canvas:
        near = cut(self.near, dy, dx + blown, self.size)
        density = 0.68 * near + 0.32 * cut(self.far, dy, 0.6 * dx + 0.5 * blown, self.size)
        cover = smooth(0.45, 0.53, density)[..., None]
        relief = 6.0 * slope(density, -4, -3) + 5.0 * slope(density, -1, -1)
        light = np.clip(0.7 + relief - 1.8 * (density - 0.52), 0.0, 1.0)[..., None]
        cloud = self.shadow + (self.lit - self.shadow) * light
        return Canvas(self.gradient + (cloud - self.gradient) * cover, self.size)


CROPS = (("3d4b1a", "7d8b3a", "d8cf70"), ("5a3018", "b87830", "f4d070"), ("16332c", "3d6550", "9ab888"))


def clouds(rng: Rng, look: int, size: int) -> Pictures:
    """Clouds drift over hills, a line of trees, and a field of corn in the wind; birds pass."""
    sky = CloudySky(rng, size, between(rng, 0.5, 0.58), look % len(SKIES))
    path, blown = camera(rng, 0.8), pick(rng, (-1.0, 1.0)) * between(rng, 0.6, 1.2)
    horizon, crop = between(rng, 0.5, 0.62), by_look(look, CROPS)
    hills = ridge_layer(rng, size, horizon, 0.2, crop[1], crop[0])
    conifers(rng, hills, whole(rng, 60, 90), horizon + 0.08, colour(crop[0]) * 1.3)
    hills.roughen(patchy(rng, size, texture(rng, size, 10.0, gain=0.85)), 0.6)
    ears = grained(rng, size, (10.0, 40.0), 0.9, 2.4)
    gust = texture(rng, size, (2.0, 1.0), 3, 0.5)
    sun_y, sun_x = between(rng, 0.05, 0.4), between(rng, 0.1, 0.9)
    flock = [(between(rng, -0.3, 0.5), between(rng, 0.0, 1.6), between(rng, 0.0, 1.0)) for _ in range(40)]
    y, _ = view_grid(size)
    for t, dy, dx in shots(path):
        canvas = sky.draw(dy, 0.3 * dx, blown * t)
        canvas.glow(sun_y - dy, sun_x - 0.1 * dx, 0.4, sky.lit, 0.3)
        canvas.lay(hills.view(dy, 0.7 * dx))
        edge = round((horizon + 0.12 - dy - LOW) * canvas.unit)
        bend = cut(gust, 0.5 * t, dx + blown * t, size)
        field = ramp(crop, np.clip(cut(ears, dy, 1.2 * dx, size) + 0.9 * (bend - 0.5), 0.0, 1.0))
        canvas.pixels[edge:] = (field * (0.7 + 0.4 * y)[..., None])[edge:]
        for y0, x0, phase in flock:
            py, px = y0 - dy + 0.02 * wave(t + phase), (x0 + 0.8 * t - 0.3 * dx) % 2.8 + LOW - 0.2
            wing = 0.018 * wave(6.0 * t + phase)
            for side in (-0.03, 0.03):
                canvas.line((py, px), (py - wing, px + side), 0.009, sky.shadow * 0.4)
        yield canvas.pixels


RANGES = (  # sky, then far ... near (top, foot)
    (("7f93b0", "d9dfe6"), (("aebccf", "8f9fb6"), ("f4f7fb", "5d6f86"), ("eff6fe", "3c4a5c"))),
    (("3b4466", "e2a27c"), (("b48594", "776080"), ("f8d6bd", "5c4d66"), ("8b6f6c", "2c2436"))),
    (("8fb4c9", "e8eddf"), (("a9bfc2", "8ba39e"), ("afbf92", "526a48"), ("88a05c", "263a1c"))),
    (("1a2238", "4c5f80"), (("5a6a88", "3d4c6a"), ("abbad4", "2d3a56"), ("4c5870", "101828"))),
    (("c9b28a", "f2e2bd"), (("d6b48a", "b98f64"), ("e49f6e", "86441f"), ("bc7548", "4a2418"))),
)


def mountains(rng: Rng, look: int, size: int) -> Pictures:
    """Three ranges and a wood pass at different speeds behind falling snow or rain."""
    sky, ranges = by_look(look, RANGES)
    gradient = ramp(sky, np.clip(view_grid(size)[0] + 0.4, 0.0, 1.0))
    layers = [ridge_layer(rng, size, 0.32 + 0.2 * i, 0.42 - 0.06 * i, *ranges[i]) for i in range(len(ranges))]
    wood = Canvas.layer(size)
    for row in range(3):
        conifers(rng, wood, 45, between(rng, 0.85, 0.95) + 0.22 * row, colour(ranges[2][1]) * (1.1 + 0.3 * row))
    wood.roughen(patchy(rng, size, texture(rng, size, 12.0, gain=0.85)), 0.6)
    path, rain, wind = camera(rng, 0.8), rng.random() < 0.4, between(rng, -0.6, 0.6)
    white, drops = colour("f3f6fa"), []
    for _ in range(320):
        near = between(rng, 0.0, 1.0)
        if rain:
            long = 0.05 + 0.08 * near
            drop = Canvas.sprite(0.6 * long, 0.4 * long, size)
            drop.line((-0.5 * long, -0.5 * wind * long), (0.5 * long, 0.5 * wind * long), 0.009, white, 0.4)
        else:
            drop = Canvas.sprite(0.03, 0.03, size)
            drop.disc(0.0, 0.0, 0.007 + 0.014 * near * near, white, soft=0.4, alpha=0.9)
        place = (between(rng, 0.0, 2.6), between(rng, 0.0, 2.6))
        drops.append((drop, place, (3.5 if rain else 1.0) * (0.5 + near), between(rng, 0.0, 1.0)))
    for t, dy, dx in shots(path):
        canvas = Canvas(gradient.repeat(size, axis=1), size)
        for i, layer in enumerate([*layers, wood]):
            canvas.lay(layer.view(dy, dx * (0.4 + 0.2 * i)))
        for drop, (y0, x0), fall, phase in drops:
            sway = 0.0 if rain else 0.03 * wave(2.0 * t + phase)
            py, px = (y0 + fall * t) % 2.6, (x0 + wind * fall * t + sway - dx) % 2.6
            canvas.stamp(drop, py + LOW - 0.1, px + LOW - 0.1)
        yield canvas.pixels


SILKS = ("d8342a", "f2b632", "2b6cb8", "f4efe2", "3d9a50", "7b3f98", "e87a2c", "1d2b4f")


def balloons(rng: Rng, look: int, size: int) -> Pictures:
    """Striped hot-air balloons that rise past clouds, hills and woods."""
    sky = CloudySky(rng, size, 0.5, by_look(look, (0, 5, 4, 1)))
    hills = ridge_layer(rng, size, between(rng, 0.6, 0.75), 0.25, "9cba5e", "2f4a24")
    for _ in range(90):
        place = (between(rng, 0.75, HIGH), between(rng, hills.left, hills.right))
        bush(rng, hills, *place, between(rng, 0.03, 0.1), colour(pick(rng, ("3d6a2c", "6a8a3a", "8a7a34"))))
    hills.roughen(patchy(rng, size, texture(rng, size, 10.0, gain=0.85)), 0.6)
    fleet = []
    for _ in range(whole(rng, 22, 32)):
        radius = between(rng, 0.06, 0.2)
        stripes, gores = [colour(pick(rng, SILKS)) for _ in range(3)], whole(rng, 4, 8)
        turning = [_balloon(size, radius, stripes, gores, step / 30) for step in range(10)]
        place = (between(rng, 0.0, 3.0), between(rng, 0.0, 3.0))
        motion = (between(rng, 0.3, 1.2), between(rng, -0.5, 0.5), between(rng, 0.3, 1.0))
        fleet.append((radius, turning, place, motion))
    fleet.sort(key=lambda balloon: balloon[0])
    path = camera(rng, 0.6)
    for t, dy, dx in shots(path):
        canvas = sky.draw(dy, 0.5 * dx, 0.5 * t)
        canvas.lay(hills.view(dy, 0.7 * dx))
        for radius, turning, (y0, x0), (rise, blow, turn) in fleet:
            near = 0.6 + 4.0 * radius
            y, x = (y0 - near * rise * t - dy) % 3.0 + LOW - 0.3, (x0 + blow * t - near * dx) % 3.0 + LOW - 0.3
            canvas.stamp(turning[int(turn * t * 30.0) % 10], y, x)
        yield canvas.pixels


def _balloon(size: int, radius: float, stripes: list[Array], gores: int, turn: float) -> Canvas:
    """Ropes, a basket, and a drop-shaped envelope whose gores turn about its axis."""
    sprite = Canvas.sprite(2.05 * radius, 1.15 * radius, size)
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
    blend(view, np.clip(0.5 + inside * (radius * sprite.unit), 0.0, 1.0), np.stack(stripes)[stripe] * light[..., None])
    return sprite


GREENS = (  # ground, leaves, flowers, sun
    ("16301a", ("2f6a2c", "4f9a3c", "8cc04a", "1f4a24"), ("f4f0e0", "e8c030"), "f2f6c0"),
    ("2c1408", ("b8461c", "e08a28", "f2c244", "7a2a14"), ("7a1f3a", "c8d060"), "fff0c8"),
    ("0e2420", ("1f5a4c", "3a8a70", "78b898", "14403a"), ("d05a8a", "f0e8f4"), "d8f4f0"),
    ("241c10", ("6a7a30", "9aa048", "c8bc60", "4a4a20"), ("d84a2c", "f0a030"), "fff6d0"),
    ("281020", ("8a2f50", "c85a78", "f0a8b0", "5a1f3c"), ("f8f0e8", "6a8a4a"), "ffe8f0"),
)


def foliage(rng: Rng, look: int, size: int) -> Pictures:
    """Three sheets of leaves and flowers that sway in gusts while the camera passes, with sun through the gaps."""
    floor, greens, flowers, sun = by_look(look, GREENS)
    back = ramp((floor, greens[3], greens[0], greens[2]), contrast(texture(rng, size, 5.0, gain=0.8), 1.5))
    sheets = []
    for near in range(3):
        layer = Canvas.layer(size)
        for _ in range((700, 420, 150)[near]):
            long = (0.045 + 0.035 * near) * between(rng, 0.7, 1.3)
            paint = tint(rng, colour(pick(rng, greens)), 0.45) * (0.5 + 0.28 * near)
            place = (between(rng, layer.top, layer.top + SPAN + 2 * MARGIN), between(rng, layer.left, layer.right))
            _leaf(layer, *place, long, paint, between(rng, 0.0, 1.0))
            if rng.random() < 0.12:
                _flower(rng, layer, *place, 0.45 * long, colour(pick(rng, flowers)))
        layer.roughen(grained(rng, size, 20.0, 0.95, 1.6), 0.45)
        sheets.append(layer)
    path, flecks = camera(rng, 0.6, 1.0), texture(rng, size, 3.0, 5, 0.6)
    wind = [(between(rng, 0.02, 0.05), between(rng, 0.8, 1.8), between(rng, 0.0, 1.0)) for _ in sheets]
    lit = colour(sun)
    for t, dy, dx in shots(path):
        canvas = Canvas(cut(back, dy, 0.4 * dx, size).copy(), size)
        for near, (sheet, (reach, rate, phase)) in enumerate(zip(sheets, wind, strict=True)):
            canvas.lay(_sway(sheet, dy, dx * (0.6 + 0.2 * near), reach, rate * t + phase))
        light = smooth(0.44, 0.58, cut(flecks, 0.3 * t, 0.5 * dx + 0.4 * t, size))[..., None]
        yield canvas.pixels * (0.6 + 0.85 * light * lit)


def _sway(sheet: Canvas, dy: float, dx: float, reach: float, turns: float) -> Array:
    """The view of a layer in which each row is pushed sideways by whole pixels: gusts run through it."""
    size, unit = sheet.size, sheet.unit
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
