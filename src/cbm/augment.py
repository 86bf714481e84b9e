"""Image augmentation on uint8 observations. `generator` lives on the device of `obs`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from cbm.ops import channels_last

RGB = 3


def random_shift(obs: Tensor, generator: torch.Generator, pad: int = 4) -> Tensor:
    """Each image (B, C, H, W) shifted by its own whole number of pixels, at most `pad` each way; borders repeat.

    The same as padding by replication and cropping at random (DrQ), by one selection of pixels: nothing is padded,
    interpolated or converted. The result is in channels-last layout, as the encoder wants it.
    """
    shift = torch.randint(-pad, pad + 1, (2, len(obs), 1), generator=generator, device=obs.device)
    return _shift(obs, shift[0], shift[1])


def random_convolution(obs: Tensor, generator: torch.Generator) -> Tensor:
    """Each observation (B, 3 * stack, H, W) through its own 3x3 convolution with weights N(0, 1), then a sigmoid.

    All frames of a stack have the same weights; borders repeat. Floats between 0 and 255, channels-last (SVEA).
    """
    batch, channels = obs.shape[:2]
    weight = torch.randn(batch, RGB, RGB, 3, 3, generator=generator, device=obs.device)
    frames = torch.eye(channels // RGB, device=obs.device)[:, :, None, None]
    weight = torch.kron(frames, weight)  # (B, C, C, 3, 3): the same 3x3 convolution of each frame, none between frames
    x = F.pad(channels_last(obs) / 255.0, (1,) * 4, "replicate")
    # Image by image: on CPU a third faster than one convolution in groups, which wants another layout besides.
    x = torch.cat([F.conv2d(image, w) for image, w in zip(x.split(1), weight, strict=True)])
    return x.sigmoid_().mul_(255.0)


def random_overlay(obs: Tensor, images: Tensor, generator: torch.Generator, weight: float = 0.5) -> Tensor:
    """Each observation (B, 3 * stack, H, W) mixed with one of `images` (N, 3, H, W), which has this `weight`.

    All frames of a stack get the same image. Floats between 0 and 255 (SVEA).
    """
    drawn = torch.randint(len(images), (len(obs),), generator=generator, device=obs.device)
    image = images[drawn].repeat(1, obs.shape[1] // RGB, 1, 1)
    return (1.0 - weight) * obs + weight * image


def _shift(obs: Tensor, down: Tensor, right: Tensor) -> Tensor:
    batch, channels, height, width = obs.shape
    rows = (torch.arange(height, device=obs.device) + down).clamp(0, height - 1)  # (B, H)
    columns = (torch.arange(width, device=obs.device) + right).clamp(0, width - 1)  # (B, W)
    first = torch.arange(batch, device=obs.device)[:, None, None] * height * width
    pixels = first + rows[:, :, None] * width + columns[:, None, :]  # (B, H, W), counted through the batch
    flat = channels_last(obs).permute(0, 2, 3, 1).reshape(-1, channels)
    return flat.index_select(0, pixels.flatten()).view(batch, height, width, channels).permute(0, 3, 1, 2)
