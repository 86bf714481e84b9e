"""Subsets of distractions, a scale each, chosen videos and cameras: from Python, a configuration or a shell."""

from __future__ import annotations

import json

import mujoco
import numpy as np
import pytest

from cbm.cli import main
from cbm.config import EnvConfig, from_json, make_config, to_json
from cbm.config.build import make_environment
from cbm.envs.conditions import Conditions
from cbm.envs.distractions import make_distractions, shows_videos
from cbm.envs.rendering.sky import SKY_SIZE

EVERYTHING = {
    "distraction": "background+camera+color",
    "scale": 0.3,
    "camera_scale": 0.2,
    "color_scale": 0.0,
    "video_alpha": 0.5,
    "dynamic": True,
    "camera_id": 1,
    "task_kwargs": {"time_limit": 0.4},
}


def kinds(env):
    return [type(each).__name__ for each in env.unwrapped.distractions]


@pytest.mark.parametrize("typed", ["camera+background", "background+camera"])
def test_a_subset_draws_what_its_parts_draw_in_the_whole(typed, make):
    """Each part has random numbers of its own, so leaving colour out changes neither camera nor background."""
    subset, whole = make("finger-spin", typed, size=8), make("finger-spin", "easy", size=8)
    assert kinds(subset) == ["Background", "Camera"]
    for seed in range(3):
        infos = [env.reset(seed=seed)[1] for env in (subset, whole)]
        assert infos[0]["background"] == infos[1]["background"]
        poses = [env.unwrapped.scene.data.cam_xpos[0].copy() for env in (subset, whole)]
        np.testing.assert_array_equal(*poses)


def test_each_part_has_its_own_scale():
    def scales(**conditions):
        return [each.config.scale for each in make_distractions(Conditions(**conditions))]

    assert scales(distraction="camera+color", camera_scale=0.4) == [0.4, 0.1]
    assert scales(distraction="camera+color", scale=0.6, color_scale=0.0) == [0.6, 0.0]
    assert scales(distraction="hard", camera_scale=0.0) == [0.3, 0.0, 0.3]


def test_whether_there_are_unseen_videos_is_the_distractions_word():
    assert shows_videos(Conditions("background+color"))
    assert not shows_videos(Conditions("camera+color"))
    assert EnvConfig(distraction="camera+background").splits == ("train", "unseen")
    assert EnvConfig(distraction="camera+color").splits == EnvConfig().splits == ("train",)


def test_named_videos_are_the_ones_trained_on(make, stripes):
    env = make("cartpole-swingup", "background", videos=stripes, video_names=("train/train-2", "train/train-0"), size=8)
    assert {env.reset(seed=seed)[1]["background"] for seed in range(12)} == {"train/train-2", "train/train-0"}
    unseen = make(
        "cartpole-swingup", "background", videos=stripes, video_names=("train/train-2",), split="unseen", size=8
    )
    assert len(unseen.unwrapped.distractions[0].names) == 2


def test_a_video_is_blended_with_the_tasks_own_sky_in_every_episode(make, stripes):
    env = make("reacher-easy", "background", videos=stripes, num_videos=3, video_alpha=0.25, renderer="exact")
    model = env.unwrapped.scene.model
    own = model.tex_data[model.tex_adr[0] :][: SKY_SIZE * SKY_SIZE * 3].astype(np.float32).copy()
    for seed in range(3):  # also when another picture has been shown
        env.reset(seed=seed)
        (background,) = env.unwrapped.distractions
        expected = (0.25 * np.float32(30 * background.frame) + 0.75 * own).astype(np.uint8)
        shown = env.unwrapped.scene.sky.pyramid(SKY_SIZE)[0].reshape(-1)
        np.testing.assert_array_equal(shown, expected)
        np.testing.assert_array_equal(model.tex_data[model.tex_adr[0] :][: shown.size], shown)


@pytest.mark.parametrize("camera", [1, "lookatcart"])
def test_another_camera_shows_what_dm_control_shows_through_it(camera, make):
    env = make("cartpole-swingup", camera_id=camera, renderer="exact", frame_stack=1, render_mode="rgb_array")
    obs, _ = env.reset(seed=0)
    np.testing.assert_array_equal(obs.transpose(1, 2, 0), env.unwrapped.physics.render(84, 84, camera_id=1))
    assert (env.render() == env.unwrapped.physics.render(384, 384, camera_id=1)).mean() > 0.99


