"""Latents of recent batches, from which critic and actor learn more without another image being encoded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from cbm.learning import threads
from cbm.learning.linear import MLP
from cbm.learning.nets import Critic


class Latents(NamedTuple):
    """B transitions as critic and actor see them. No gradient leads back to the encoder."""

    z: Tensor  # (B, D)
    action: Tensor
    n_step_reward: Tensor
    n_step_discount: Tensor
    z_boot: Tensor  # of `boot_obs`


def fit_critic(critic: Critic, latents: Latents, target: Tensor) -> None:
    """Give the parameters of both critics the gradients of their mean squared errors; on two threads, if there are."""
    inputs = torch.cat([latents.z, latents.action], dim=-1)

    def fit(q: MLP) -> None:
        parameters = q.weights
        found = torch.autograd.grad(F.mse_loss(q(inputs), target), parameters)
        for parameter, gradient in zip(parameters, found, strict=True):
            parameter.grad = gradient

    pieces = [partial(fit, q) for q in (critic.q1, critic.q2)]
    if inputs.device.type == "cpu":
        threads.run(pieces)
    else:
        for piece in pieces:
            piece()


class Recent:
    """The latents of the last `batches` batches, which are all of the same size."""

    def __init__(self, batches: int) -> None:
        self._batches: deque[Latents] = deque(maxlen=batches)

    def add(self, latents: Latents) -> None:
        self._batches.append(latents)

    def draw(self, size: int, times: int, generator: torch.Generator) -> Iterator[Latents]:
        """`times` batches of `size` transitions, uniformly and with replacement."""
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
