"""`cbm bench env`: the suite against dm_control's own rendering, both sides in turns in one run."""

from __future__ import annotations

import hashlib
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import closing

import gymnasium as gym
import numpy as np
import psutil

from cbm.bench import Row, alternate, cost, speedup
from cbm.envs.distractions import DIFFICULTIES, DistractionConfig
from cbm.envs.distractions.background import Background
from cbm.envs.make import make_env
from cbm.envs.rendering.renderer import MODES, Renderer, sky_side
from cbm.envs.suite import SuiteEnv
from cbm.envs.tasks import PAPER_TASKS, TASKS

SIZE = 84
Env = gym.Env[np.ndarray, np.ndarray]


def rows(quick: bool = False, report: Callable[[str], None] = lambda what: None) -> Iterator[Row]:
    """Every figure of the suite. `quick` measures fewer frames and environments."""
    frames = 6 if quick else 30
    for task in PAPER_TASKS:
        report(f"pixels and rendering time, {task}")
        yield _exact_pixels(task, frames)
        yield _fast_pixels(task, "none", frames)
        yield _fast_pixels(task, "easy", frames)
        yield _render_time(task, frames)
    report("agent step of cartpole against rendering each sub-step")
    yield _agent_step("cartpole-swingup", frames)
    report("preparing the clips, as they are after a while of training")
    for sky in Background(DistractionConfig(num_videos=DIFFICULTIES["easy"].num_videos, dynamic=True)).skies():
        sky.pyramid(sky_side(MODES["fast"], SIZE))
    for task in PAPER_TASKS:
        report(f"dynamic against static, {task}")
        yield _dynamic(task, frames)
    report("the same seed in two processes")
    yield _determinism(episodes=1 if quick else 3)
    number = 20 if quick else 200
    report(f"memory over {number} environments")
    yield _memory(number)


def _exact_pixels(task: str, frames: int) -> Row:
    """`exact` against dm_control's `physics.render`, over an episode of random actions."""
    with closing(make_env(task, renderer="exact", frame_stack=1)) as env:
        suite, step = _suite(env), _stepper(env)
        differing = 0
        for _ in range(frames):
            obs = step()
            reference = suite.physics.render(SIZE, SIZE, camera_id=suite.scene.camera_id)
            differing += int((obs.transpose(1, 2, 0) != reference).any(axis=-1).sum())
    return Row("exact against dm_control, differing pixels", task, differing, 0, None, "== 0", differing)


def _fast_pixels(task: str, distraction: str, frames: int) -> Row:
    """`fast` against `exact`, over three episodes of the same seeds and actions."""
    differences = []
    with (
        closing(make_env(task, distraction, renderer="fast", frame_stack=1)) as fast,
        closing(make_env(task, distraction, renderer="exact", frame_stack=1)) as exact,
    ):
        for episode in range(3):
            fast_step, exact_step = _stepper(fast, seed=episode), _stepper(exact, seed=episode)
            for _ in range(frames // 3):
                differences.append(np.abs(fast_step().astype(int) - exact_step()).mean())
    mean = float(np.mean(differences))
    what = f"fast against exact, {'plain' if distraction == 'none' else distraction}, mean absolute difference of 255"
    return Row(what, task, mean, 0.0, None, "<= 0.5", mean)


def _render_time(task: str, frames: int) -> Row:
    with closing(make_env(task)) as env:
        suite, step = _suite(env), _stepper(env)
        renderer = Renderer(suite.scene.model, SIZE, SIZE, "fast")
        for _ in range(10):
            step()
        ours, reference = alternate(
            lambda: renderer.render(suite.scene.data),
            lambda: suite.physics.render(SIZE, SIZE, camera_id=suite.scene.camera_id),
            rounds=frames,
        )
        renderer.close()
    return speedup("fast against dm_control's render, seconds a frame", task, ours, reference, ">= 4")


def _agent_step(task: str, frames: int) -> Row:
    """Ours draws one frame per agent step. The reference draws each sub-step with `physics.render`."""
    repeat = TASKS[task].action_repeat
    with closing(make_env(task, "easy")) as ours, closing(make_env(task, "easy", action_repeat=1)) as plain:
        suite = _suite(plain)
        suite.reset(seed=0)

        def render_each_sub_step() -> None:
            for _ in range(repeat):
                suite.advance(np.zeros(1))
                suite.physics.render(SIZE, SIZE, camera_id=suite.scene.camera_id)

        ours_seconds, reference = alternate(_stepper(ours), render_each_sub_step, rounds=frames, warmup=3)
    what = "agent step, easy, against rendering each sub-step by default, seconds"
    return speedup(what, task, ours_seconds, reference, ">= 20")


def _dynamic(task: str, frames: int) -> Row:
    """Time per agent step when the clips have been seen before, as they have for most of a run."""
    with closing(make_env(task, "easy", dynamic=True)) as dynamic, closing(make_env(task, "easy")) as static:
        ours, reference = alternate(_stepper(dynamic, seed=0), _stepper(static, seed=0), rounds=frames)
    return cost("dynamic easy against static easy, seconds an agent step", task, ours, reference, "<= 1.5")


def _determinism(episodes: int) -> Row:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        first, second = pool.map(fingerprints, [episodes, episodes], chunksize=1)
    differing = sum(a != b for a, b in zip(first, second, strict=True))
    what = f"same seed in two processes (frames, rewards, states), differing of {len(first)} episodes"
    return Row(what, "all six", differing, 0, None, "== 0", differing)


def fingerprints(episodes: int) -> list[str]:
    """A hash of all frames, rewards and states of each episode of the six tasks, under `easy`, dynamic."""
    prints = []
    for task in PAPER_TASKS:
        with closing(make_env(task, "easy", frame_stack=1, dynamic=True)) as env:
            env.action_space.seed(0)
            for episode in range(episodes):
                digest = hashlib.sha256()
                obs, info = env.reset(seed=episode)
                over = False
                while not over:
                    digest.update(obs.tobytes() + info["state"].tobytes())
                    obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
                    digest.update(np.float64(reward).tobytes())
                    over = terminated or truncated
                prints.append(digest.hexdigest())
    return prints


def _memory(number: int) -> Row:
    process = psutil.Process()
    for index in range(12):  # load everything that is loaded only once
        _make_step_close(index)
    before = process.memory_info().rss
    for index in range(number):
        _make_step_close(index)
    grown = (process.memory_info().rss - before) / 2**20
    what = f"making, stepping and closing {number} environments, MB grown"
    return Row(what, "all six", grown, 0, None, "<= 50", grown)


def _make_step_close(index: int) -> None:
    with closing(make_env(PAPER_TASKS[index % len(PAPER_TASKS)], "easy", num_videos=1)) as env:
        step = _stepper(env, seed=index % 6)
        for _ in range(3):
            step()


def _stepper(env: Env, seed: int = 0) -> Callable[[], np.ndarray]:
    """Each call takes one agent step with a random action; when an episode ends, the next begins."""
    env.reset(seed=seed)
    env.action_space.seed(seed)

    def step() -> np.ndarray:
        obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
        return env.reset()[0] if terminated or truncated else obs

    return step


def _suite(env: Env) -> SuiteEnv:
    suite = env.unwrapped
    assert isinstance(suite, SuiteEnv)
    return suite