@pytest.mark.parametrize(
    ("task", "camera"),
    [("cartpole-swingup", 1), ("reacher-easy", "hand"), ("quadruped-walk", "egocentric"), ("hopper-stand", None)],
)
def test_any_kind_of_camera_can_be_distracted(task, camera, make):
    """At scale 0 it stays what it was, however it moves with its body or turns to it; at 0.5 it is elsewhere."""
    still = make(task, "camera", camera_id=camera, camera_scale=0.0, size=8)
    moved = make(task, "camera", camera_id=camera, camera_scale=0.5, size=8)
    for env in (still, moved):
        env.reset(seed=0)
        scene = env.unwrapped.scene
        for _ in range(10):
            env.step(np.full(env.action_space.shape, 0.7, np.float32))
        position, rotation = (a[scene.camera_id].copy() for a in (scene.data.cam_xpos, scene.data.cam_xmat))
        mujoco.mj_camlight(scene.model, scene.data)
        far = np.linalg.norm(position - scene.data.cam_xpos[scene.camera_id])
        if env is still:
            assert far < 1e-3
            np.testing.assert_allclose(rotation, scene.data.cam_xmat[scene.camera_id], atol=1e-3)
        else:
            assert 0.01 < far < 10
            axes = rotation.reshape(3, 3)
            np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-3)


def test_arguments_reach_the_task(make):
    env = make("cartpole-three_poles", task_kwargs={"num_poles": 5, "time_limit": 0.16}, size=8, frame_stack=1)
    env.reset(seed=0)
    assert env.unwrapped.physics.model.nv == 6  # the cart and five poles
    assert [env.step(np.zeros(1, np.float32))[3] for _ in range(2)] == [False, True]


def test_a_configuration_carries_everything_to_its_environment_and_through_json(stripes):
    seen = EnvConfig("cartpole-swingup", **EVERYTHING, videos=stripes, video_names=("train/train-1",))
    config = make_config("drqv2", seen, overrides=[("env.camera_scale", "0.4")])
    assert from_json(json.loads(json.dumps(to_json(config)))) == config
    env = make_environment(config.env, "train")
    assert [each.config.scale for each in env.unwrapped.distractions] == [0.3, 0.4, 0.0]
    assert env.unwrapped.scene.camera_id == 1
    assert env.reset(seed=0)[1]["background"] == "train/train-1"
    assert [env.step(np.zeros(1, np.float32))[3] for _ in range(5)] == [False] * 4 + [True]
    env.close()


def test_the_shell_gives_the_same_configuration(capsys):
    typed = "--distraction color+camera+background --scale 0.3 --camera-scale 0.2 --color-scale 0 --video-alpha 0.5"
    rest = "--dynamic --camera-id 1 --task-kwargs time_limit=0.4 --video-names a b --preset laptop --print-config"
    assert main(["train", "--task", "cartpole-swingup", *typed.split(), *rest.split()]) == 0
    env = json.loads(capsys.readouterr().out)["env"]
    assert {name: env[name] for name in EVERYTHING} == EVERYTHING
    assert env["video_names"] == ["a", "b"]
    dotted = "--env.task_kwargs time_limit=0.4,sparse=true --env.video_names a,b --env.camera_id lookatcart"
    assert main(["train", *dotted.split(), "--print-config"]) == 0
    env = json.loads(capsys.readouterr().out)["env"]
    assert env["task_kwargs"] == {"time_limit": 0.4, "sparse": True}
    assert (env["video_names"], env["camera_id"]) == (["a", "b"], "lookatcart")


def test_a_preview_of_a_subset(tmp_path, capsys):
    words = "preview --task pendulum-swingup --distraction camera+color --camera-scale 0.3 --episodes 1 --columns 2"
    assert main([*words.split(), "-o", str(tmp_path / "x.png")]) == 0
    assert (tmp_path / "x.png").exists()
    assert main([*words.split(), "--color-scale", "3", "-o", str(tmp_path / "y.png")]) == 1
    assert "color_scale must be 0 to 1, not 3.0" in capsys.readouterr().err
