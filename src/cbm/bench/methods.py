"""`cbm bench methods`: what one `laptop` update of every method costs, compared with what its arithmetic predicts.

Each method and `drqv2+cbm` take turns. The prediction is the time of `drqv2+cbm` times the ratio of the two methods'
floating-point operations, as PyTorch counts them in convolutions and matrix products, forward and backward.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from cbm.agents import Setup, agent_names, make_agent
from cbm.agents.tpc.networks import FrameEncoder
from cbm.bench import Row, alternate, cost
from cbm.bench.side import filled_replay
from cbm.config import make_config
from cbm.config.build import thread_count
from cbm.config.comparison import REFERENCE
from cbm.learning import threads
from cbm.learning.memory import keep_freed_memory
from cbm.learning.nets import Convolutions
from cbm.replay import Replay
from cbm.system.child import PYTHON, environment

TASK = "cartpole-swingup"
EPISODE = 125  # agent steps
PERIOD = 2  # updates after which every part of every method, except TPC's target, was updated
_IN_A_PROCESS = "import sys; from cbm.bench.methods import print_memory; print_memory(sys.argv[1])"


class Effort(NamedTuple):
    """What one update does, as a mean over `PERIOD` of them."""

    operations: float
    encoded: float  # images that went through an encoder
    with_gradient: float  # how many of them received a gradient


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
    arithmetic = own.effort.operations / reference.effort.operations
    with threads.use(thread_count(None)):  # after `Effort` was counted, because the counter sees only one thread
        seconds, reference_seconds = (t / PERIOD for t in alternate(own, reference, rounds=rounds, warmup=2))
    predicted = reference_seconds * arithmetic
    details = {
        "gflop": own.effort.operations / 1e9,
        "images_encoded": own.effort.encoded,
        "images_with_gradient": own.effort.with_gradient,
        "memory_mb": megabytes,
        "seconds_of_drqv2_cbm": reference_seconds,
    }
    return cost(f"update of {name}, seconds", TASK, seconds, predicted, "<= 1.3", details)


class Update:
    """`PERIOD` updates of a method on one batch."""

    def __init__(self, name: str, replay: Replay) -> None:
        config = make_config(name, preset="laptop")
        setup = Setup(_shape(), 1, action_repeat=config.env.action_repeat or 1)
        self.agent = cast(Any, make_agent(name, setup, config.agent, config.objective))
        self.agent.updates = config.agent.first_updates  # before that, TPC trains only its model
        self.batch = self.agent.sample(replay, np.random.default_rng(0))
        self.effort = self._count()

    def __call__(self) -> None:
        for _ in range(PERIOD):
            self.agent.update(self.batch, 0)

    def _count(self) -> Effort:
        seen = {True: 0, False: 0}

        def count(module: torch.nn.Module, inputs: tuple[Tensor, ...]) -> None:
            with_gradient = torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters())
            seen[with_gradient] += len(inputs[0])

        parts = {id(part): part for module in self.agent.modules.values() for part in module.modules()}
        convs: list[torch.nn.Module] = [part for part in parts.values() if isinstance(part, Convolutions)]
        convs += [part.convs[-1] for part in parts.values() if isinstance(part, FrameEncoder)]
        hooks = [module.register_forward_pre_hook(count) for module in convs]
        with FlopCounterMode(display=False) as counter:
            self()
        for hook in hooks:
            hook.remove()
        return Effort(counter.get_total_flops() / PERIOD, sum(seen.values()) / PERIOD, seen[True] / PERIOD)


def memory(name: str) -> float:
    """Megabytes by which a new process grows at its peak when it updates `name`: weights, optimizers, graph."""
    command = [*PYTHON, "-c", _IN_A_PROCESS, name]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=environment()).stdout)


def print_memory(name: str) -> None:
    """The body of that process."""
    with tempfile.TemporaryDirectory() as folder:
        replay = episodes_of_noise(Path(folder))
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak, which is inherited from the parent process
        before = peak_megabytes()
        update = Update(name, replay)
        for _ in range(3):
            update()
        print(peak_megabytes() - before)
        replay.close()


def peak_megabytes() -> float:
    """The peak resident memory of this process (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(kilobytes) / 1024


def episodes_of_noise(directory: Path, episodes: int = 16) -> Replay:
    return filled_replay(directory, _shape(), episodes, EPISODE, action_dim=1)


def _shape() -> tuple[int, int, int]:
    env = make_config(REFERENCE, preset="laptop").env
    return 3 * env.frame_stack, env.size, env.size
