"""The sky behind a scene: one picture on the six faces of MuJoCo's skybox. Only visible faces are uploaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
from OpenGL import GL

from cbm.errors import CBMError

SKY_SIZE = 800  # side of dm_control's skybox texture, and of the background image of the original DCS
LEVELS = 4  # of the texture pyramid; a frame never samples beyond the third
# Face of the cube map by the world axis (x, y, z) that one looks along: (negative, positive).
FACES = ((1, 0), (4, 5), (3, 2))
MARGIN = 1.15  # rays reach a little beyond the frame, so that no corner of a face is missed


@dataclass(frozen=True)
class Sky:
    """A background picture. Equal keys mean equal pixels, so that it is uploaded only when it changes."""

    key: object
    pyramid: Callable[[int], Sequence[np.ndarray]]  # side -> textures of side, side / 2, ... (RGB uint8)


def pyramid(picture: np.ndarray, side: int) -> list[np.ndarray]:
    """LEVELS textures from a picture of SKY_SIZE: the largest of `side`, and its halves as OpenGL makes them.

    Each level equals the one that OpenGL would derive from the full picture, so a small upload shows the same pixels.
    """
    pixels = np.dstack([picture, np.empty_like(picture[..., :1])]).view(np.uint32)[..., 0]
    while pixels.shape[0] > side:
        pixels = _halve(pixels)
    levels = [pixels]
    for _ in range(LEVELS - 1):
        levels.append(_halve(levels[-1]))
    colours = (np.ascontiguousarray(level).view(np.uint8).reshape(*level.shape, 4) for level in levels)
    return [np.ascontiguousarray(colour[..., :3]) for colour in colours]


def _halve(pixels: np.ndarray) -> np.ndarray:
    """Means of 2x2 pixels (four bytes in one number), first along rows, as Mesa does for its mipmaps."""
    rows = _mean(pixels[:, 0::2], pixels[:, 1::2])
    return _mean(rows[0::2], rows[1::2])


def _mean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(a + b + 1) / 2 for each of four bytes, with no carry between them."""
    return (a | b) - (((a ^ b) >> 1) & 0x7F7F7F7F)


class SkyTexture:
    """The skybox of one render context. All methods need that GL context to be current."""

    def __init__(self, model: mujoco.MjModel, context: mujoco.MjrContext, side: int) -> None:
        self._model, self._context, self._side = model, context, side
        self._shown: list[object] = [None] * 6  # the key of what is on each face
        self._is_ready = False

    def show(self, sky: Sky, faces: Sequence[int]) -> None:
        """Put the picture on these faces. At full size, all six go through MuJoCo's own, slower upload."""
        stale = [face for face in faces if self._shown[face] != sky.key]
        if not stale:
            return
        levels = sky.pyramid(self._side)
        if self._side == SKY_SIZE or not self._is_ready:
            self._upload_all(levels[0])
            self._shown = [sky.key] * 6
            self._is_ready = True
            return
        GL.glBindTexture(GL.GL_TEXTURE_CUBE_MAP, int(self._context.texture[self._index]))
        GL.glPixelStorei(GL.GL_UNPACK_ALIGNMENT, 1)
        for face in stale:
            target = GL.GL_TEXTURE_CUBE_MAP_POSITIVE_X + face
            for level, image in enumerate(levels):
                side = image.shape[0]
                GL.glTexSubImage2D(target, level, 0, 0, side, side, GL.GL_RGB, GL.GL_UNSIGNED_BYTE, image)
            self._shown[face] = sky.key

    def _upload_all(self, image: np.ndarray) -> None:
        # A skybox as high as it is wide is one picture, which MuJoCo puts on all six faces.
        self._index = skybox_index(self._model)
        self._model.tex_width[self._index] = self._model.tex_height[self._index] = self._side
        start = self._model.tex_adr[self._index]
        self._model.tex_data[start : start + image.size] = image.reshape(-1)
        mujoco.mjr_uploadTexture(self._model, self._context, self._index)
        if self._side != SKY_SIZE:
            GL.glBindTexture(GL.GL_TEXTURE_CUBE_MAP, int(self._context.texture[self._index]))
            GL.glTexParameteri(GL.GL_TEXTURE_CUBE_MAP, GL.GL_TEXTURE_MAX_LEVEL, LEVELS - 1)


def skybox_index(model: mujoco.MjModel) -> int:
    for texture in range(model.ntex):
        if model.tex_type[texture] == mujoco.mjtTexture.mjTEXTURE_SKYBOX:
            return texture
    raise CBMError("this model has no skybox texture, so its background cannot be replaced")


def first_face(model: mujoco.MjModel) -> np.ndarray:
    """One face (SKY_SIZE, SKY_SIZE, 3) of the model's own sky, before any other picture has replaced it."""
    start = model.tex_adr[skybox_index(model)]
    return model.tex_data[start : start + SKY_SIZE * SKY_SIZE * 3].reshape(SKY_SIZE, SKY_SIZE, 3).copy()


_STEPS = np.linspace(-1.0, 1.0, 9)


def visible_faces(rotation: np.ndarray, fovy: float, aspect: float) -> list[int]:
    """The faces of the skybox that a camera sees: those hit by a grid of rays through its frame."""
    tangent = MARGIN * np.tan(np.radians(fovy) / 2)
    x, y = np.meshgrid(_STEPS * tangent * aspect, _STEPS * tangent)
    rays = np.stack([x, y, np.full_like(x, -1.0)], axis=-1).reshape(-1, 3) @ rotation.T
    axes = np.abs(rays).argmax(axis=1)
    ahead = rays[np.arange(len(rays)), axes] > 0
    return sorted({FACES[axis][positive] for axis, positive in set(zip(axes.tolist(), ahead.tolist(), strict=True))})
