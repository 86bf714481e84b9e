"""Pixels: exact ones, fast ones, and renderers that live and die beside others."""

from __future__ import annotations

import os
import threading

import numpy as np
import psutil
import pytest

from cbm.bench.env import rows
from cbm.envs.make import make_env
from cbm.envs.rendering.renderer import Renderer
from cbm.envs.tasks import PAPER_TASKS
from cbm.errors import CBMError


@pytest.mark.parametrize("task", PAPER_TASKS)
def test_exact_gives_the_pixels_of_dm_control(task, make):
    env = make(task, renderer="exact", frame_stack=1)
    env.reset(seed=0)
    env.action_space.seed(0)
    # A foot of the walker sinks into the ground after 25 steps: then even the shadow below the ground must be right.
    for _ in range(30 if task == "walker-walk" else 6):
        obs = env.step(env.action_space.sample())[0]
        reference = env.unwrapped.physics.render(84, 84, camera_id=0)
        np.testing.assert_array_equal(obs.transpose(1, 2, 0), reference)


@pytest.mark.parametrize("task", PAPER_TASKS)
@pytest.mark.parametrize(("distraction", "dynamic"), [("none", False), ("easy", False), ("easy", True)])
def test_fast_differs_from_exact_by_less_than_half_a_grey_level(task, distraction, dynamic, make):
    fast, exact = (make(task, distraction, dynamic=dynamic, renderer=mode, frame_stack=1) for mode in ("fast", "exact"))
    differences = []
    for seed in range(2):
        frames = [env.reset(seed=seed)[0].astype(int) for env in (fast, exact)]
        for _ in range(4):
            differences.append(np.abs(frames[0] - frames[1]).mean())
            action = fast.action_space.sample()
            frames = [env.step(action)[0].astype(int) for env in (fast, exact)]
    assert 0 < np.mean(differences) <= 0.5


def test_the_sky_alone_is_nearly_exact_in_fast_mode(make):
    fast, exact = (make("reacher-easy", "background", renderer=mode, frame_stack=1) for mode in ("fast", "exact"))
    a, b = fast.reset(seed=0)[0].astype(int), exact.reset(seed=0)[0].astype(int)
    margin = np.s_[:, :10, :]  # above reacher's arena there is nothing but sky
    assert np.abs(a[margin] - b[margin]).mean() < 0.3


def test_dm_controls_own_render_still_works_between_ours(make):
    env = make("cartpole-swingup", frame_stack=1)
    env.reset(seed=0)
    physics = env.unwrapped.physics
    before = physics.render(84, 84, camera_id=0)
    ours = env.unwrapped._renderer.render(env.unwrapped.scene.data)
    np.testing.assert_array_equal(physics.render(84, 84, camera_id=0), before)
    np.testing.assert_array_equal(env.unwrapped._renderer.render(env.unwrapped.scene.data), ours)
    other = make("walker-walk")  # making and closing a context must not disturb either
    other.close()
    np.testing.assert_array_equal(physics.render(84, 84, camera_id=0), before)


def test_an_environment_can_move_to_another_thread(make):
    env, alone = make("cartpole-swingup", "easy"), make("cartpole-swingup", "easy")
    env.reset(seed=0)
    alone.reset(seed=0)
    action = np.array([0.5], np.float32)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(env.step(action)[0]))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(seen[0], alone.step(action)[0])


def test_the_models_own_quality_settings_are_left_alone(make):
    env = make("walker-walk")
    vis = env.unwrapped.scene.model.vis
    assert (vis.quality.shadowsize, vis.quality.numslices, vis.global_.offwidth) == (2048, 28, 640)


def test_a_closed_environment_says_so_and_closing_twice_is_fine(make):
    env = make("cartpole-swingup")
    env.reset(seed=0)
    renderer: Renderer = env.unwrapped._renderer
    data = env.unwrapped.scene.data
    env.close()
    env.close()
    assert renderer.closed
    with pytest.raises(CBMError, match="closed"):
        renderer.render(data)


def test_memory_stays_flat_over_many_environments():
    process = psutil.Process()

    def make_step_close(number: int) -> None:
        for index in range(number):
            env = make_env(PAPER_TASKS[index % 6], "easy", num_videos=1)
            env.reset(seed=0)
            env.step(env.action_space.sample())
            env.close()

    make_step_close(12)
    before = process.memory_info().rss
    make_step_close(24)
    assert process.memory_info().rss - before < 50 * 2**20


@pytest.mark.parametrize("backend", ["egl", "osmesa"])
def test_no_word_at_exit_even_when_nothing_was_closed(backend, python):
    done = python(
        "import weakref, cbm\n"
        "class Thing: ...\n"
        "thing = Thing(); weakref.finalize(thing, print, end='')\n"  # its exit handler is registered before ours
        "env = cbm.make_env('cheetah-run', 'easy'); env.reset(seed=0)\n"
        "print(env.step(env.action_space.sample())[1] >= 0)",
        MUJOCO_GL=backend,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "True", "")


def test_egl_and_osmesa_draw_the_same_pixels(python):
    script = (
        "import cbm, hashlib\n"
        "env = cbm.make_env('finger-spin', 'easy', dynamic=True); env.reset(seed=0)\n"
        "print(hashlib.sha256(env.step(env.action_space.low)[0].tobytes()).hexdigest())"
    )
    one, two = python(script, MUJOCO_GL="egl"), python(script, MUJOCO_GL="osmesa")
    assert len(one.stdout.strip()) == 64, one.stderr
    assert one.stdout == two.stdout


@pytest.mark.parametrize(
    ("backend", "message"), [("elg", "Did you mean 'egl'"), ("off", "turns rendering off"), ("wgl", "Choose from: egl")]
)
def test_a_bad_backend_is_named(backend, message, python):
    done = python("import cbm; cbm.make_env('cartpole-swingup')", MUJOCO_GL=backend)
    assert "CBMError" in done.stderr or "UnknownChoice" in done.stderr
    assert message in done.stderr


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="hiding the libraries needs root")
def test_without_gl_libraries_the_message_is_what_to_type(python, tmp_path):
    # The real thing: in a mount namespace of its own, an empty file lies over each library.
    hide = (
        "set -e; for f in $(ls /usr/lib/*/libEGL.so.1* /usr/lib/*/libEGL.so /usr/lib/*/libOSMesa.so* 2>/dev/null); do "
        f'mount --bind {tmp_path}/empty $f; done; exec "$@"'
    )
    (tmp_path / "empty").touch()
    done = python("import cbm; cbm.make_env('cartpole-swingup')", "unshare", "-m", "bash", "-c", hide, "hide")
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip("no mount namespaces here")
    assert "sudo apt-get install -y libegl1" in done.stderr
    doctor = python(
        "import sys; from cbm.cli import main; sys.exit(main(['doctor']))", "unshare", "-m", "bash", "-c", hide, "hide"
    )
    assert doctor.returncode == 1
    assert "sudo apt-get install -y libegl1" in doctor.stdout
    assert "Traceback" not in doctor.stdout + doctor.stderr


@pytest.mark.slow
def test_every_figure_of_the_suite_holds():
    failed = [row for row in rows() if not row.holds]
    assert not failed
