"""The environments as Gymnasium sees them: spaces, rewards, time limit, seeds, stacking, bad input."""

from __future__ import annotations

from contextlib import closing

import gymnasium as gym
import numpy as np
import pytest
from dm_control import suite
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv

from cbm.envs.make import make_env
from cbm.envs.tasks import PAPER_TASKS, TASKS
from cbm.errors import CBMError
from suite_rollout import rollout

CHECKED = [
    {"distraction": "none"},
    {"distraction": "easy"},
    {"distraction": "background", "dynamic": True},
    {"distraction": "camera", "dynamic": True},
    {"distraction": "color", "dynamic": True},
    {"distraction": "hard", "dynamic": True, "split": "unseen"},
]


@pytest.mark.parametrize(("task", "options"), list(zip(PAPER_TASKS, CHECKED, strict=True)))
@pytest.mark.filterwarnings("error", "ignore:.*GLContext.*:DeprecationWarning")
def test_gymnasiums_own_checker_has_nothing_to_say(task, options):
    with closing(gym.make(f"cbm/{task}-v0", render_mode="rgb_array", **options)) as stacked:
        stacked.reset(seed=0)
        stacked.step(stacked.action_space.sample())  # passes by Gymnasium's passive checker
        stacked.render()
        env = stacked.unwrapped
        check_env(env)
        rate = env.metadata["render_fps"]
    steps = {"ball_in_cup": 0.02, "cartpole": 0.01, "cheetah": 0.01, "finger": 0.02, "reacher": 0.02, "walker": 0.025}
    seconds = steps[TASKS[task].domain] * TASKS[task].action_repeat
    assert rate == pytest.approx(1 / seconds)  # a film runs as fast as what it shows


def first_of_each_domain():
    domains = set()
    for name, task in TASKS.items():
        marks = [pytest.mark.slow] if task.domain in domains else []
        domains.add(task.domain)
        yield pytest.param(name, marks=marks)


def test_the_tasks_are_those_of_dm_controls_suite():
    assert set(TASKS) == {f"{domain}-{task}" for domain, task in suite.ALL_TASKS}


@pytest.mark.parametrize("task", list(first_of_each_domain()))
def test_every_task_is_registered_and_runs(task):
    env = gym.make(f"cbm/{task}-v0", size=32)
    obs, info = env.reset(seed=3)
    assert obs.shape == (9, 32, 32)
    assert obs.dtype == np.uint8
    assert obs.std() > 2  # something is to be seen
    assert env.unwrapped.action_repeat == TASKS[task].action_repeat
    assert env.spec.max_episode_steps == 1000 // TASKS[task].action_repeat
    obs, reward, terminated, _, info = env.step(env.action_space.sample())
    assert obs in env.observation_space
    assert reward <= TASKS[task].action_repeat
    assert reward >= 0 or task.startswith("lqr")
    assert not terminated
    assert info["background"] == "none"
    env.close()


@pytest.mark.parametrize("task", list(first_of_each_domain()))
def test_every_task_can_be_distracted(task, make, stripes):
    """Each of the three changes its picture, and leaves its physics alone."""
    options = {"size": 32, "frame_stack": 1}
    plain = make(task, **options)
    first, _ = plain.reset(seed=3)
    action = np.full(plain.action_space.shape, 0.5, np.float32)
    _, reward, _, _, info = plain.step(action)
    for distraction in ("background+color", "camera"):
        where = {"scale": 0.5} | ({"videos": stripes, "num_videos": 1} if "background" in distraction else {})
        env = make(task, distraction, **options, **where, dynamic=True)
        obs, _ = env.reset(seed=3)
        assert np.abs(obs.astype(int) - first).mean() > 3
        _, other, _, _, other_info = env.step(action)
        assert other == reward
        np.testing.assert_array_equal(other_info["state"], info["state"])


def test_a_task_without_a_time_limit_gets_one_of_1000_steps(make):
    env = make("lqr-lqr_2_1", size=8, frame_stack=1, action_repeat=10)
    env.unwrapped.drawing = False
    env.reset(seed=0)
    steps, over = 1, env.step(np.ones(1, np.float32))[3]
    while not over:
        _, _, terminated, over, _ = env.step(np.ones(1, np.float32))
        steps += 1
        assert not terminated
    assert steps == 100


