"""The sky: a small upload of the faces that are seen shows what a full upload of all six would show."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from OpenGL import GL
from PIL import Image

from cbm.envs.distractions.camera import look_along, roll_matrix
from cbm.envs.rendering import gl
from cbm.envs.rendering.sky import SKY_SIZE, Sky, SkyTexture, pyramid, skybox_index, visible_faces


def picture(seed: int) -> np.ndarray:
    """A smooth colourful image with fine detail on it."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (12, 12, 3), np.uint8)).resize((SKY_SIZE, SKY_SIZE), Image.BICUBIC)
    return (np.asarray(coarse) // 2 + rng.integers(0, 128, (SKY_SIZE, SKY_SIZE, 3))).astype(np.uint8)


def sky(seed: int) -> Sky:
    return Sky(seed, lambda side: pyramid(picture(seed), side))


@pytest.fixture
def scene(make):
    env = make("cartpole-swingup")
    env.reset(seed=0)
    scene = env.unwrapped.scene
    scene.model.geom_rgba[:, 3] = scene.model.mat_rgba[:, 3] = 0  # nothing but sky
    return env.unwrapped._renderer, scene


def test_only_the_faces_seen_are_uploaded_and_no_pixel_shows_it(scene, make):
    partial, at = scene
    rng = np.random.default_rng(0)
    faces_at_once = set()
    for step in range(40):
        rotation = look_along(rng.normal(size=3)) @ roll_matrix(rng.uniform(-3, 3))
        at.data.cam_xmat[0] = rotation.reshape(-1)
        faces_at_once.add(len(visible_faces(rotation, 45.0, 1.0)))
        frame = partial.render(at.data, sky(step % 5))
        for face in range(6):  # the same picture again, now on all six faces
            partial._sky._shown[face] = None
        with gl.borrowed():
            partial._gl.make_current()
            partial._sky.show(sky(step % 5), range(6))
        np.testing.assert_array_equal(partial.render(at.data, sky(step % 5)), frame)
    assert min(faces_at_once) == 1
    assert max(faces_at_once) == 3


def test_the_pyramid_is_the_one_that_opengl_makes(scene):
    renderer, at = scene
    full = picture(1)
    with gl.borrowed():
        renderer._gl.make_current()
        texture = SkyTexture(at.model, renderer._context, SKY_SIZE)
        texture.show(Sky("full", lambda side: [full]), [0])
        GL.glBindTexture(GL.GL_TEXTURE_CUBE_MAP, int(renderer._context.texture[skybox_index(at.model)]))
        GL.glPixelStorei(GL.GL_PACK_ALIGNMENT, 1)
        made = {}
        for level in (1, 2, 3):
            raw = GL.glGetTexImage(GL.GL_TEXTURE_CUBE_MAP_POSITIVE_X, level, GL.GL_RGB, GL.GL_UNSIGNED_BYTE)
            side = SKY_SIZE >> level
            made[level] = np.frombuffer(raw, np.uint8).reshape(side, side, 3)
    for start in (1, 2):  # a pyramid that begins at 400 or at 200
        levels = pyramid(full, SKY_SIZE >> start)
        for level in range(start, 4):
            np.testing.assert_array_equal(levels[level - start], made[level])


def test_levels_are_rounded_up_means_of_four():
    tiny = np.zeros((4, 4, 3), np.uint8)
    tiny[0, 0], tiny[0, 1], tiny[1, 0], tiny[1, 1] = 10, 11, 20, 20
    levels = pyramid(np.tile(tiny, (8, 8, 1)), 32)
    assert [level.shape[0] for level in levels] == [32, 16, 8, 4]
    assert levels[1][0, 0].tolist() == [16, 16, 16]  # ceil((ceil(10.5) + 20) / 2)


def test_a_model_without_a_sky_is_refused():
    from cbm.errors import CBMError

    with pytest.raises(CBMError, match="no skybox"):
        skybox_index(mujoco.MjModel.from_xml_string("<mujoco/>"))
