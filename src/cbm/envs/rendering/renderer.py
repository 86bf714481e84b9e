"""Frames straight from MuJoCo's renderer: the pixels of `physics.render`, several times faster.

Two modes. `exact` gives the same pixels as dm_control, bit for bit. `fast` also makes the shadow map smaller, the
round shapes coarser and the background texture smaller, at a mean difference of less than half of one grey level.
"""

from __future__ import annotations

import atexit
import weakref
from dataclasses import dataclass

import mujoco
import numpy as np

from cbm.envs.rendering import gl
from cbm.envs.rendering.sky import SKY_SIZE, Sky, SkyTexture, visible_faces
from cbm.errors import CBMError, choose


@dataclass(frozen=True)
class Quality:
    """What a mode changes in `mjVisual.quality`; None keeps the model's own value."""

    shadow_map: int | None = None
    slices: int | None = None
    stacks: int | None = None
    texels_per_pixel: float | None = None  # of the sky, per image row; None keeps all of SKY_SIZE
    ground_casts_shadow: bool = True


# Measured on the six tasks at 84x84 (docs/rendering.md): a larger shadow map or more stacks cost time and change no
# pixel that matters; fewer slices do. 2.3 sky texels per row (with a field of view of half a cube face) do not change
# the levels of the texture pyramid that a frame is sampled from.
MODES: dict[str, Quality] = {
    "exact": Quality(),
    "fast": Quality(shadow_map=256, slices=16, stacks=6, texels_per_pixel=2.3, ground_casts_shadow=False),
}


class Renderer:
    """Draws the view of camera `camera_id` of a model. It holds GL memory: call `close()` at the end."""

    def __init__(self, model: mujoco.MjModel, height: int, width: int, mode: str = "fast", camera_id: int = 0) -> None:
        quality = choose("renderer", mode, MODES)
        self.height, self.width = height, width
        self._model = model
        try:
            with gl.borrowed():
                self._gl = mujoco.GLContext(width, height)
                self._gl.make_current()
                self._context = _new_context(model, height, width, quality)
        except Exception as error:
            raise CBMError(
                f"OpenGL ({gl.BACKEND}) could not be started: {error}. Try MUJOCO_GL=osmesa, or: {gl.INSTALL_HINT}"
            ) from error
        self._finalizer = weakref.finalize(self, _free, self._gl, self._context)
        self._finalizer.atexit = False
        atexit.register(self._finalizer)  # runs before the handler that ends EGL, which MuJoCo has registered by now
        self._sky = SkyTexture(model, self._context, sky_side(quality, max(height, width)))
        self._scene = mujoco.MjvScene(model, maxgeom=1000)
        self._option = mujoco.MjvOption()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = camera_id
        self._viewport = mujoco.MjrRect(0, 0, width, height)
        self._pixels = np.empty((height, width, 3), np.uint8)
        self._ground = None if quality.ground_casts_shadow else ground_plane(model)

    def render(self, data: mujoco.MjData, sky: Sky | None = None) -> np.ndarray:
        """The frame (H, W, 3) of the current state, in front of the given sky, or the model's own."""
        if self.closed:
            raise CBMError("this renderer is closed")
        with gl.borrowed():
            self._gl.make_current()
            if sky is not None:
                rotation = data.cam_xmat[self._camera.fixedcamid].reshape(3, 3)
                fovy = self._model.cam_fovy[self._camera.fixedcamid]
                self._sky.show(sky, visible_faces(rotation, fovy, self.width / self.height))
            everything = mujoco.mjtCatBit.mjCAT_ALL
            mujoco.mjv_updateScene(self._model, data, self._option, None, self._camera, everything, self._scene)
            if self._ground is not None:
                self._keep_ground_out_of_shadow_pass()
            mujoco.mjr_render(self._viewport, self._scene, self._context)
            mujoco.mjr_readPixels(self._pixels, None, self._viewport, self._context)
        return self._pixels[::-1].copy()  # OpenGL's first row is the lowest

    def _keep_ground_out_of_shadow_pass(self) -> None:
        # The ground can only shade what has sunk into it: a pixel or two at a foot, now and then. As decoration it is
        # still lit and shaded, and still reflects.
        for index in range(self._scene.ngeom):
            geom = self._scene.geoms[index]
            if geom.objid == self._ground and geom.objtype == mujoco.mjtObj.mjOBJ_GEOM:
                geom.category = mujoco.mjtCatBit.mjCAT_DECOR
                return

    @property
    def closed(self) -> bool:
        return not self._finalizer.alive

    def close(self) -> None:
        """Free the GL memory. Closing twice is allowed; an unclosed renderer is closed at exit."""
        self._finalizer()


def ground_plane(model: mujoco.MjModel) -> int | None:
    """The id of the geom that the robot stands on. Reacher's walls are planes too, but do not count."""
    planes = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE).tolist()
    return next((geom for geom in planes if model.geom(geom).name in ("ground", "floor")), None)


def sky_side(quality: Quality, pixels: int) -> int:
    """SKY_SIZE, halved as often as possible while it has all texels that a frame of this size samples."""
    side = SKY_SIZE
    if quality.texels_per_pixel is not None:
        while side > 200 and side / 2 >= quality.texels_per_pixel * pixels:
            side //= 2
    return side


def _new_context(model: mujoco.MjModel, height: int, width: int, quality: Quality) -> mujoco.MjrContext:
    """A render context with other quality settings than the model's, which are restored afterwards."""
    size, detail = model.vis.global_, model.vis.quality
    before = (size.offheight, size.offwidth, detail.shadowsize, detail.numslices, detail.numstacks)
    size.offheight, size.offwidth = height, width  # the buffer that is cleared and resolved for every frame
    detail.shadowsize = quality.shadow_map or detail.shadowsize
    detail.numslices = quality.slices or detail.numslices
    detail.numstacks = quality.stacks or detail.numstacks
    try:
        context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150)
    finally:
        size.offheight, size.offwidth, detail.shadowsize, detail.numslices, detail.numstacks = before
    mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, context)
    return context


def _free(context_gl: mujoco.GLContext, context: mujoco.MjrContext) -> None:
    with gl.borrowed():
        context_gl.make_current()
        context.free()
        context_gl.free()