def test_actions_reach_the_ends_of_a_range_that_is_not_one(make):
    env = make("quadruped-walk", size=8, frame_stack=1)
    spec = env.unwrapped._env.action_spec()
    assert spec.maximum.max() > 1
    for value, expected in ((1.0, spec.maximum), (-1.0, spec.minimum)):
        env.reset(seed=0)
        env.step(np.full(12, value, np.float32))
        np.testing.assert_allclose(env.unwrapped.physics.data.ctrl, expected)


def test_an_observation_can_have_any_size_and_stack(make):
    env = make("reacher-easy", "easy", size=(40, 56), frame_stack=2)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (6, 40, 56)


def test_frames_are_stacked_oldest_first_and_the_first_is_repeated(make):
    stacked, single = make("cheetah-run", frame_stack=3), make("cheetah-run", frame_stack=1)
    obs, _ = stacked.reset(seed=5)
    frames = [single.reset(seed=5)[0]]
    np.testing.assert_array_equal(obs, np.concatenate([frames[0]] * 3))
    for _ in range(4):
        action = stacked.action_space.sample()
        obs = stacked.step(action)[0]
        frames.append(single.step(action)[0])
    np.testing.assert_array_equal(obs, np.concatenate(frames[-3:]))
    assert (frames[-1] != frames[-2]).any()


def test_reward_is_the_sum_over_the_repeat_and_physics_is_the_same(make):
    repeated, plain = make("cartpole-swingup", action_repeat=8), make("cartpole-swingup", action_repeat=1)
    repeated.reset(seed=1)
    plain.reset(seed=1)
    for value in (-1.0, 0.3, 1.0):
        action = np.array([value], np.float32)
        _, reward, _, _, info = repeated.step(action)
        steps = [plain.step(action) for _ in range(8)]
        assert reward == pytest.approx(sum(step[1] for step in steps), abs=1e-12)
        np.testing.assert_array_equal(info["state"], steps[-1][4]["state"])


