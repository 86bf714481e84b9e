"""Clutter: solids on a table, a crowd, a bookshelf."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .canvas import Canvas, blend
from .paint import *

TABLES = (
    ("2a1408", "7d5030", "d0a070"),
    ("1f3a34", "4f7a6c", "a6c8b4"),
    ("8a7c68", "d0c6b4", "f0e8d8"),
    ("0e1220", "343c54", "7680a0"),
    ("4a1c20", "9a4a48", "e8a898"),
)
TOYS = ("e03c31", "f5b82e", "2f7fd0", "3fae5a", "8f4fc0", "f07f3c", "f2ede0", "2a2e38", "e87fa8", "30b8b0")
PHASES = 8  # drawings of a thing that turns or walks


def solids(rng: Rng, look: int, size: int) -> Pictures:
    """Balls that roll and blocks that turn on a table of planks, with their shadows."""
    grain = grained(rng, size, (30.0, 3.0), 0.88, 1.8)
    table = ramp(by_look(look, TABLES), 0.75 * grain + 0.25 * texture(rng, size, 2.0))
    plank = grid(2 * size, 2 * size, size / SPAN)[0] * (2.0 * whole(rng, 2, 4))
    gap = smooth(0.0, 0.08, np.abs(plank - np.floor(plank + 0.5)))
    table = table * (0.3 + 0.7 * gap)[..., None]
    things = []
    for i in range(whole(rng, 110, 140)):
        radius, paint = between(rng, 0.035, 0.1), tint(rng, colour(pick(rng, TOYS)), 0.25)
        spot = colour(pick(rng, TOYS))
        turning = [_toy(size, i % 2 == 0, radius, paint, spot, step / PHASES) for step in range(PHASES)]
        place = (between(rng, LOW, HIGH), between(rng, 0.0, 2.8))
        motion = (between(rng, -0.15, 0.15), between(rng, -1.2, 1.2), between(rng, 0.0, 1.0), between(rng, -2.0, 2.0))
        things.append((turning, i % 2 == 0, place, motion))
    path, light = camera(rng, 0.5, 1.0), shade_and_sun(rng, size, 0.5, 1.15)
    for t, dy, dx in shots(path):
        canvas = Canvas(cut(table, dy, dx, size).copy(), size)
        seen = []
        for i, (turning, rolls, (y0, x0), (vy, vx, phase, spin)) in enumerate(things):
            x = (x0 + (vx if rolls else 0.0) * t - dx) % 2.8 + LOW - 0.2
            step = int((spin * t + phase + 4.0) * PHASES) % PHASES
            seen.append((y0 + vy * wave(0.5 * t + phase) - dy, x, i, turning[step]))
        for y, x, _, sprite in sorted(seen, key=lambda thing: thing[:3]):
            canvas.stamp(sprite, y, x)
        yield canvas.pixels * cut(light, dy, dx, size)


def _toy(size: int, rolls: bool, radius: float, paint: Array, spot: Array, turn: float) -> Canvas:
    sprite = Canvas.sprite(2.0 * radius, 2.2 * radius, size)
    sprite.disc(0.55 * radius, 0.45 * radius, 1.25 * radius, colour("080808"), tall=0.6, soft=0.5, alpha=0.65)
    if rolls:
        _ball(sprite, 0.0, 0.0, 1.1 * radius, radius, paint, spot, turn)
    else:
        _cube(sprite, radius, paint, spot, 0.25 * turn)
    return sprite


def _ball(
    canvas: Canvas, y: float, x: float, reach: float, radius: float, paint: Array, spot: Array, turn: float
) -> None:
    """A ball with bands around it, lit from the upper left; drawn within (y, x) +- reach."""
    c, s = wave(turn + 0.25), wave(turn)
    view, dy, dx = canvas.around(y, x, reach, reach)
    v, u = dy * (1.0 / radius), dx * (1.0 / radius)
    square = v * v + u * u
    z = np.sqrt(np.maximum(1.0 - square, 0.0))
    light = np.maximum(0.55 * z - 0.5 * v - 0.45 * u, 0.0)
    band = np.abs(np.abs(v * c + u * s + 0.3 * z) - 0.35)
    skin = paint + (spot - paint) * (1.0 - smooth(0.16, 0.2, band))[..., None]
    gleam = smooth(0.93, 0.995, light)[..., None]
    cover = np.clip(0.5 + (1.0 - np.sqrt(square)) * (radius * canvas.unit), 0.0, 1.0)
    blend(view, cover, np.minimum(skin * (0.25 + 0.9 * light)[..., None] + 0.7 * gleam, 1.0))


def _cube(canvas: Canvas, r: float, paint: Array, spot: Array, turn: float) -> None:
    """A cube seen from above, turned about its vertical axis: the top with a sign on it, and the sides that face us."""
    angles = [turn + 0.125 + 0.25 * k for k in range(4)]
    corners = [(-0.35 * r + 0.5 * r * wave(angle), r * wave(angle + 0.25)) for angle in angles]
    drop = 1.05 * r
    for k in range(4):
        (ay, ax), (by, bx) = corners[k], corners[(k + 1) % 4]
        if bx < ax:  # this side looks at the camera
            tone = max(0.5 + 0.4 * (ay - by) / r, 0.25)
            canvas.polygon([(ay, ax), (by, bx), (by + drop, bx), (ay + drop, ax)], paint * tone)
            side = [(ay + 0.3 * drop, ax), (by + 0.3 * drop, bx), (by + 0.6 * drop, bx), (ay + 0.6 * drop, ax)]
            canvas.polygon(side, spot * tone)
    canvas.polygon(corners, np.clip(paint * 1.1 + 0.06, 0.0, 1.0))
    canvas.polygon([(-0.35 * r + 0.5 * (y + 0.35 * r), 0.5 * x) for y, x in corners], spot)


SQUARES = (("d8cebc", "7a7060"), ("9ca4a8", "464e54"), ("d8a888", "845840"), ("7c9068", "2f4222"), ("e8e4e0", "888480"))
SHIRTS = ("c0392b", "2e5c8a", "e8e4da", "3a3a40", "d9a441", "4f8a5c", "8a4a7a", "d97f5a", "6fa8c8")
SKINS = ("f0c8a8", "d8a07c", "a8704c", "6f452c", "e8b890")
HAIR = ("1c1410", "4a2c18", "8a5c30", "c8a068", "6a6a6a")


def crowd(rng: Rng, look: int, size: int) -> Pictures:
    """People who cross a paved square in both directions, seen from a little above by a camera that walks along."""
    pale, dark = (colour(code) for code in by_look(look, SQUARES))
    y, x = grid(2 * size, 2 * size, 2 * size / TEXTURE)
    flags = whole(rng, 4, 8)
    p, q = x * flags, y * (1.6 * flags)
    stone = np.floor(q).astype(np.int64) * 97 + np.floor(p).astype(np.int64)
    shades = rng.random(1024, dtype=np.float32)[stone % 1024]
    joint = np.minimum(np.abs(p - np.floor(p + 0.5)), np.abs(q - np.floor(q + 0.5)))
    wear = grained(rng, size, 5.0, 0.88, 1.8)
    ground = (pale + (dark - pale) * (0.3 * shades + 0.5 * wear)[..., None]) * (0.7 + 0.45 * wear)[..., None]
    ground = ground * (0.6 + 0.4 * smooth(0.03, 0.08, joint))[..., None]
    sun, people = between(rng, -0.2, 0.2), []
    for _ in range(whole(rng, 140, 180)):
        foot = between(rng, LOW + 0.1, HIGH + 0.2)
        tall = 0.17 + 0.14 * (foot - LOW)
        pace = pick(rng, (-1.0, 1.0)) * between(rng, 0.3, 0.9)
        looks = (
            tint(rng, colour(pick(rng, SHIRTS)), 0.25),
            tint(rng, colour(pick(rng, ("2a3350", "3a3430", "97806a", "1c1c20"))), 0.25),
            colour(pick(rng, SKINS)),
            colour(pick(rng, HAIR)),
            colour(pick(rng, SHIRTS)),
        )
        walking = [_walker(size, tall, looks, step / PHASES, sun, pace) for step in range(PHASES)]
        people.append((foot, between(rng, 0.0, 2.8), pace, tall, walking, between(rng, 0.0, 1.0)))
    people.sort(key=lambda person: person[0])
    path, light = camera(rng, 0.4, 0.9), shade_and_sun(rng, size, 0.5, 1.2)
    for t, dy, dx in shots(path):
        canvas = Canvas(cut(ground, dy, dx, size).copy(), size)
        for foot, x0, pace, tall, walking, phase in people:
            cx = (x0 + pace * t - dx) % 2.8 + LOW - 0.2
            canvas.stamp(walking[int((4.0 * t + phase) * PHASES) % PHASES], foot - 0.5 * tall - dy, cx)
        yield canvas.pixels * cut(light, dy, dx, size)


def _walker(size: int, tall: float, looks: tuple[Array, ...], step: float, sun: float, pace: float) -> Canvas:
    shirt, trousers, skin, hair, bag = looks
    canvas, foot = Canvas.sprite(0.65 * tall, 0.55 * tall, size), 0.5 * tall
    stride, bob = 0.13 * tall * wave(step), 0.015 * tall * abs(wave(step))
    hip, neck = foot - 0.45 * tall - bob, foot - 0.8 * tall - bob
    canvas.disc(foot, sun * tall, 0.3 * tall, colour("060606"), tall=0.3, soft=0.4, alpha=0.6)
    canvas.line((hip, 0.0), (foot, stride), 0.11 * tall, trousers * 0.7)
    canvas.line((hip, 0.0), (foot, -stride), 0.11 * tall, trousers)
    canvas.line((hip, 0.0), (neck + 0.06 * tall, 0.0), 0.26 * tall, shirt)
    canvas.box(neck + 0.1 * tall, -0.12 * tall, 0.05 * tall, 0.24 * tall, bag)
    canvas.line((neck + 0.05 * tall, 0.0), (hip - 0.02 * tall, -0.9 * stride), 0.075 * tall, shirt * 0.6)
    canvas.disc(neck - 0.08 * tall, 0.0, 0.088 * tall, hair)
    canvas.disc(neck - 0.06 * tall, 0.03 * tall if pace > 0 else -0.03 * tall, 0.068 * tall, skin)
    return canvas


SPINES = ("7a1f24", "1f3a5c", "2f5a3c", "c8a050", "e0d8c4", "3a2a20", "8a5a2c", "4f3a6a", "b8543a", "20242c")


def shelf(rng: Rng, look: int, size: int) -> Pictures:
    """The camera moves along a full bookshelf while a lamp swings."""
    case = Canvas.layer(size)
    bottom = case.top + case.pixels.shape[0] / case.unit
    grain = contrast(texture(rng, size, (2.0, 30.0), gain=0.8), 1.5)
    rows, columns = case.pixels.shape[:2]
    case.pixels[..., :3] = ramp(by_look(look, TABLES), grain[:rows, :columns]) * 0.4
    case.pixels[..., 3] = 1.0
    room, spines, floor = between(rng, 0.34, 0.46), [pick(rng, SPINES) for _ in range(6)], case.top + 0.1
    while floor < bottom + 0.4:
        x = case.left
        while x < case.right:
            if rng.random() < 0.05:
                radius = between(rng, 0.2, 0.4) * room
                paint, spot, turn = colour(pick(rng, TOYS)), colour(pick(rng, TOYS)), between(rng, 0, 1)
                _ball(case, floor - radius, x + radius, radius, radius, paint, spot, turn)
                x += 2.0 * radius + 0.01
                continue
            gap = between(rng, 0.0, 0.1) if rng.random() < 0.08 else 0.0
            x += gap + _book(rng, case, floor, x + gap, room, spines)
        case.block(floor, case.left, 0.03, SPAN + 3.0, colour("8a5c36"))
        case.block(floor + 0.03, case.left, 0.014, SPAN + 3.0, colour("0c0805"))
        floor += room + 0.04
    case.roughen(grain, 0.25)
    path, swing = camera(rng, 0.5, 0.9), between(rng, 1.0, 2.0)
    y, x0 = view_grid(size)
    warm = colour(pick(rng, ("ffd8a0", "fff0d8", "d0e4ff")))
    for t, dy, dx in shots(path):
        picture = case.view(dy, dx)[..., :3]
        lamp_x = 0.5 + 0.6 * wave(swing * t)
        distance = (x0 - lamp_x) * (x0 - lamp_x) + 0.6 * (y - 0.35) * (y - 0.35)
        yield picture * ((0.5 + 1.1 / (1.0 + 3.0 * distance))[..., None] * warm)


def _book(rng: Rng, case: Canvas, floor: float, x: float, room: float, spines: Sequence[str]) -> float:
    """A spine with bands and a title. Returns its width."""
    wide, tall = between(rng, 0.04, 0.11), room * between(rng, 0.62, 0.95)
    paint, gilt = tint(rng, colour(pick(rng, spines)), 0.35), colour(pick(rng, ("e8d090", "f4f0e4", "202020")))
    for strip in range(4):  # round back: lighter in the middle
        case.block(floor - tall, x + 0.25 * strip * wide, tall, 0.25 * wide, paint * (0.75, 1.15, 1.0, 0.55)[strip])
    for at in (0.1, 0.86):
        case.block(floor - tall * (1.0 - at), x, 0.015, 0.9 * wide, gilt * 0.85)
    length, y = between(rng, 0.2, 0.4) * tall, floor - 0.75 * tall
    while length > 0.0:  # letters
        case.block(y, x + 0.35 * wide, 0.01, 0.3 * wide, gilt)
        y, length = y + 0.022, length - 0.022
    return wide
