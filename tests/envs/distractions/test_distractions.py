"""Distractions stay in their ranges, stand still or move as they should, and never leave quietly."""

from __future__ import annotations

import itertools

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbm.envs.conditions import Conditions
from cbm.envs.distractions import DIFFICULTIES, DISTRACTIONS
from cbm.envs.distractions import make_distractions as make_from
from cbm.envs.distractions.camera import look_along, roll_matrix, to_cartesian, to_spherical, turn_to
from cbm.envs.make import make_env
from cbm.envs.tasks import PAPER_TASKS, get_task
from cbm.envs.videos import open_source
from cbm.errors import CBMError


def make_distractions(distraction, split="train", **conditions):
    return make_from(Conditions(distraction, **conditions), split)


def only(env):
    (distraction,) = env.unwrapped.distractions
    return distraction


def pose(env):
    scene = env.unwrapped.scene
    return scene.data.cam_xpos[0].copy(), scene.data.cam_xmat[0].reshape(3, 3).copy()


@pytest.fixture(scope="module")
def original():
    """Camera pose and colours of each task, without distraction."""
    poses = {}
    for task in PAPER_TASKS:
        env = make_env(task)
        env.reset(seed=0)
        data, model = env.unwrapped.scene.data, env.unwrapped.scene.model
        tracks = model.cam_mode[0] == mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM
        center = data.subtree_com[1].copy() if tracks else np.zeros(3)
        poses[task] = (*pose(env), center, model.mat_rgba.copy())
        env.close()
    return poses


@pytest.mark.parametrize("task", PAPER_TASKS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_camera_stays_in_its_range(task, dynamic, make, original):
    """Recomputed from the pose that MuJoCo renders with, not from what the distraction says of itself."""
    position, _, center, _ = original[task]
    r0, h0, v0 = to_spherical(position - center)
    seen = []
    for scale in (0.1, 0.3, 1.0):
        env = make(task, "camera", scale=scale, dynamic=dynamic, size=8, frame_stack=1)
        for seed in range(12):
            env.reset(seed=seed)
            for _ in range(6 if dynamic else 1):
                env.step(env.action_space.sample())
            scene = env.unwrapped.scene
            now = scene.data.subtree_com[1] if env.unwrapped.distractions[0]._tracks else np.zeros(3)
            new_position, new_rotation = pose(env)
            r, h, v = to_spherical(new_position - now)
            # The tolerance allows for the robot's centre of mass, which differs a little between first states.
            assert r0 * (1 - 0.5 * scale) - 0.02 <= r <= r0 * (1 + 1.5 * scale) + 0.02
            turned = (h - h0 + np.pi) % (2 * np.pi) - np.pi
            if not task.startswith("reacher"):  # straight above, an azimuth means little
                assert abs(turned) <= np.pi / 2 * scale + 0.02
                assert 0 <= v <= np.pi / 2 + 1e-6
                assert -np.pi <= h <= 1e-6
            assert abs(v - v0) <= np.pi / 2 * scale + 0.02
            assert abs(env.unwrapped.distractions[0].roll) <= np.pi / 2 * scale
            np.testing.assert_allclose(new_rotation @ new_rotation.T, np.eye(3), atol=6e-4)
            assert np.linalg.det(new_rotation) == pytest.approx(1.0, abs=6e-4)
            seen.append((scale, r / r0))
    widest = [ratio for scale, ratio in seen if scale == 1.0]
    assert max(widest) - min(widest) > 0.8  # the range of 0.5 to 2.5 is used


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(0, 1))
def test_colours_stay_within_the_scale_of_their_own(seed, scale):
    (distraction,) = make_distractions("color", scale=scale, dynamic=True)
    scene = COLOR_ENV.unwrapped.scene
    scene.model.mat_rgba[:] = COLOR_ORIGINAL
    distraction.rng = np.random.default_rng(seed)
    distraction.reset(scene)
    for _ in range(20):
        distraction.step()
        distraction.apply(scene)
        rgb = scene.model.mat_rgba[:, :3]
        assert (np.abs(rgb - COLOR_ORIGINAL[:, :3]) <= scale + 1e-6).all()
        assert ((rgb >= 0) & (rgb <= 1)).all()
    np.testing.assert_array_equal(scene.model.mat_rgba[:, 3], COLOR_ORIGINAL[:, 3])


