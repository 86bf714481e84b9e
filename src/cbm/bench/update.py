"""`cbm bench update`: one learning step beside a plain one, and what replay costs.

The plain reference does the same arithmetic as published implementations do it: eager, NCHW layout, shifts by grid
sampling of padded floats, one encoder pass over all images that keeps the graph of all of them (though only the
current ones receive a gradient), Adam without fusion. Losses, heads and sizes are ours. Each side has a process of its
own, because what a process does with freed memory is part of the difference; the two take turns. In a second pair ours
with convolutions in bfloat16 (`--mixed-precision`) is set against ours in 32 bits.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam

from cbm.agents import Setup, configs, make_agent
from cbm.agents.drq import DrQ
from cbm.agents.drqv2 import DrQv2
from cbm.agents.parts import td_loss
from cbm.bench import Row, alternate, speedup
from cbm.memory import keep_freed_memory
from cbm.ops import soft_update
from cbm.replay import Replay
from cbm.types import Batch

OBS_SHAPE = (9, 84, 84)
ACTION_DIM = 6  # the most of any task: cheetah and walker
SETUP = Setup(OBS_SHAPE, ACTION_DIM, action_repeat=4)
EPISODE = 250  # agent steps at action repeat 4, the middle of the paper's tasks
Kind = Literal["ours", "bfloat16", "plain"]
BFLOAT16_BAR = ">= 1.2"  # on processors that have it; others emulate it


def rows(quick: bool = False, report: Callable[[str], None] = lambda what: None) -> Iterator[Row]:
    """Every figure, at the paper's sizes. `quick` stores and repeats less, for tests."""
    stored, rounds, batch_size = (2_000, 1, 8) if quick else (200_000, 7, 128)
    with tempfile.TemporaryDirectory() as folder:
        report(f"storing {stored} steps")
        replay = filled_replay(Path(folder), stored)
        yield from replay_rows(replay, stored)
        replay.close()
    for name, bar in (("drqv2+cbm", ">= 4"), ("drq+cbm", ">= 3.5")):
        report(f"update of {name}")
        yield update_row(name, "ours", "plain", bar, rounds, batch_size)
    report("update in bfloat16")
    yield update_row("drqv2+cbm", "bfloat16", "ours", BFLOAT16_BAR, rounds, batch_size)


def update_row(name: str, kind: Kind, reference: Kind, bar: str, rounds: int, batch_size: int) -> Row:
    """An update of the agent `name` of one kind against another, in turns."""
    with Side(name, batch_size, kind) as own, Side(name, batch_size, reference) as other:
        seconds, reference_seconds = alternate(own, other, rounds=rounds, warmup=2)
    how = "" if kind == "ours" else f" in {kind}"
    return speedup(f"update of {name}{how}, batch {batch_size}, seconds", "all", seconds, reference_seconds, bar)


class Side:
    """A process that makes one update whenever it is called."""

    def __init__(self, name: str, batch_size: int, kind: Kind) -> None:
        context = get_context("spawn")
        self._link, link = context.Pipe()
        self._process = context.Process(target=_serve, args=(link, name, batch_size, kind), daemon=True)
        self._process.start()
        link.close()

    def __call__(self) -> None:
        self._link.send("update")
        self._link.recv()  # EOFError if the process died, which has then said why

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._link.close()
        self._process.join(timeout=10)
        self._process.kill()


def _serve(link: Connection, name: str, batch_size: int, kind: Kind) -> None:
    """The body of that process."""
    config = replace(configs(name)[0], batch_size=batch_size, mixed_precision=kind == "bfloat16")
    agent = make_agent(name, SETUP, config)
    with tempfile.TemporaryDirectory() as folder:
        replay = filled_replay(Path(folder), 2 * EPISODE)
        batch = agent.sample(replay, np.random.default_rng(0))
        replay.close()
    update: Callable[[], object] = partial(PlainUpdate(name).update, batch)
    if kind != "plain":
        update = partial(agent.update, batch, 0)
        keep_freed_memory()  # as `cbm train` does
    while True:
        try:
            link.recv()
        except EOFError:
            return
        update()
        link.send("done")


def replay_rows(replay: Replay, stored: int, draws: int = 50) -> list[Row]:
    """Milliseconds to sample a batch for `drqv2+cbm`, and bytes on disk per transition."""
    generator = np.random.default_rng(0)
    times = []
    for _ in range(draws):
        start = perf_counter()
        replay.sample(128, generator, n_step=3)
        times.append(perf_counter() - start)
    milliseconds = 1e3 * float(np.median(times))
    disk = sum(path.stat().st_blocks * 512 for path in replay.directory.iterdir()) / len(replay)
    return [
        Row(f"sampling 128 of {stored} steps, milliseconds", "all", milliseconds, None, None, "<= 10", milliseconds),
        Row(f"replay on disk, bytes a step, episodes of {EPISODE}", "all", disk, None, None, "<= 21300", disk),
    ]


