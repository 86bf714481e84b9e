"""One side of a comparison, in a separate process that makes updates when called; and processes that disturb it.

How a process handles freed memory and threads is part of the difference, so each side has its own process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from cbm.agents import Setup, make_agent
from cbm.bench.plain import PlainUpdate
from cbm.config import make_config
from cbm.learning import chunks, linear, threads
from cbm.learning.memory import keep_freed_memory
from cbm.replay import Replay
from cbm.system.cores import cores

PERIOD = 2  # updates per call: actor and target are updated in every second one
EPISODE = 250  # agent steps at action repeat 4, the middle one of the paper's tasks
ACTION_DIM = 6  # the most of any task in the paper: cheetah and walker
_PRODUCT = 2048  # rows and columns of the matrices whose product shows what the machine can do
_COMPUTE = """
import torch
torch.set_num_threads(1)
a = torch.randn(512, 512)
print(flush=True)
while True:
    b = a @ a
"""


@dataclass(frozen=True)
class Load:
    """`ours`; `shared`: PyTorch's own threads share every operation, as ours did before chunks; `plain`: as in
    published code; `product`: not an update but a large matrix product, shared by PyTorch's threads."""

    kind: Literal["ours", "shared", "plain", "product"] = "ours"
    preset: str = "paper"
    threads: int | None = None  # None: one per core
    agent: str = "drqv2+cbm"
    mixed_precision: bool = False
    batch_size: int | None = None  # None: that of the preset
    action_dim: int = ACTION_DIM


class Update:
    """`PERIOD` updates of an agent on one batch of noise, whenever it is called."""

    def __init__(self, what: Load) -> None:
        changes: dict[str, object] = {"agent.mixed_precision": what.mixed_precision}
        if what.batch_size is not None:
            changes["agent.batch_size"] = what.batch_size
        config = make_config(what.agent, preset=what.preset, overrides=changes)
        env = config.env
        setup = Setup((3 * env.frame_stack, env.size, env.size), what.action_dim, action_repeat=4)
        self.agent = cast(Any, make_agent(what.agent, setup, config.agent, config.objective))
        self.agent.updates = config.agent.first_updates  # before that, TPC trains only its model
        self.learner = PlainUpdate(self.agent) if what.kind == "plain" else self.agent
        with tempfile.TemporaryDirectory() as folder:
            replay = filled_replay(Path(folder), setup.obs_shape, 2, what.action_dim)
            self.batch = self.agent.sample(replay, np.random.default_rng(0))
            replay.close()

    def __call__(self) -> None:
        for _ in range(PERIOD):
            self.learner.update(self.batch, 0)


class Side(AbstractContextManager["Side"]):
    """A process that makes `PERIOD` updates whenever it is called."""

    def __init__(self, what: Load) -> None:
        context = get_context("spawn")
        self._link, link = context.Pipe()
        self._process = context.Process(target=_serve, args=(link, what), daemon=True)
        self._process.start()
        link.close()

    @cached_property
    def operations(self) -> float:
        """Operations of one call, in products and convolutions. Waits until the process is ready; sides that are made
        together start in parallel."""
        return self._link.recv()

    def __call__(self) -> None:
        _ = self.operations
        self._link.send("update")
        self._link.recv()  # EOFError if the process died; it has then printed why

    def __exit__(self, *error: object) -> None:
        self._link.close()
        self._process.join(timeout=10)
        self._process.kill()


class Competitor:
    """A process that multiplies matrices without end, on one thread, at `nice` steps lower priority, while entered."""

    def __init__(self, nice: int) -> None:
        command = [sys.executable, "-c", _COMPUTE]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=lambda: os.nice(nice))
        assert self._process.stdout is not None
        self._process.stdout.readline()  # wait until it computes
        self.pid = self._process.pid
        self._stop()

    def __enter__(self) -> Self:
        self._process.send_signal(signal.SIGCONT)
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()

    def _stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)  # until it has stopped

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _serve(link: Connection, what: Load) -> None:
    """The body of a side's process."""
    if what.kind != "plain":
        keep_freed_memory()  # as `cbm train` does
    if what.kind in ("shared", "plain"):
        linear.AVAILABLE = False
    if what.kind == "shared":
        chunks.SIZE = 64  # what one operation took at a time back then
    update = _product() if what.kind == "product" else Update(what)
    operations = operations_of(update)
    count = what.threads or cores()
    torch.set_num_threads(count)
    with suppress(EOFError), threads.use(count) if what.kind == "ours" else nullcontext():  # until the link is closed
        link.send(operations)
        while True:
            link.recv()
            update()
            link.send("done")


def operations_of(call: Callable[[], object]) -> int:
    """Of a call's products and convolutions. Outside the pool, because the counter sees only one thread."""
    ours = {torch.ops.mkldnn._linear_pointwise: _of_linear} if linear.AVAILABLE else {}
    with FlopCounterMode(display=False, custom_mapping=ours) as counter:
        call()
    return counter.get_total_flops()


def _of_linear(a: torch.Size, b: torch.Size, *others: object, **named: object) -> int:
    """a (N, I) times the transpose of b (O, I)."""
    return 2 * a.numel() * b[0]


def _product() -> Callable[[], object]:
    a, b = torch.randn(2, _PRODUCT, _PRODUCT)
    return lambda: a @ b


def filled_replay(
    directory: Path, obs_shape: tuple[int, int, int], episodes: int, action_dim: int = ACTION_DIM
) -> Replay:
    """Whole episodes of noise, `EPISODE` steps each."""
    replay = Replay.create(directory, obs_shape, action_dim, capacity=episodes * (EPISODE + 1) + 10)
    generator = np.random.default_rng(0)
    frames = generator.integers(0, 256, (64, *obs_shape), dtype=np.uint8)
    for _ in range(episodes):
        replay.add_first(frames[0])
        for step in range(1, EPISODE + 1):
            action = generator.uniform(-1, 1, action_dim).astype(np.float32)
            replay.add(action, float(generator.random()), frames[step % 64], terminal=False, truncated=step == EPISODE)
    os.sync()
    return replay
