"""What a run records: JSON lines first, and also TensorBoard and wandb.

`metrics.jsonl`, `evals.jsonl` and `analysis.jsonl` hold only what the seed determines, so that two runs can be compared
byte for byte. Everything that depends on the clock goes to `timings.jsonl`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from cbm.errors import CBMError
from cbm.runs.directory import RunDir
from cbm.schema.tree import flatten
from cbm.system.files import make_folder
from cbm.system.jsonl import JsonLines
from cbm.types import Metrics


class NotFinite(CBMError):
    """A loss became NaN or infinite."""


class Logs:
    """The files of one run, opened for appending."""

    def __init__(self, run: RunDir, env_step: int, state: Mapping[str, Any] | None, wandb: Any = None) -> None:
        """Start over, or resume at `env_step` with the files as they were when `state()` returned `state`."""
        from torch.utils.tensorboard import SummaryWriter

        self.metrics, self.evals, self.analysis, self.timings = (
            JsonLines(path, run.root) for path in (run.metrics, run.evals, run.analysis, run.timings)
        )
        self._exact = {"metrics": self.metrics, "evals": self.evals, "analysis": self.analysis}
        for name, file in self._exact.items():
            file.go_back(None if state is None else state[name])
        # `purge_step` makes TensorBoard hide what an earlier process logged after this checkpoint.
        self._board = SummaryWriter(str(make_folder(run.tb, run.root)), purge_step=0 if state is None else env_step + 1)
        self._wandb = wandb or None

    def write(self, file: JsonLines, line: Mapping[str, Any]) -> None:
        """Append a line to one of the files, and send its numbers to TensorBoard and wandb."""
        file.append(line)
        numbers = {name: value for name, value in flatten(line, "/").items() if isinstance(value, int | float)}
        for name, value in numbers.items():
            if name != "env_step":
                self._board.add_scalar(name, value, line["env_step"])
        if self._wandb is not None:
            self._wandb.log(numbers, step=line["env_step"])

    def state(self) -> dict[str, Any]:
        return {name: file.state() for name, file in self._exact.items()}

    def sync(self) -> None:
        """Write everything to disk: a checkpoint is about to rely on it."""
        for file in self._exact.values():
            file.sync()
        self._board.flush()

    def close(self) -> None:
        for file in (*self._exact.values(), self.timings):
            file.close()
        self._board.close()
        if self._wandb is not None:
            self._wandb.finish()


def start_wandb(run: RunDir, config: dict[str, Any]) -> Any:
    """A wandb run that is resumed together with the run directory."""
    try:
        import wandb
    except ImportError as error:
        raise CBMError('--wandb needs the wandb package: pip install "cbm-rl[wandb]"') from error
    name = run.root.resolve().name
    make_folder(run.root / "wandb", run.root)
    return wandb.init(project="cbm", name=name, id=name, dir=run.root, config=config, resume="allow")


class Means:
    """Running means of the metrics of every update between two log lines; an error at the first that is not finite.

    Reading metrics from a GPU waits for it, so they are read only on request (`read`) or when many have piled up. Read
    before saving weights, so that none are saved after a loss that is not finite.
    """

    patience = 1_000  # updates whose metrics may stay unread on a GPU

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.counts: dict[str, int] = {}
        self._unread: list[tuple[int, list[str], torch.Tensor]] = []

    def __bool__(self) -> bool:
        return bool(self.sums or self._unread)

    def add(self, metrics: Metrics, env_step: int) -> None:
        values = torch.stack([value.detach().float().reshape(()) for value in metrics.values()])
        self._unread.append((env_step, list(metrics), values))
        if values.device.type == "cpu" or len(self._unread) >= self.patience:
            self.read()

    def read(self) -> None:
        """Count everything that was added, and check that it is finite."""
        while self._unread:
            env_step, names, values = self._unread.pop(0)
            numbers = dict(zip(names, values.tolist(), strict=True))
            bad = [name for name, value in numbers.items() if not math.isfinite(value)]
            if bad:
                raise NotFinite(f"{', '.join(bad)} is not finite at environment step {env_step:,}.")
            for name, value in numbers.items():
                self.sums[name] = self.sums.get(name, 0.0) + value
                self.counts[name] = self.counts.get(name, 0) + 1

    def take(self) -> dict[str, float]:
        """Return the means, and start over."""
        self.read()
        means = {name: total / self.counts[name] for name, total in self.sums.items()}
        self.sums, self.counts = {}, {}
        return means


class Stopwatch:
    """Wall-clock seconds by part of the loop, and in total."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._parts: dict[str, float] = {}

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(part, time.perf_counter() - start)

    def add(self, part: str, seconds: float) -> None:
        self._parts[part] = self._parts.get(part, 0.0) + seconds

    def seconds(self) -> dict[str, float]:
        return {"all": time.perf_counter() - self._start, **self._parts}
