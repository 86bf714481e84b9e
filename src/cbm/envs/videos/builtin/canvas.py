"""A sheet to draw soft-edged shapes on, with or without transparency."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from .paint import Array, smooth, window

Point = tuple[float, float]  # (y, x), in units of `unit` pixels
Shader = Callable[[Array, Array], tuple[Array, Array]]  # offsets dy, dx from the centre -> coverage, colour


class Canvas:
    """Pixels (H, W, 3), or (H, W, 4) with colour premultiplied by coverage, when it is a layer to lay over others."""

    def __init__(self, pixels: Array, unit: int) -> None:
        self.pixels = pixels
        self.unit = unit

    @classmethod
    def layer(cls, height: float, width: float, unit: int) -> Canvas:
        """An empty, transparent sheet of that many units."""
        return cls(np.zeros((round(height * unit), round(width * unit), 4), np.float32), unit)

    def shade(self, y: float, x: float, reach_y: float, reach_x: float, shader: Shader, *, light: bool = False) -> None:
        """Paint what `shader` says within the box (y, x) +- reach; `light` is added, not painted over."""
        unit, (height, width) = self.unit, self.pixels.shape[:2]
        top, bottom = max(0, math.floor((y - reach_y) * unit)), min(height, math.ceil((y + reach_y) * unit) + 1)
        left, right = max(0, math.floor((x - reach_x) * unit)), min(width, math.ceil((x + reach_x) * unit) + 1)
        if top >= bottom or left >= right:
            return
        dy = ((np.arange(top, bottom, dtype=np.float32) + 0.5) * (1.0 / unit) - y)[:, None]
        dx = ((np.arange(left, right, dtype=np.float32) + 0.5) * (1.0 / unit) - x)[None, :]
        coverage, paint = shader(dy, dx)
        view, coverage = self.pixels[top:bottom, left:right], coverage[..., None]
        if light:
            view[..., :3] += coverage * paint
            return
        view *= 1.0 - coverage
        view[..., :3] += coverage * paint
        if view.shape[2] == 4:
            view[..., 3:] += coverage

    def disc(
        self,
        y: float,
        x: float,
        radius: float,
        paint: Array,
        *,
        tall: float = 1.0,
        soft: float = 0.0,
        alpha: float = 1.0,
    ) -> None:
        """A disc, or an ellipse `tall` times as high as wide. `soft`: the part of the radius that fades out."""
        edge = max(soft, 1.5 / (self.unit * max(radius * min(tall, 1.0), 1e-4)))

        def shader(dy: Array, dx: Array) -> tuple[Array, Array]:
            dy = dy * (1.0 / tall)
            r = np.sqrt(dy * dy + dx * dx) * (1.0 / radius)
            return alpha * (1.0 - smooth(1.0 - edge, 1.0 + min(edge, 0.5), r)), paint

        self.shade(y, x, 1.5 * radius * tall, 1.5 * radius, shader)

    def line(self, start: Point, end: Point, width: float, paint: Array, alpha: float = 1.0) -> None:
        """A stroke with round ends."""
        cy, cx = 0.5 * (start[0] + end[0]), 0.5 * (start[1] + end[1])
        hy, hx = 0.5 * (end[0] - start[0]), 0.5 * (end[1] - start[1])
        square = max(hy * hy + hx * hx, 1e-9)

        def shader(dy: Array, dx: Array) -> tuple[Array, Array]:
            along = np.clip((dy * hy + dx * hx) * (1.0 / square), -1.0, 1.0)
            oy, ox = dy - along * hy, dx - along * hx
            inside = 0.5 * width - np.sqrt(oy * oy + ox * ox)
            return alpha * np.clip(0.5 + inside * self.unit, 0.0, 1.0), paint

        self.shade(cy, cx, abs(hy) + width, abs(hx) + width, shader)

    def polygon(self, points: Sequence[Point], paint: Array, alpha: float = 1.0) -> None:
        """A convex polygon."""
        ys, xs = [p[0] for p in points], [p[1] for p in points]
        cy, cx = 0.5 * (min(ys) + max(ys)), 0.5 * (min(xs) + max(xs))

        def shader(dy: Array, dx: Array) -> tuple[Array, Array]:
            inside = np.full((len(dy), dx.shape[1]), 1.0, np.float32)
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
            return alpha * np.clip(0.5 + inside * self.unit, 0.0, 1.0), paint

        self.shade(cy, cx, max(ys) - cy + 2.0 / self.unit, max(xs) - cx + 2.0 / self.unit, shader)

    def box(self, y: float, x: float, height: float, width: float, paint: Array, alpha: float = 1.0) -> None:
        """A rectangle with the corner (y, x) at its upper left."""
        hy, hx = 0.5 * height, 0.5 * width

        def shader(dy: Array, dx: Array) -> tuple[Array, Array]:
            inside = np.minimum(hy - np.abs(dy), hx - np.abs(dx))
            return alpha * np.clip(0.5 + inside * self.unit, 0.0, 1.0), paint

        self.shade(y + hy, x + hx, hy + 1.0 / self.unit, hx + 1.0 / self.unit, shader)

    def glow(self, y: float, x: float, radius: float, light: Array, strength: float = 1.0) -> None:
        """Light added around a point."""

        def shader(dy: Array, dx: Array) -> tuple[Array, Array]:
            fade = np.maximum(1.0 - (dy * dy + dx * dx) * (1.0 / (radius * radius)), 0.0)
            return strength * fade * fade, light

        self.shade(y, x, radius, radius, shader, light=True)

    def lay(self, layer: Array) -> None:
        """Lay premultiplied (H, W, 4) pixels of the same size over this."""
        self.pixels *= 1.0 - layer[..., 3:]
        self.pixels += layer[..., : self.pixels.shape[2]]

    def view(self, y: float, x: float, size: int) -> Array:
        """What a camera with its upper left corner at (y, x) sees."""
        return window(self.pixels, y * self.unit, x * self.unit, size, mode="clip")
