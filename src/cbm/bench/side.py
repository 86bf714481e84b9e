"""Updates to be timed, here or in a separate process.

What a process does with freed memory and with threads is part of the difference between two ways to make an update, so
each side of such a comparison has its own.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from cbm.agents import Setup, make_agent
from cbm.bench.plain import PlainUpdate
from cbm.config import RunConfig, make_config
from cbm.learning import threads
from cbm.learning.memory import keep_freed_memory
from cbm.replay import Replay
from cbm.system.cores import cores

PERIOD = 2  # updates in a call: actor and target have their turn in every second one
EPISODE = 250  # agent steps at action repeat 4, the middle of the paper's tasks
ACTION_DIM = 6  # the most of any task: cheetah and walker


class Updates:
    """Makes `PERIOD` updates of an agent on one batch whenever it is called; `plain`: as published code makes them."""

    def __init__(self, config: RunConfig, replay: Replay, action_dim: int, plain: bool = False) -> None:
        setup = Setup(obs_shape(config), action_dim, action_repeat=config.env.action_repeat or 1)
        self.agent = cast(Any, make_agent(config.agent_name, setup, config.agent, config.objective))
        self.agent.updates = getattr(config.agent, "model_first", 0)  # TPC trains its model alone before
        self._batch = self.agent.sample(replay, np.random.default_rng(0))
        self._update = PlainUpdate(self.agent).update if plain else partial(self.agent.update, env_step=0)

    def __call__(self) -> None:
        for _ in range(PERIOD):
            self._update(self._batch)


@dataclass(frozen=True)
class What:
    """Which updates a side makes."""

    plain: bool = False
    preset: str = "paper"
    threads: int | None = None  # None: one per core
    agent: str = "drqv2+cbm"
    mixed_precision: bool = False
    batch_size: int | None = None  # None: that of the preset


@contextmanager
def side(what: What) -> Iterator[Callable[[], None]]:
    """A process of its own that makes `PERIOD` updates whenever it is called."""
    with ProcessPoolExecutor(1, get_context("spawn"), _prepare, (what,)) as process:
        yield lambda: process.submit(_update).result()


_own: list[Updates] = []  # of the process of a side
_until_it_ends = ExitStack()


def _prepare(what: What) -> None:
    count = what.threads or cores()
    if what.plain:
        torch.set_num_threads(count)
    else:
        keep_freed_memory()  # as `cbm train` does
        _until_it_ends.enter_context(threads.use(count))
    config = make_config(what.agent, preset=what.preset)
    size = what.batch_size or config.agent.batch_size
    config = replace(config, agent=replace(config.agent, batch_size=size, mixed_precision=what.mixed_precision))
    with tempfile.TemporaryDirectory() as folder:
        replay = filled_replay(Path(folder), obs_shape(config), episodes=2)
        _own.append(Updates(config, replay, ACTION_DIM, what.plain))
        replay.close()


def _update() -> None:
    _own[0]()


def obs_shape(config: RunConfig) -> tuple[int, int, int]:
    return 3 * config.env.frame_stack, config.env.size, config.env.size


def filled_replay(
    directory: Path, obs_shape: tuple[int, int, int], episodes: int, length: int = EPISODE, action_dim: int = ACTION_DIM
) -> Replay:
    """Whole episodes of noise, `length` steps each."""
    replay = Replay.create(directory, obs_shape, action_dim, capacity=episodes * (length + 1) + 10)
    generator = np.random.default_rng(0)
    frames = generator.integers(0, 256, (64, *obs_shape), dtype=np.uint8)
    for _ in range(episodes):
        replay.add_first(frames[0])
        for step in range(1, length + 1):
            action = generator.uniform(-1, 1, action_dim).astype(np.float32)
            replay.add(action, float(generator.random()), frames[step % 64], terminal=False, truncated=step == length)
    os.sync()
    return replay
