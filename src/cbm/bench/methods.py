"""`cbm bench methods`: what one `laptop` update of every method costs, compared with what its arithmetic predicts.

Each method and `drqv2+cbm` take turns. The prediction is the time of `drqv2+cbm` times the ratio of the two methods'
floating-point operations, as PyTorch counts them in convolutions and matrix products, forward and backward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import Tensor

from cbm.agents import agent_names
from cbm.agents.tpc.networks import FrameEncoder
from cbm.bench import Row, alternate, cost
from cbm.bench.side import PERIOD, Load, Update, operations_of
from cbm.config.build import thread_count
from cbm.config.comparison import REFERENCE
from cbm.learning import threads
from cbm.learning.memory import keep_freed_memory
from cbm.learning.nets import Convolutions

TASK = "cartpole-swingup"


def rows(quick: bool = False, report: Callable[[str], None] = lambda what: None) -> Iterator[Row]:
    """A row for every method. `quick` repeats less, for tests."""
    rounds = 1 if quick else 15
    keep_freed_memory()  # as `cbm train` does
    reference = Method(REFERENCE)
    for name in agent_names():
        report(name)
        yield method_row(name, reference, rounds, None if quick else memory(name))


def method_row(name: str, reference: Method, rounds: int, megabytes: float | None) -> Row:
    own = Method(name)
    with threads.use(thread_count(None)):  # after operations were counted, because the counter sees only one thread
        seconds, reference_seconds = (t / PERIOD for t in alternate(own, reference, rounds=rounds, warmup=2))
    predicted = reference_seconds * own.operations / reference.operations
    details = {
        "gflop": own.operations / 1e9,
        "images_encoded": own.encoded,
        "images_with_gradient": own.with_gradient,
        "memory_mb": megabytes,
        "seconds_of_drqv2_cbm": reference_seconds,
    }
    return cost(f"update of {name}, seconds", TASK, seconds, predicted, "<= 1.3", details)


class Method(Update):
    """Updates of a method at the sizes of `laptop`, and what one of them does, as a mean over `PERIOD` of them."""

    def __init__(self, name: str) -> None:
        super().__init__(Load(preset="laptop", agent=name, action_dim=1))
        seen = {True: 0, False: 0}

        def count(module: torch.nn.Module, inputs: tuple[Tensor, ...]) -> None:
            with_gradient = torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters())
            seen[with_gradient] += len(inputs[0])

        parts = {id(part): part for module in self.agent.modules.values() for part in module.modules()}
        convs: list[torch.nn.Module] = [part for part in parts.values() if isinstance(part, Convolutions)]
        convs += [part.convs[-1] for part in parts.values() if isinstance(part, FrameEncoder)]
        hooks = [module.register_forward_pre_hook(count) for module in convs]
        operations = operations_of(self)
        for hook in hooks:
            hook.remove()
        self.operations = operations / PERIOD
        self.encoded = sum(seen.values()) / PERIOD  # images that went through an encoder
        self.with_gradient = seen[True] / PERIOD  # how many of them received a gradient


def memory(name: str) -> float:
    """Megabytes by which a new process grows at its peak when it updates `name`: weights, optimizers, graph."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(growth, (name,))


def growth(name: str) -> float:
    """The body of that process."""
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak, which is inherited from the parent process
    before = peak_megabytes()
    update = Method(name)
    for _ in range(3):
        update()
    return peak_megabytes() - before


def peak_megabytes() -> float:
    """The peak resident memory of this process (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(kilobytes) / 1024
