"""What stops a run, and what it says then. The failures are real ones."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from cbm.config.build import make_run_agent
from cbm.envs.adapt import NotPixels, PixelTask, adapt
from cbm.errors import CBMError
from cbm.runs.checkpoint import load_newest
from cbm.runs.directory import RunDir, RunInUse
from cbm.training import loop
from cbm.training.logs import NotFinite
from cbm.training.stepper import Stepper
from same_run import assert_same_run
from toy import cbm, finished_run, tiny, tiny_options


def test_a_loss_that_is_not_finite_stops_and_leaves_the_good_checkpoint(tmp_path: Path) -> None:
    config = tiny(agent__lr=1e30, training__checkpoint_every=40, training__eval_every=10_000)
    with pytest.raises(NotFinite, match=r"loss/\w+.* not finite at environment step 1\d\d\. The checkpoint at 80 is"):
        loop.train(config, tmp_path / "run", quiet=True)
    found = load_newest(tmp_path / "run" / "checkpoint")
    assert found is not None
    assert found[0] == 80
    assert all(weights.isfinite().all() for weights in found[1]["agent"]["modules"]["critic"].values())


def test_a_second_process_and_a_second_run_are_refused(tmp_path: Path) -> None:
    with (
        RunDir(tmp_path / "run").locked(),
        pytest.raises(RunInUse, match=f"in use by process {os.getpid()}"),
    ):
        loop.train(tiny(), tmp_path / "run", quiet=True)
    with pytest.raises(CBMError, match=f"already holds a run. .*cbm train --resume {finished_run()}"):
        loop.train(tiny(), finished_run(), quiet=True)
    (tmp_path / "notes").touch()
    with pytest.raises(CBMError, match="notes is a file"):
        loop.train(tiny(), tmp_path / "notes", quiet=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of a few megabytes."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_full_disk_stops_cleanly_and_the_run_goes_on_when_there_is_space(small_disk: Path) -> None:
    run = small_disk / "run"
    process = cbm("train", *tiny_options(training__analyze_every=400), "--out", run)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 1, output
    assert f"the disk of {run} is full" in output
    assert f"cbm train --resume {run}" in output
    assert "Traceback" not in output
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    process = cbm("train", "--resume", run)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 0, output
    assert_same_run(run, finished_run())


def test_a_file_limit_is_explained_too(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))

    process = cbm("train", *tiny_options(), "--out", tmp_path / "run", preexec_fn=limit)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 1, output
    assert f"the disk of {tmp_path / 'run'} does not allow larger files" in output


def test_a_picture_that_differs_on_resume_is_a_warning() -> None:
    first, again = Stepper(tiny()), Stepper(tiny())
    for stepper in (first, again):
        stepper.act_for(make_run_agent(tiny(), stepper.shapes))
    first.begin(4)
    steps = [first.take(0) for _ in range(3)]
    actions, frame, state = np.stack([step.action for step in steps]), steps[-1].frame, first.state()
    again.restore(state, 4, actions, frame)
    for _ in range(7):
        ours, theirs = again.take(0), first.take(0)
        assert np.array_equal(ours.action, theirs.action)
        assert np.array_equal(ours.frame, theirs.frame)
    assert theirs.ended is not None
    assert ours.ended == theirs.ended
    with pytest.warns(UserWarning, match="not deterministic"):
        again.restore(state, 4, actions, frame + 1)


@pytest.mark.parametrize("missing", ["torch", "safetensors", "tensorboard"])
def test_missing_extras_say_what_to_install(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from cbm.cli.train import _require_extras as r; r()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f'training needs {missing}: pip install "cbm-rl[train]"' in result.stderr


def test_options_beside_resume_are_refused() -> None:
    process = cbm("train", "--resume", finished_run(), "--agent.lr", "1")
    assert "--agent.lr cannot be combined with --resume" in process.communicate(timeout=60)[0]
    assert process.returncode == 1


def test_a_gpu_that_is_not_there_is_said(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(CBMError, match="finds no GPU here"):
        loop.train(tiny(training__device="cuda"), tmp_path / "run", quiet=True)


class Odd(gym.Env):
    """An environment with any spaces."""

    def __init__(self, obs: gym.Space, action: gym.Space) -> None:
        self.observation_space, self.action_space = obs, action

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        return self.observation_space.sample(), float(action[0]), False, False, {}


def image(*shape: int) -> gym.spaces.Box:
    return gym.spaces.Box(0, 255, shape, np.uint8)


@pytest.mark.parametrize("shape", [(30, 40), (30, 40, 1), (30, 40, 3), (1, 30, 40), (3, 30, 40), (16, 16, 3)])
def test_any_layout_of_images_becomes_ours(shape: tuple[int, ...]) -> None:
    env = PixelTask(Odd(image(*shape), gym.spaces.Box(-2.0, 4.0, (1,))), 16, 2, 3)
    obs, _ = env.reset(seed=0)
    assert (obs.shape, obs.dtype) == ((6, 16, 16), np.uint8)
    assert np.array_equal(obs[:3], obs[3:])  # the first frame is repeated
    rewards = [env.step(np.array([a], np.float32))[1] for a in (-1, 0, 1, 5)]
    assert rewards == [-6, 3, 12, 12]  # scaled from [-1, 1] to [-2, 4], three times; beyond the bounds, the bound


@pytest.mark.parametrize(
    ("obs", "action", "message"),
    [
        (gym.spaces.Box(-1, 1, (4,)), gym.spaces.Box(-1, 1, (1,)), "observations must be uint8 images"),
        (image(8, 8, 4), gym.spaces.Box(-1, 1, (1,)), "observations must be uint8 images"),
        (gym.spaces.Dict({"x": image(8, 8, 3)}), gym.spaces.Box(-1, 1, (1,)), "observations must be uint8 images"),
        (image(8, 8, 3), gym.spaces.Discrete(3), "actions must be a Box"),
        (image(8, 8, 3), gym.spaces.Box(-np.inf, np.inf, (1,)), "no finite bounds"),
    ],
)
def test_other_spaces_are_refused_by_name(obs: gym.Space, action: gym.Space, message: str) -> None:
    with pytest.raises(NotPixels, match=f"Odd: .*{message}"):
        PixelTask(Odd(obs, action), 84, 3, 1)


@pytest.mark.parametrize("env_id", ["nosuchmodule:X-v0", "toy:Nope-v0"])
def test_an_environment_that_is_not_there_is_said(env_id: str) -> None:
    with pytest.raises(CBMError, match=f"--env {env_id}"):
        adapt(env_id, 84, 3, 1)


def test_ctrl_c_again_and_again_ends_without_a_traceback(tmp_path: Path) -> None:
    process = cbm(
        "train", *tiny_options(training__total_steps=100_000, training__film=False), "--out", tmp_path / "run"
    )
    while not (tmp_path / "run" / "metrics.jsonl").exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 128 + signal.SIGINT, output
    assert "Traceback" not in output