@pytest.mark.parametrize("repeat", [4, 3])
def test_the_time_limit_is_a_truncation_after_1000_environment_steps(repeat, make):
    env = gym.make("cbm/reacher-easy-v0", size=8, frame_stack=1, action_repeat=repeat)
    env.unwrapped.drawing = False
    env.reset(seed=0)
    steps, over = 0, False
    while not over:
        _, _, terminated, truncated, _ = env.step(np.zeros(2, np.float32))
        assert not terminated
        steps, over = steps + 1, truncated
    assert steps == env.spec.max_episode_steps == -(-1000 // repeat)
    with pytest.raises(CBMError, match="call reset"):
        env.step(np.zeros(2, np.float32))
    env.reset()
    env.step(np.zeros(2, np.float32))
    env.close()


def test_the_length_of_an_episode_follows_its_time_limit(make):
    options = {"size": 8, "frame_stack": 1, "action_repeat": 3, "task_kwargs": {"time_limit": 0.5}}
    with closing(gym.make("cbm/cartpole-balance-v0", **options)) as env, closing(gym.make(env.spec)) as again:
        assert env.spec.max_episode_steps == again.spec.max_episode_steps == 17  # 50 environment steps
        for each in (env, again):
            each.reset(seed=0)
            assert [each.step(np.zeros(1, np.float32))[3] for _ in range(17)] == [False] * 16 + [True]


def test_a_step_or_a_picture_before_reset_is_what_gymnasium_raises(make):
    """With and without Gymnasium's own wrapper that looks after the order."""
    for env in (make("cartpole-swingup", render_mode="rgb_array"), gym.make("Pendulum-v1", render_mode="rgb_array")):
        with pytest.raises(gym.error.ResetNeeded, match="reset"):
            env.step(np.zeros(1, np.float32))
        with pytest.raises(gym.error.ResetNeeded, match="reset"):
            env.render()
    with closing(gym.make("cbm/cartpole-swingup-v0")) as env, pytest.raises(gym.error.ResetNeeded):
        env.step(np.zeros(1, np.float32))


def test_a_seed_decides_everything_and_another_seed_changes_it(make):
    one, two = make("finger-spin", "easy", dynamic=True), make("finger-spin", "easy", dynamic=True)
    first = rollout(one, 7)
    assert rollout(two, 7) == first
    assert rollout(one, 8) != first
    assert rollout(one, 7) == first  # no matter what came before


def test_episodes_without_a_seed_differ_from_each_other(make):
    env = make("cartpole-swingup", "easy")
    frames = [env.reset(seed=0)[0], env.reset()[0], env.reset()[0]]
    assert (frames[0] != frames[1]).any()
    assert (frames[1] != frames[2]).any()


def test_physics_does_not_depend_on_the_distraction(make):
    plain, distracted = make("walker-walk"), make("walker-walk", "hard", dynamic=True)
    plain.reset(seed=2)
    distracted.reset(seed=2)
    for _ in range(5):
        action = plain.action_space.sample()
        a, b = plain.step(action), distracted.step(action)
        assert a[1] == b[1]
        np.testing.assert_array_equal(a[4]["state"], b[4]["state"])


def test_the_same_seed_gives_the_same_bits_in_another_process(python, make):
    script = (
        "import hashlib, sys; sys.path.insert(0, {path!r})\n"
        "from suite_rollout import rollout\nfrom cbm.envs.make import make_env\n"
        "print(hashlib.sha256(rollout(make_env('cheetah-run', 'easy', dynamic=True), 11)).hexdigest())"
    )
    import hashlib
    from pathlib import Path

    other = python(script.format(path=str(Path(__file__).parents[1] / "helpers")))
    assert other.returncode == 0, other.stderr
    here = hashlib.sha256(rollout(make("cheetah-run", "easy", dynamic=True), 11)).hexdigest()
    assert other.stdout.strip() == here


def _easy_cartpole():
    return make_env("cartpole-swingup", "easy", num_videos=2)


def test_runs_in_spawned_worker_processes():
    envs = AsyncVectorEnv([_easy_cartpole] * 2, context="spawn")
    obs, _ = envs.reset(seed=4)
    assert obs.shape == (2, 9, 84, 84)
    assert (obs[0] != obs[1]).any()
    envs.step(envs.action_space.sample())
    envs.close()
    alone = _easy_cartpole()
    np.testing.assert_array_equal(alone.reset(seed=4)[0], obs[0])
    alone.close()


def test_several_environments_in_one_process_do_not_disturb_each_other(make):
    alone = rollout(make("cartpole-swingup", "easy"), 1, steps=3)
    a, b = make("cartpole-swingup", "easy"), make("walker-walk", "hard")
    obs, _ = a.reset(seed=1)
    a.action_space.seed(1)
    b.reset(seed=9)
    seen = [obs]
    for _ in range(3):
        b.step(b.action_space.sample())
        obs, reward, _, _, info = a.step(a.action_space.sample())
        seen += [obs, np.float64(reward), info["state"]]
    assert b"".join(np.asarray(x).tobytes() for x in seen) == alone


def test_render_is_a_larger_picture_of_the_same_scene(make):
    env = make("cartpole-swingup", "easy", render_mode="rgb_array")
    obs, _ = env.reset(seed=0)
    picture = env.render()
    assert picture.shape == (384, 384, 3)
    from PIL import Image

    shrunk = np.asarray(Image.fromarray(picture).resize((84, 84), Image.Resampling.BOX)).astype(int)
    assert np.abs(shrunk - obs[-3:].transpose(1, 2, 0)).mean() < 8
    obs_after = env.step(np.zeros(1, np.float32))[0]
    assert (obs_after[3:6] == obs[-3:]).all()  # filming has not touched what the agent sees


def test_render_without_a_mode_warns_as_gymnasiums_own_environments_do(make):
    for env in (make("cartpole-swingup"), gym.make("Pendulum-v1")):
        env.reset(seed=0)
        with pytest.warns(UserWarning, match="render_mode"):
            assert env.render() is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "cartpole-swngup"}, r"unknown task 'cartpole-swngup'. Did you mean 'cartpole-swingup'\? Choose from"),
        ({"distraction": "eazy"}, r"unknown distraction 'eazy'. Did you mean 'easy'\?.*none, easy, medium, hard"),
        ({"distraction": "easy", "videos": "buildin"}, "buildin.*builtin"),
        ({"distraction": "easy", "videos": "davis:/nowhere/at/all"}, "/nowhere/at/all"),
        ({"distraction": "easy", "split": "test"}, "unknown split.*train, unseen"),
        ({"distraction": "easy", "num_videos": 1000}, "num_videos must be 1 to 60.*got 1000"),
        ({"distraction": "background", "num_videos": 0}, "num_videos must be 1 to .*not 0"),
        ({"distraction": "camera", "scale": 1.5}, "scale must be 0 to 1, not 1.5"),
        ({"distraction": "color", "scale": -0.1}, "scale must be 0 to 1, not -0.1"),
        ({"distraction": "color", "scale": float("nan")}, "scale must be 0 to 1, not nan"),
        (
            {"distraction": "background", "scale": 0.2},
            "scale does nothing with distraction 'background'.*camera",
        ),
        ({"distraction": "camera", "num_videos": 4}, "num_videos does nothing with distraction 'camera'.*background"),
        ({"distraction": "none", "dynamic": True}, "dynamic does nothing with distraction 'none'"),
        ({"distraction": "camera+camera"}, "'camera.camera' has camera twice.*background, camera, color"),
        ({"distraction": "easy+color"}, "'easy.color' has color twice"),
        ({"distraction": "camera+colour"}, "unknown distraction 'colour'. Did you mean 'color'.*background, camera"),
        ({"distraction": "none+camera"}, "unknown distraction 'none'. Choose from: easy"),
        ({"distraction": "color", "camera_scale": 0.2}, "camera_scale does nothing with distraction 'color'.*camera"),
        ({"distraction": "background+camera", "color_scale": 0.2}, "color_scale does nothing.*color"),
        ({"distraction": "camera", "camera_scale": 2.0}, "camera_scale must be 0 to 1, not 2.0"),
        ({"distraction": "camera", "video_alpha": 0.5}, "video_alpha does nothing with.*background"),
        ({"distraction": "easy", "video_alpha": 1.5}, "video_alpha must be 0 to 1, not 1.5"),
        ({"distraction": "easy", "video_names": ["nowhere"]}, "unknown training video of 'builtin' 'nowhere'. Choose"),
        ({"distraction": "easy", "video_names": []}, "one video or more, each once; got none"),
        ({"distraction": "easy", "video_names": ["a"], "num_videos": 2}, "num_videos and video_names both"),
        ({"camera_id": 7}, r"unknown camera of cartpole-swingup 7. Choose from: 0 \(fixed\), 1 \(lookatcart\)"),
        ({"camera_id": "lookatcat"}, r"'lookatcat'. Did you mean '1 \(lookatcart\)'"),
        ({"task_kwargs": {"time_limt": 5}}, "unknown task_kwargs.*'time_limt'. Did you mean 'time_limit'"),
        ({"task_kwargs": {"random": 5}}, "unknown task_kwargs.*'random'. Choose from: time_limit"),
        ({"task_kwargs": {"time_limit": "long"}}, "task_kwargs .*'long'.* of cartpole-swingup"),
        ({"distractions": "easy"}, "unknown setting 'distractions'. Did you mean 'distraction'"),
        ({"scale": "much"}, "scale must be .*not 'much'"),
        ({"render_mode": "human"}, "unknown render_mode 'human'. Choose from: rgb_array"),
        ({"renderer": "fats"}, "unknown renderer 'fats'. Did you mean 'fast'"),
        ({"frame_stack": 0}, "frame_stack must be at least 1"),
        ({"action_repeat": 0}, "action_repeat must be at least 1"),
        ({"size": 4}, "size must be at least 8"),
    ],
)
def test_bad_input_is_named_with_the_way_out(options, message):
    with pytest.raises(CBMError, match=message):
        make_env(**{"task": "cartpole-swingup", **options})


@pytest.mark.parametrize("action", [np.zeros(2), np.array([np.nan]), 0.0])
def test_a_bad_action_is_refused(action, make):
    env = make("cartpole-swingup")
    env.reset(seed=0)
    with pytest.raises(CBMError, match="1 finite numbers"):
        env.step(action)
