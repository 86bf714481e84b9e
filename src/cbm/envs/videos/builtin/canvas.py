"""A sheet to draw soft-edged shapes on, with or without transparency."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .paint import LOW, PAN, SPAN, SWAY, Array, crop, smooth

MARGIN = SWAY + 0.14  # of a layer beyond the picture, for a camera that sways and tilts

Point = tuple[float, float]  # (y, x), in units: see `paint.LOW`


def blend(pixels: Array, coverage: Array, paint: Array) -> None:
    """Paint over pixels (h, w, 3 or 4) with a coverage (h, w) in [0, 1]."""
    coverage = coverage[..., None]
    pixels *= 1.0 - coverage
    pixels[..., :3] += coverage * paint
    pixels[..., 3:] += coverage


class Canvas:
    """Pixels (H, W, 3), or (H, W, 4) with colour premultiplied by coverage if it is a layer to put over others.

    `size` is the side of the picture in pixels; `top` and `left` say which place of the scene the first pixel shows.
    """

    def __init__(self, pixels: Array, size: int, top: float = LOW, left: float = LOW) -> None:
        self.pixels, self.size, self.unit, self.top, self.left = pixels, size, size / SPAN, top, left

    @classmethod
    def layer(cls, size: int) -> Canvas:
        """A transparent sheet for everything that a moving camera will see."""
        height, width = (round(side * (size / SPAN)) for side in (SPAN + 2 * MARGIN, SPAN + PAN + 2 * MARGIN))
        return cls(np.zeros((height, width, 4), np.float32), size, LOW - MARGIN, LOW - MARGIN)

    @classmethod
    def sprite(cls, reach_y: float, reach_x: float, size: int) -> Canvas:
        """A small transparent sheet around (0, 0), to be stamped."""
        unit = size / SPAN
        height, width = (2 * math.ceil(reach * unit) + 1 for reach in (reach_y, reach_x))
        return cls(np.zeros((height, width, 4), np.float32), size, -0.5 * height / unit, -0.5 * width / unit)

    @property
    def right(self) -> float:
        return self.left + self.pixels.shape[1] / self.unit

    def around(self, y: float, x: float, reach_y: float, reach_x: float) -> tuple[Array, Array, Array]:
        """The pixels (h, w, 3 or 4) of the box (y, x) +- reach, and their offsets dy (h, 1), dx (1, w) from (y, x)."""
        y, x = y - self.top, x - self.left
        unit, (height, width) = self.unit, self.pixels.shape[:2]
        top, left = max(0, math.floor((y - reach_y) * unit)), max(0, math.floor((x - reach_x) * unit))
        bottom = max(top, min(height, math.ceil((y + reach_y) * unit) + 1))
        right = max(left, min(width, math.ceil((x + reach_x) * unit) + 1))
        dy = ((np.arange(top, bottom, dtype=np.float32) + 0.5) * (1.0 / unit) - y)[:, None]
        dx = ((np.arange(left, right, dtype=np.float32) + 0.5) * (1.0 / unit) - x)[None, :]
        return self.pixels[top:bottom, left:right], dy, dx

    def disc(
        self, y: float, x: float, r: float, paint: Array, *, tall: float = 1.0, soft: float = 0.0, alpha: float = 1.0
    ) -> None:
        """A disc, or an ellipse `tall` times as high as wide. `soft`: the part of the radius r that fades out."""
        edge = max(soft, 1.5 / (self.unit * max(r * min(tall, 1.0), 1e-4)))
        view, dy, dx = self.around(y, x, 1.5 * r * tall, 1.5 * r)
        dy = dy * (1.0 / tall)
        distance = np.sqrt(dy * dy + dx * dx) * (1.0 / r)
        blend(view, alpha * (1.0 - smooth(1.0 - edge, 1.0 + min(edge, 0.5), distance)), paint)

    def line(self, start: Point, end: Point, width: float, paint: Array, alpha: float = 1.0) -> None:
        """A stroke with round ends."""
        cy, cx = 0.5 * (start[0] + end[0]), 0.5 * (start[1] + end[1])
        hy, hx = 0.5 * (end[0] - start[0]), 0.5 * (end[1] - start[1])
        square = max(hy * hy + hx * hx, 1e-9)
        view, dy, dx = self.around(cy, cx, abs(hy) + width, abs(hx) + width)
        along = np.clip((dy * hy + dx * hx) * (1.0 / square), -1.0, 1.0)
        oy, ox = dy - along * hy, dx - along * hx
        inside = 0.5 * width - np.sqrt(oy * oy + ox * ox)
        blend(view, alpha * np.clip(0.5 + inside * self.unit, 0.0, 1.0), paint)

    def polygon(self, points: Sequence[Point], paint: Array) -> None:
        """A convex polygon."""
        ys, xs = [p[0] for p in points], [p[1] for p in points]
        cy, cx = 0.5 * (min(ys) + max(ys)), 0.5 * (min(xs) + max(xs))
        view, dy, dx = self.around(cy, cx, max(ys) - cy + 2.0 / self.unit, max(xs) - cx + 2.0 / self.unit)
        inside = np.full(view.shape[:2], 1.0, np.float32)
        my, mx = sum(ys) / len(ys) - cy, sum(xs) / len(xs) - cx
        for (y0, x0), (y1, x1) in zip(points, [*points[1:], points[0]], strict=True):
            ny, nx = x1 - x0, y0 - y1
            length = math.sqrt(ny * ny + nx * nx)
            if length < 1e-9:
                continue
            ny, nx = ny / length, nx / length
            offset = (y0 - cy) * ny + (x0 - cx) * nx
            if my * ny + mx * nx < offset:
                ny, nx, offset = -ny, -nx, -offset
            inside = np.minimum(inside, dy * ny + dx * nx - offset)
        blend(view, np.clip(0.5 + inside * self.unit, 0.0, 1.0), paint)

    def box(self, y: float, x: float, height: float, width: float, paint: Array, alpha: float = 1.0) -> None:
        """A rectangle with the corner (y, x) at its upper left."""
        hy, hx = 0.5 * height, 0.5 * width
        view, dy, dx = self.around(y + hy, x + hx, hy + 1.0 / self.unit, hx + 1.0 / self.unit)
        inside = np.minimum(hy - np.abs(dy), hx - np.abs(dx))
        blend(view, alpha * np.clip(0.5 + inside * self.unit, 0.0, 1.0), paint)

    def glow(self, y: float, x: float, radius: float, light: Array, strength: float) -> None:
        """Light added around a point."""
        view, dy, dx = self.around(y, x, radius, radius)
        fade = np.maximum(1.0 - (dy * dy + dx * dx) * (1.0 / (radius * radius)), 0.0)
        view[..., :3] += (strength * fade * fade)[..., None] * light

    def block(self, y: float, x: float, height: float, width: float, paint: Array) -> None:
        """An opaque rectangle of whole pixels: much faster than `box`."""
        top, left = round((y - self.top) * self.unit), round((x - self.left) * self.unit)
        bottom = max(top + 1, round((y + height - self.top) * self.unit))
        right = max(left + 1, round((x + width - self.left) * self.unit))
        view = self.pixels[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
        view[..., :3], view[..., 3:] = paint, 1.0

    def roughen(self, grain: Array, strength: float) -> None:
        """Give a layer's surfaces a texture: `grain` in [0, 1] makes them darker and lighter."""
        part = grain[: self.pixels.shape[0], : self.pixels.shape[1], None]
        self.pixels[..., :3] *= np.maximum(1.0 + strength * (2.0 * part - 1.0), 0.0)

    def lay(self, layer: Array) -> None:
        """Lay premultiplied (H, W, 4) pixels of the same size over this."""
        self.pixels *= 1.0 - layer[..., 3:]
        self.pixels += layer[..., : self.pixels.shape[2]]

    def stamp(self, sprite: Canvas, y: float, x: float) -> None:
        """Lay a sprite over this at the whole pixel next to (y, x)."""
        (rows, columns), (height, width) = sprite.pixels.shape[:2], self.pixels.shape[:2]
        top = round((y - self.top) * self.unit) - rows // 2
        left = round((x - self.left) * self.unit) - columns // 2
        part = sprite.pixels[max(-top, 0) : max(height - top, 0), max(-left, 0) : max(width - left, 0)]
        view = self.pixels[max(top, 0) : max(top + rows, 0), max(left, 0) : max(left + columns, 0)]
        Canvas(view, self.size).lay(part)

    def view(self, dy: float, dx: float) -> Array:
        """What a camera that moved by (dy, dx) sees, to the next whole pixel."""
        row, column = round((LOW + dy - self.top) * self.unit), round((LOW + dx - self.left) * self.unit)
        return crop(self.pixels, row, column, self.size, "clip")
