"""Image augmentation on uint8 observations."""

from __future__ import annotations

import torch
from torch import Tensor


def random_shift(obs: Tensor, generator: torch.Generator, pad: int = 4) -> Tensor:
    """Each image (B, C, H, W) shifted by its own whole number of pixels, at most `pad` each way; borders repeat.

    The same as padding by replication and cropping at random (DrQ), by one gather of bytes: nothing is padded,
    interpolated or converted. `generator` lives on the device of `obs`.
    """
    batch, channels, height, width = obs.shape
    shift = torch.randint(-pad, pad + 1, (2, batch, 1), generator=generator, device=obs.device)
    return _shift(obs, shift[0], shift[1]).view(batch, channels, height, width)


def _shift(obs: Tensor, down: Tensor, right: Tensor) -> Tensor:
    batch, channels, height, width = obs.shape
    rows = (torch.arange(height, device=obs.device) + down).clamp(0, height - 1)  # (B, H)
    columns = (torch.arange(width, device=obs.device) + right).clamp(0, width - 1)  # (B, W)
    pixels = (rows[:, :, None] * width + columns[:, None, :]).view(batch, 1, height * width)
    return obs.flatten(2).gather(2, pixels.expand(batch, channels, height * width))