def filled_replay(directory: Path, steps: int) -> Replay:
    """`steps` transitions of noise in whole episodes."""
    replay = Replay.create(directory, OBS_SHAPE, ACTION_DIM, capacity=steps + steps // EPISODE + 10)
    generator = np.random.default_rng(0)
    frames = generator.integers(0, 256, (64, *OBS_SHAPE), dtype=np.uint8)
    for step in range(steps):
        if step % EPISODE == 0:
            replay.add_first(frames[step % 64])
        action = generator.uniform(-1, 1, ACTION_DIM).astype(np.float32)
        truncated = step % EPISODE == EPISODE - 1
        replay.add(action, float(generator.random()), frames[step % 64], terminal=False, truncated=truncated)
    os.sync()
    return replay


class PlainUpdate:
    """The reference. Takes networks, losses and targets from one of our agents; encodes and steps by itself."""

    def __init__(self, name: str) -> None:
        agent = make_agent(name, SETUP)
        assert isinstance(agent, DrQ | DrQv2)
        assert agent.objective is not None
        self.agent, self.objective = agent, agent.objective
        self.copies = agent.config.shifts if isinstance(agent, DrQ) else 1
        self.convs = nn.Sequential(
            nn.Conv2d(9, 32, 3, 2), nn.ReLU(),
            nn.Conv2d(32, 32, 3, 1), nn.ReLU(),
            nn.Conv2d(32, 32, 3, 1), nn.ReLU(),
            nn.Conv2d(32, 32, 3, 1), nn.ReLU(),
        )  # fmt: skip
        self.projection = nn.Sequential(nn.Linear(39_200, 50), nn.LayerNorm(50), nn.Tanh())
        learned = [self.convs, self.projection, self.objective, agent.critic]
        self.optimizer = Adam([p for module in learned for p in module.parameters()], lr=5e-4)
        self.actor_optimizer = Adam(agent.actor.parameters(), lr=5e-4)

    def update(self, batch: Batch) -> None:
        agent, size = self.agent, len(batch.obs)
        if isinstance(agent, DrQ):
            images = [batch.obs] * self.copies + [batch.next_obs] * self.copies
        else:
            images = [batch.obs, batch.next_obs, batch.boot_obs]
        z = self.encode(grid_shift(torch.cat(images).float()))
        z_first = z[:size]
        z_now, z_next = z[: self.copies * size].detach(), z[self.copies * size :].detach()
        losses, _ = self.objective.losses(z_first, batch.action, batch.reward, z_next[:size], agent.actor.mean)
        if isinstance(agent, DrQ):
            target = agent.target(batch, z_next).repeat(self.copies, 1)
        else:
            target = agent.target(batch, z_next[size:], 1.0)
        losses["critic"] = td_loss(agent.critic(z_now, batch.action.repeat(self.copies, 1)), target)
        self.optimizer.zero_grad()
        torch.stack([agent.weights[name] * loss for name, loss in losses.items()]).sum().backward()
        self.optimizer.step()
        if agent.updates % agent.config.actor_every == 0:
            self.update_actor(z_first.detach())
        if agent.updates % agent.config.target_every == 0:
            soft_update(agent.target_critic.parameters(), agent.critic.parameters(), agent.config.target_rate)
        agent.updates += 1

    def encode(self, x: Tensor) -> Tensor:
        return self.projection(self.convs(x / 255.0 - 0.5).flatten(1))

    def update_actor(self, z: Tensor) -> None:
        agent = self.agent
        self.actor_optimizer.zero_grad()
        loss = agent.actor_loss(z)[0] if isinstance(agent, DrQ) else agent.actor_loss(z, 1.0)
        loss.backward()
        self.actor_optimizer.step()


def grid_shift(x: Tensor, pad: int = 4) -> Tensor:
    """Random shifts as DrQ-v2 makes them: replicate, then sample a moved grid of pixel centres."""
    batch, _, height, width = x.shape
    padded = F.pad(x, (pad,) * 4, "replicate")
    rows, columns = (torch.arange(n, dtype=x.dtype) for n in (height, width))
    shift = torch.randint(0, 2 * pad + 1, (2, batch, 1, 1)).to(x.dtype)
    y = (2 * (rows[:, None] + shift[0]) + 1) / (height + 2 * pad) - 1  # (B, H, 1), in [-1, 1] over the padded image
    x_ = (2 * (columns[None, :] + shift[1]) + 1) / (width + 2 * pad) - 1
    grid = torch.stack(torch.broadcast_tensors(x_, y), dim=-1)
    return F.grid_sample(padded, grid, padding_mode="zeros", align_corners=False)
