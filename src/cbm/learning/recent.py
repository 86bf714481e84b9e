"""Latents of recent batches, from which critic and actor learn more without another image being encoded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor


class Latents(NamedTuple):
    """B transitions as critic and actor see them. No gradient leads back to the encoder."""

    z: Tensor  # (B, D)
    action: Tensor
    n_step_reward: Tensor
    n_step_discount: Tensor
    z_boot: Tensor  # of `boot_obs`


class Recent:
    """The latents of the last `batches` batches, which are all of the same size."""

    def __init__(self, batches: int) -> None:
        self._batches: deque[Latents] = deque(maxlen=batches)

    def add(self, latents: Latents) -> None:
        self._batches.append(latents)

    def draw(self, size: int, times: int, generator: torch.Generator) -> Iterator[Latents]:
        """`times` batches of `size` transitions, uniformly and with replacement; none before the first `add`."""
        if not self._batches:
            return
        columns = [torch.cat(column) for column in zip(*self._batches, strict=True)]
        for _ in range(times):
            rows = torch.randint(len(columns[0]), (size,), generator=generator, device=columns[0].device)
            yield Latents(*(column[rows] for column in columns))

    def state_dict(self) -> dict[str, Tensor]:
        columns = map(torch.stack, zip(*self._batches, strict=True))  # none before the first batch
        return dict(zip(Latents._fields, columns, strict=False))

    def load_state_dict(self, state: Mapping[str, Tensor], device: torch.device) -> None:
        self._batches.clear()
        columns = [state[name].to(device) for name in Latents._fields if name in state]
        self._batches.extend(Latents(*batch) for batch in zip(*columns, strict=True))
