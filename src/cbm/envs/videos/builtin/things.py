"""Clutter: solids on a table, a crowd, a bookshelf."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .canvas import Canvas, Point, Shader
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
    wave,
    whole,
    window,
)

TABLES = (
    ("4a2c18", "7d5030", "b08050"),
    ("2f4a44", "4f7a6c", "86a894"),
    ("c8bca8", "e0d6c4", "b0a088"),
    ("1e2230", "343c54", "566080"),
    ("6a2c30", "9a4a48", "c88878"),
)
TOYS = ("e03c31", "f5b82e", "2f7fd0", "3fae5a", "8f4fc0", "f07f3c", "f2ede0", "2a2e38", "e87fa8", "30b8b0")


def solids(rng: Rng, look: int, frames: int, size: int) -> Array:
    """Balls that roll and blocks that turn on a table, with their shadows."""
    big = 2 * size
    grain = noise(rng, (24, 3), (big, big), 6, 0.6)
    table = ramp(by_look(look, TABLES), 0.65 * grain + 0.35 * noise(rng, 4, (big, big), 4))
    things = []
    for i in range(whole(rng, 18, 28)):
        place = (between(rng, 0.02, 1.0), between(rng, -0.05, 1.05))
        motion = (between(rng, -0.15, 0.15), between(rng, -0.4, 0.4), between(rng, 0.0, 1.0), between(rng, -0.8, 0.8))
        things.append((i % 2 == 0, between(rng, 0.045, 0.12), place, motion, tint(rng, colour(pick(rng, TOYS)), 0.15)))
    pan = between(rng, -0.3, 0.3)

    def draw(t: float) -> Array:
        canvas = Canvas(window(table, 0.0, pan * t * size, size), size)
        seen = []
        for ball, radius, (y0, x0), (vy, vx, phase, spin), paint in things:
            y = y0 + vy * wave(0.5 * t + phase)
            x = (x0 + (vx if ball else 0.0) * t - pan * t + 0.2) % 1.4 - 0.2
            seen.append((y, x, ball, radius, paint, spin * t + phase))
        for y, x, ball, radius, paint, turn in sorted(seen, key=lambda thing: thing[:2]):
            below, beside = y + 0.55 * radius, x + 0.45 * radius
            canvas.disc(below, beside, 1.25 * radius, colour("080808"), tall=0.6, soft=0.7, alpha=0.55)
            if ball:
                canvas.shade(y, x, 1.1 * radius, 1.1 * radius, _ball(size, radius, paint, turn))
            else:
                _block(canvas, y, x, radius, paint, turn)
        light = 0.72 + 0.5 * (1.0 - grid(size, size, size)[0])
        return canvas.pixels * light[..., None]

    return film(frames, size, draw)


def _ball(size: int, radius: float, paint: Array, turn: float) -> Shader:
    """A ball with a band around it, lit from the upper left."""

    def shader(dy: Array, dx: Array) -> tuple[Array, Array]:
        v, u = dy * (1.0 / radius), dx * (1.0 / radius)
        square = v * v + u * u
        z = np.sqrt(np.maximum(1.0 - square, 0.0))
        light = np.maximum(0.55 * z - 0.5 * v - 0.45 * u, 0.0)
        c, s = wave(turn + 0.25), wave(turn)
        band = np.abs(v * c + u * s + 0.3 * z)
        skin = paint + (1.0 - paint) * (1.0 - smooth(0.16, 0.2, band))[..., None] * 0.8
        gleam = smooth(0.93, 0.995, light)[..., None]
        cover = np.clip(0.5 + (1.0 - np.sqrt(square)) * (radius * size), 0.0, 1.0)
        return cover, skin * (0.22 + 0.9 * light)[..., None] + 0.7 * gleam

    return shader


def _block(canvas: Canvas, y: float, x: float, r: float, paint: Array, turn: float) -> None:
    """A cube seen from above, turned about its vertical axis: the top and the sides that face us."""
    corners: list[Point] = []
    for k in range(4):
        angle = turn + 0.125 + 0.25 * k
        corners.append((y - 0.35 * r + 0.5 * r * wave(angle), x + r * wave(angle + 0.25)))
    drop = 1.05 * r
    for k in range(4):
        (ay, ax), (by, bx) = corners[k], corners[(k + 1) % 4]
        if bx < ax:  # this side looks at the camera
            tone = 0.42 + 0.35 * (ay - by) / r
            canvas.polygon([(ay, ax), (by, bx), (by + drop, bx), (ay + drop, ax)], paint * max(tone, 0.25))
    canvas.polygon(corners, np.clip(paint * 1.1 + 0.06, 0.0, 1.0))


SQUARES = (("b8ae9c", "8a8070"), ("7c8488", "565e64"), ("c89878", "946850"), ("5c7048", "3f5232"), ("d8d4d0", "a8a4a0"))
SHIRTS = ("c0392b", "2e5c8a", "e8e4da", "3a3a40", "d9a441", "4f8a5c", "8a4a7a", "d97f5a", "6fa8c8")
SKINS = ("f0c8a8", "d8a07c", "a8704c", "6f452c", "e8b890")
HAIR = ("1c1410", "4a2c18", "8a5c30", "c8a068", "6a6a6a")


def crowd(rng: Rng, look: int, frames: int, size: int) -> Array:
    """People who cross a square in both directions, seen from a little above."""
    pale, dark = (colour(code) for code in by_look(look, SQUARES))
    big = 2 * size
    y, x = grid(big, big, big)
    flags = whole(rng, 8, 16)
    board = (np.floor(y * flags * 1.6) + np.floor(x * flags)) % 2.0
    wear = noise(rng, 8, (big, big), 6, 0.6)
    ground = (pale + (dark - pale) * (0.22 * board + 0.75 * wear)[..., None]) * (0.75 + 0.4 * wear)[..., None]
    people = []
    for _ in range(whole(rng, 34, 50)):
        foot = between(rng, 0.12, 1.12)
        pace = pick(rng, (-1.0, 1.0)) * between(rng, 0.15, 0.5) * (0.4 + 0.6 * foot)
        looks = (
            tint(rng, colour(pick(rng, SHIRTS)), 0.15),
            tint(rng, colour(pick(rng, ("2a3350", "3a3430", "57504a", "1c1c20"))), 0.15),
            colour(pick(rng, SKINS)),
            colour(pick(rng, HAIR)),
        )
        people.append((foot, between(rng, -0.2, 1.2), pace, looks, between(rng, 0.0, 1.0)))
    people.sort(key=lambda person: person[0])
    sway, sun = handheld(rng, 0.02), between(rng, -0.2, 0.2)

    def draw(t: float) -> Array:
        dy, dx = sway(t)
        canvas = Canvas(window(ground, dy * size, dx * size, size), size)
        for foot, x0, pace, looks, phase in people:
            x = (x0 + pace * t - dx + 0.2) % 1.4 - 0.2
            _walker(canvas, foot - dy, x, 0.09 + 0.2 * foot, looks, 2.2 * t + phase, sun, pace)
        return canvas.pixels

    return film(frames, size, draw)


def _walker(
    canvas: Canvas, foot: float, x: float, tall: float, looks: tuple[Array, ...], step: float, sun: float, pace: float
) -> None:
    shirt, trousers, skin, hair = looks
    stride, bob = 0.13 * tall * wave(step), 0.015 * tall * abs(wave(step))
    hip, neck = foot - 0.45 * tall - bob, foot - 0.8 * tall - bob
    canvas.disc(foot, x + sun * tall, 0.3 * tall, colour("060606"), tall=0.3, soft=0.6, alpha=0.5)
    canvas.line((hip, x), (foot, x + stride), 0.11 * tall, trousers * 0.8)
    canvas.line((hip, x), (foot, x - stride), 0.11 * tall, trousers)
    canvas.line((hip, x), (neck + 0.06 * tall, x), 0.26 * tall, shirt)
    canvas.line((neck + 0.05 * tall, x), (hip - 0.02 * tall, x - 0.9 * stride), 0.075 * tall, shirt * 0.7)
    canvas.disc(neck - 0.08 * tall, x, 0.088 * tall, hair)
    face = 0.03 * tall if pace > 0 else -0.03 * tall
    canvas.disc(neck - 0.06 * tall, x + face, 0.068 * tall, skin)


SPINES = ("7a1f24", "1f3a5c", "2f5a3c", "c8a050", "e0d8c4", "3a2a20", "8a5a2c", "4f3a6a", "b8543a", "20242c")


def shelf(rng: Rng, look: int, frames: int, size: int) -> Array:
    """The camera moves along a full bookshelf while a lamp swings."""
    span = 1.9
    case = Canvas.layer(1.2, span, size)
    rows, columns = case.pixels.shape[:2]
    grain = noise(rng, (30, 4), (rows, columns), 5, 0.6)
    case.pixels[..., :3] = ramp(by_look(look, TABLES), grain) * 0.35
    case.pixels[..., 3] = 1.0
    boards, spines = whole(rng, 3, 5), [pick(rng, SPINES) for _ in range(5)]
    for k in range(boards):
        floor, room = (k + 1) * 1.2 / boards, 1.2 / boards - 0.03
        x = 0.0
        while x < span:
            if rng.random() < 0.06:
                radius = min(between(rng, 0.3, 0.42) * room, 0.12)
                paint = tint(rng, colour(pick(rng, TOYS)), 0.15)
                turn = between(rng, 0.0, 1.0)
                case.shade(floor - 0.03 - radius, x + radius, radius, radius, _ball(size, radius, paint, turn))
                x += 2.0 * radius + 0.01
                continue
            gap = between(rng, 0.0, 0.08) if rng.random() < 0.08 else 0.0
            x += gap + _book(rng, case, floor - 0.03, x + gap, room, spines)
        case.box(floor - 0.03, 0.0, 0.03, span, colour("6a4426"))
        case.box(floor, 0.0, 0.02, span, colour("0c0805"), 0.7)
    relief = slope(grain, 1, 1)[..., None]
    case.pixels[..., :3] *= 1.0 + 0.8 * relief
    wall = case.pixels[..., :3].copy()
    start, way = between(rng, 0.1, 0.2), pick(rng, (0.0, 1.0))
    travel, sway = between(rng, 0.2, 0.4), handheld(rng, 0.03)
    y, x0 = grid(size, size, size)
    warm, swing = colour(pick(rng, ("ffd8a0", "fff0d8", "d0e4ff"))), between(rng, 0.5, 1.0)

    def draw(t: float) -> Array:
        dy, dx = sway(t)
        left = start + travel * (t if way > 0.5 else 1.0 - t)
        picture = window(wall, (0.08 + dy) * size, (left + dx) * size, size)
        lamp_x = 0.5 + 0.35 * wave(swing * t)
        distance = (x0 - lamp_x) * (x0 - lamp_x) + 0.6 * (y - 0.35) * (y - 0.35)
        return picture * ((0.4 + 1.1 / (1.0 + 7.0 * distance))[..., None] * warm)

    return film(frames, size, draw)


def _book(rng: Rng, case: Canvas, floor: float, x: float, room: float, spines: Sequence[str]) -> float:
    """A spine with bands and a title; gives its width."""
    wide, tall = between(rng, 0.018, 0.055), room * between(rng, 0.62, 0.95)
    paint, gilt = tint(rng, colour(pick(rng, spines)), 0.25), colour(pick(rng, ("e8d090", "f4f0e4", "202020")))
    for strip in range(4):  # round back: lighter in the middle
        case.box(floor - tall, x + 0.25 * strip * wide, tall, 0.27 * wide, paint * (0.75, 1.15, 1.0, 0.6)[strip])
    for at in (0.1, 0.86):
        case.box(floor - tall * (1.0 - at), x, 0.012, wide * 0.95, gilt, 0.8)
    case.box(floor - 0.75 * tall, x + 0.35 * wide, between(rng, 0.2, 0.4) * tall, 0.3 * wide, gilt, 0.75)
    return wide
