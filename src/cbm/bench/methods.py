"""`cbm bench methods`: what one `laptop` update of every method costs, compared with what its arithmetic predicts.

Each method and `drqv2+cbm` take turns. The prediction is the time of `drqv2+cbm` times the ratio of the two methods'
floating-point operations, as PyTorch counts them in convolutions and matrix products, forward and backward.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from cbm.agents import agent_names
from cbm.agents.tpc.encoder import FrameEncoder
from cbm.bench import Row, alternate
from cbm.bench.side import PERIOD, Updates, filled_replay, obs_shape
from cbm.config import make_config
from cbm.config.build import thread_count
from cbm.config.comparison import REFERENCE
from cbm.learning import threads
from cbm.learning.memory import keep_freed_memory
from cbm.learning.nets import Encoder
from cbm.replay import Replay

TASK = "cartpole-swingup"
EPISODE = 125  # agent steps


class Work(NamedTuple):
    """What one update does, as a mean over `PERIOD` of them."""

    operations: float
    encoded: float  # images that went through an encoder
    with_gradient: float  # those of them that a gradient came back through


def rows(quick: bool = False, report: Callable[[str], None] = lambda what: None) -> Iterator[Row]:
    """A row for every method. `quick` repeats less, for tests."""
    rounds = 1 if quick else 15
    keep_freed_memory()  # as `cbm train` does
    with tempfile.TemporaryDirectory() as folder:
        replay = episodes_of_noise(Path(folder))
        reference = Update(REFERENCE, replay)
        for name in agent_names():
            report(name)
            yield method_row(name, replay, reference, rounds, None if quick else memory(name))
        replay.close()


def method_row(name: str, replay: Replay, reference: Update, rounds: int, megabytes: float | None) -> Row:
    own = Update(name, replay)
    arithmetic = own.work.operations / reference.work.operations
    with threads.use(thread_count(None)):  # after `Work` was counted, because the counter sees one thread
        seconds, reference_seconds = (t / PERIOD for t in alternate(own, reference, rounds=rounds, warmup=2))
    predicted = reference_seconds * arithmetic
    details = {
        "gflop": own.work.operations / 1e9,
        "images_encoded": own.work.encoded,
        "images_with_gradient": own.work.with_gradient,
        "memory_mb": megabytes,
        "seconds_of_drqv2_cbm": reference_seconds,
    }
    ratio = seconds / predicted
    return Row(f"update of {name}, seconds", TASK, seconds, predicted, ratio, "<= 1.3", ratio, details)


class Update(Updates):
    """The updates of a method, and their `work`."""

    def __init__(self, name: str, replay: Replay) -> None:
        super().__init__(make_config(name, preset="laptop"), replay, action_dim=1)
        seen = {True: 0, False: 0}

        def count(module: torch.nn.Module, inputs: tuple[Tensor, ...]) -> None:
            with_gradient = torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters())
            seen[with_gradient] += len(inputs[0])

        parts = {id(part): part for module in self.agent.modules.values() for part in module.modules()}
        encoders = [part for part in parts.values() if isinstance(part, (Encoder, FrameEncoder))]
        hooks = [encoder.convs[-1].register_forward_pre_hook(count) for encoder in encoders]
        with FlopCounterMode(display=False) as counter:
            self()
        for hook in hooks:
            hook.remove()
        self.work = Work(counter.get_total_flops() / PERIOD, sum(seen.values()) / PERIOD, seen[True] / PERIOD)


def memory(name: str) -> float:
    """Megabytes by which updates of `name` make a process of its own grow, at the most: weights, optimizers, graph."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(grown_megabytes, name).result()


def grown_megabytes(name: str) -> float:
    """The same for this process."""
    with tempfile.TemporaryDirectory() as folder:
        replay = episodes_of_noise(Path(folder))
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak: it was that of the parent process
        before = peak_megabytes()
        update = Update(name, replay)
        for _ in range(3):
            update()
        grown = peak_megabytes() - before
        replay.close()
    return grown


def peak_megabytes() -> float:
    """The most memory that this process had resident (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(kilobytes) / 1024


def episodes_of_noise(directory: Path, episodes: int = 16) -> Replay:
    shape = obs_shape(make_config(REFERENCE, preset="laptop"))
    return filled_replay(directory, shape, episodes, EPISODE, action_dim=1)