COLOR_ENV = make_env("walker-walk", size=8)
COLOR_ENV.reset(seed=0)
COLOR_ORIGINAL = COLOR_ENV.unwrapped.scene.model.mat_rgba.copy()


def test_colours_do_not_drift_from_episode_to_episode(make, original):
    env = make("cartpole-swingup", "color", scale=0.2, size=8)
    own = original["cartpole-swingup"][3][:, :3]
    for seed in range(15):
        env.reset(seed=seed)
        assert (np.abs(env.unwrapped.scene.model.mat_rgba[:, :3] - own) <= 0.2 + 1e-6).all()


@pytest.mark.parametrize("name", DISTRACTIONS)
def test_static_stands_still_and_dynamic_moves(name, make, stripes):
    options = {"videos": stripes, "num_videos": 3} if name == "background" else {"scale": 0.5}
    for dynamic in (False, True):
        env = make("cartpole-balance", name, dynamic=dynamic, frame_stack=1, **options)
        first, _ = env.reset(seed=3)
        for _ in range(4):
            obs = env.step(np.zeros(1, np.float32))[0]
        # Balancing with no force, the pole barely moves: what changes in the far corner is the distraction.
        corner = np.abs(obs[:, :20, :20].astype(int) - first[:, :20, :20]).max()
        whole = np.abs(obs.astype(int) - first).mean()
        assert (corner > 0 or whole > 0.4) == dynamic, (corner, whole)


def test_a_new_episode_draws_a_new_distraction(make, stripes):
    env = make("cartpole-balance", "easy", videos=stripes, num_videos=3)
    skies, cameras, colours, names = set(), set(), set(), set()
    for seed in range(20):
        _, info = env.reset(seed=seed)
        background, camera, color = env.unwrapped.distractions
        names.add(info["background"])
        skies.add((background.name, background.frame))
        cameras.add(tuple(camera.spherical))
        colours.add(tuple(color._rgb.ravel()))
    assert len(names) == 3
    assert len(skies) > 8
    assert len(cameras) == len(colours) == 20


def test_a_clip_plays_one_frame_per_environment_step_and_bounces(make, stripes):
    env = make("cartpole-swingup", "background", videos=stripes, num_videos=3, dynamic=True, action_repeat=1)
    env.reset(seed=0)
    clip = only(env)
    played = [clip.frame]
    for _ in range(30):
        env.step(np.zeros(1, np.float32))
        played.append(clip.frame)
    assert set(np.abs(np.diff(played))) == {0, 1}
    assert set(played) == set(range(7))  # both ends are reached, and left again
    rest = [frame for frame, after in itertools.pairwise(played) if frame == after]
    assert set(rest) <= {0, 6}  # the original turns round on the last frame, and on the first where it begins there
    assert 6 in rest


def test_start_frame_and_direction_are_random(stripes):
    (clip,) = make_distractions("background", videos=stripes, num_videos=3, dynamic=True)
    starts, directions = set(), set()
    for seed in range(60):
        clip.rng = np.random.default_rng(seed)
        clip.reset(COLOR_ENV.unwrapped.scene)
        starts.add(clip.frame)
        directions.add(clip.direction)
    assert starts == set(range(7))
    assert directions == {-1, 1}


@pytest.mark.parametrize("task", PAPER_TASKS)
def test_the_ground_is_as_opaque_as_in_the_suite(task, make, stripes):
    env = make(task, "background", videos=stripes, num_videos=1, size=8)
    env.reset(seed=0)
    expected = {"reacher": 0.0, "walker": 1.0, "cheetah": 1.0}.get(get_task(task).domain, 0.3)
    assert env.unwrapped.scene.model.material("grid").rgba[3] == pytest.approx(expected)


