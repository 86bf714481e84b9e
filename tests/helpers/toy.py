"""A pixel task that is learned in seconds: push a dot along a line onto a bar.

`--env toy:PixelDot-v0` with this folder on the path. The bar's place is drawn at each reset; the reward of a step is 1
on the bar and falls linearly with the distance. Acting at random gives about 13 of 20, going straight 19.6.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import tyro
from gymnasium.spaces import Box

if TYPE_CHECKING:
    from cbm.config import RunConfig

SIZE, LENGTH, REACH = 24, 20, 0.3


class PixelDot(gym.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - Gymnasium's own convention

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = Box(0, 255, (SIZE, SIZE, 3), np.uint8)
        self.action_space = Box(-2.0, 2.0, (1,), np.float32)  # not [-1, 1], so that the adapter has work to do

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.bar, self.dot = self.np_random.uniform(-1, 1, 2)
        self.steps = 0
        return self._image(), {"background": "none", "state": np.array([self.bar, self.dot])}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.dot = float(np.clip(self.dot + REACH * action[0] / 2.0, -1, 1))
        self.steps += 1
        reward = 1.0 - abs(self.dot - self.bar) / 2.0
        info = {"background": "none", "state": np.array([self.bar, self.dot])}
        return self._image(), reward, False, self.steps >= LENGTH, info

    def render(self) -> np.ndarray:
        return self._image().repeat(8, axis=0).repeat(8, axis=1)

    def _image(self) -> np.ndarray:
        image = np.full((SIZE, SIZE, 3), 30, np.uint8)
        column = round((self.bar + 1) / 2 * (SIZE - 4))
        image[:, column : column + 4, 1] = 160
        column = round((self.dot + 1) / 2 * (SIZE - 4))
        image[10:14, column : column + 4, 0] = 255
        return image


class WavyDot(PixelDot):
    """The same in front of coloured waves that move: in each episode others. They paint only what was empty."""

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        rng = np.random.default_rng(seed)
        self.length, self.phase = rng.uniform(-1, 1, (2, 3)), rng.uniform(0, 2 * np.pi, 3)  # of a colour: per pixel
        self.speed = rng.uniform(-1, 1, 3)
        return super().reset(seed=seed, options=options)

    def _image(self) -> np.ndarray:
        image = super()._image()
        y, x = np.indices((SIZE, SIZE))[:, :, :, None]
        waves = 100 + 90 * np.sin(self.length[0] * x + self.length[1] * y + self.phase + self.speed * self.steps)
        return np.where((image == 30).all(axis=2, keepdims=True), waves.astype(np.uint8), image)


gym.register("PixelDot-v0", entry_point="toy:PixelDot", max_episode_steps=None)
gym.register("WavyDot-v0", entry_point="toy:WavyDot", max_episode_steps=None)


# Sizes at which a run takes seconds. One thread: these networks are too small to share.
TINY = {
    "env.size": 24,
    "env.action_repeat": 2,
    "agent.hidden_dim": 32,
    "agent.batch_size": 16,
    "agent.conv_channels": 8,
    "training.total_steps": 800,
    "training.seed_steps": 100,
    "training.eval_every": 400,
    "training.eval_episodes": 2,
    "training.eval_workers": 0,  # a process more would spend most of the time importing PyTorch
    "training.log_every": 50,
    "training.checkpoint_every": 150,
    "training.analyze_every": 0,  # importing scikit-learn takes longer than the run
    "training.threads": 1,
    "training.replay_capacity": 5_000,
}


def tiny_options(agent: str = "drqv2+cbm", **changes: Any) -> list[str]:
    """`cbm train` on the toy task, as words of a command line. `training__log_every=5` changes one setting."""
    values = TINY | ({"objective.prototypes": 8} if agent.endswith("+cbm") else {})
    values |= {name.replace("__", "."): value for name, value in changes.items()}
    options = ["--env", "toy:PixelDot-v0", "--agent", agent]
    return options + [word for name, value in values.items() for word in (f"--{name}", str(value))]


def tiny(agent: str = "drqv2", **changes: Any) -> RunConfig:
    """The configuration that `cbm train` makes of these options."""
    from cbm.cli.train import TrainArgs, expand_overrides, run_config

    return run_config(tyro.cli(TrainArgs, args=expand_overrides(tiny_options(agent, **changes))))


def cbm(*words: str | Path, **options: Any) -> subprocess.Popen[str]:
    """`cbm` in a process of its own, which may import this module for a run."""
    trust = ["--trust", "toy"] if words[0] in ("eval", "record", "analyze") or "--resume" in words else []
    command = [sys.executable, "-m", "cbm.cli", *map(str, words), *trust]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": with_toy()}
    return subprocess.Popen(command, **(pipes | options))


def with_toy() -> dict[str, str]:
    """The environment of a process that can import this module."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])}


def finished_run() -> Path:
    """A complete tiny run, trained once for all tests of a process that only read it."""
    return _trained(*tiny_options(training__analyze_every=400))


def finished_suite_run() -> Path:
    """The same on cartpole under `easy`, with episodes of ten agent steps."""
    short = tiny_options(env__action_repeat=8, env__task_kwargs="time_limit=0.8", training__film="false")
    return _trained(*short[2:], "--task", "cartpole-swingup", "--distraction", "easy")  # without --env


@functools.cache
def _trained(*options: str) -> Path:
    folder = tempfile.mkdtemp(prefix="cbm-toy-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    process = cbm("train", *options, "--out", out := Path(folder) / "run")
    output = process.communicate(timeout=600)[0]
    assert process.returncode == 0, output
    return out