def test_the_sky_shows_the_frame_it_should(make, stripes):
    env = make("reacher-easy", "background", videos=stripes, num_videos=3, dynamic=True, frame_stack=1)
    obs, _ = env.reset(seed=0)
    for _ in range(12):
        # Reacher's ground is invisible: but for arm, target and walls, everything is sky.
        assert np.median(obs) == only(env).frame * 30
        obs = env.step(np.zeros(2, np.float32))[0]


def test_difficulties_are_those_of_the_suite():
    assert {name: (d.scale, d.num_videos) for name, d in DIFFICULTIES.items()} == {
        "easy": (0.1, 4),
        "medium": (0.2, 8),
        "hard": (0.3, None),
    }
    background, camera, color = make_distractions("medium")
    assert background.names == open_source("builtin").names("train")[:8]
    assert (camera.config.scale, color.config.scale) == (0.2, 0.2)
    assert len(make_distractions("hard")[0].names) == 60


def test_unseen_videos_are_all_of_them_and_never_trained_on():
    unseen = make_distractions("easy", split="unseen")[0].names
    trained = make_distractions("hard")[0].names
    assert len(unseen) >= 30
    assert not set(unseen) & set(trained)


def test_a_source_that_mixes_training_and_unseen_is_refused(tmp_path, monkeypatch):
    from cbm.envs.distractions import background

    class Leaky:
        name = "leaky"

        def names(self, split):
            return ("a", "b") if split == "train" else ("b", "c")

    monkeypatch.setattr(background, "open_source", lambda spec: Leaky())
    with pytest.raises(CBMError, match=r"both the training and the unseen set: \['b'\]"):
        make_distractions("easy", num_videos=2, split="unseen")


def test_the_camera_looks_at_what_the_original_looks_at(make):
    for task in PAPER_TASKS:
        env = make(task, "camera", scale=0.4, size=8)
        env.reset(seed=0)
        new_position, new_rotation = pose(env)
        scene = env.unwrapped.scene
        mujoco.mj_camlight(scene.model, scene.data)
        position, rotation = pose(env)
        lookat = position - np.linalg.norm(position - scene.data.subtree_com[1]) * rotation[:, 2]
        toward = (lookat - new_position) / np.linalg.norm(lookat - new_position)
        np.testing.assert_allclose(-new_rotation[:, 2], toward, atol=2e-4)


def test_zero_scale_camera_is_the_original_one(make):
    for task in PAPER_TASKS:
        env = make(task, "camera", scale=0.0, size=8)
        env.reset(seed=0)
        new_position, new_rotation = pose(env)
        scene = env.unwrapped.scene
        mujoco.mj_camlight(scene.model, scene.data)
        position, rotation = pose(env)
        np.testing.assert_allclose(new_position, position, atol=1e-9)
        np.testing.assert_allclose(new_rotation, rotation, atol=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.tuples(*[st.floats(-5, 5)] * 3).filter(lambda xyz: np.hypot(xyz[0], xyz[1]) > 1e-3))
def test_spherical_coordinates_and_rotations_are_what_they_say(xyz):
    vector = np.array(xyz)
    np.testing.assert_allclose(to_cartesian(to_spherical(vector)), vector, atol=1e-9)
    level = look_along(vector)
    assert level[2, 0] == pytest.approx(0)  # the camera's right is horizontal
    assert level[2, 1] >= 0  # and its up is up
    start = look_along(np.array([0.3, 1.0, -0.2]))
    turned = turn_to(start, vector)
    np.testing.assert_allclose(-turned[:, 2], vector / np.linalg.norm(vector), atol=6e-4)
    angle = np.arccos(np.clip((np.trace(turned @ start.T) - 1) / 2, -1, 1))
    between = np.arccos(np.clip(-start[:, 2] @ vector / np.linalg.norm(vector), -1, 1))
    assert angle == pytest.approx(between, abs=0.02)  # no further than needed
    np.testing.assert_allclose(roll_matrix(0.4)[:, 2], [0, 0, 1])
