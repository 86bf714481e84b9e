"""Image augmentation on uint8 observations. `generator` lives on the device of `obs`.

What is random is drawn for a whole batch by `draw_...`, so that the rest can be done in chunks.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from cbm.learning.ops import channels_last

RGB = 3

Look = tuple[Tensor, ...]  # of a batch: shifts (B, 2) and, if they are random, colours (B, 2, 3)
Alike = tuple[Tensor, Look]  # which images (B,) look like all of their episode, and how


def draw_shifts(obs: Tensor, generator: torch.Generator, pad: int = 4) -> Tensor:
    """How far each image moves down and to the right, (B, 2)."""
    return torch.randint(-pad, pad + 1, (2, len(obs)), generator=generator, device=obs.device).T


def draw_colours(obs: Tensor, generator: torch.Generator, strength: float) -> Tensor:
    """For `recolour`: a factor around 1 and an offset around 0 for red, green and blue of each image, (B, 2, 3)."""
    drawn = torch.rand(len(obs), 2, RGB, generator=generator, device=obs.device).mul_(2.0).sub_(1.0)
    drawn[:, 0].mul_(strength).add_(1.0)
    drawn[:, 1].mul_(127.5 * strength)
    return drawn


def recolour(obs: Tensor, colours: Tensor) -> Tensor:
    """Each observation (B, 3 * stack, H, W) times its factors plus its offsets, the same for all frames of a stack.

    Floats, not cut off at 0 and 255, channels-last.
    """
    width, channels = obs.shape[3], obs.shape[1]
    rows = channels_last(obs).permute(0, 2, 3, 1).flatten(2)  # (B, H, W * C): long rows are fast
    factor, offset = colours.repeat(1, 1, width * channels // RGB)[:, :, None].unbind(1)
    coloured: Tensor = rows.float().mul_(factor).add_(offset).unflatten(2, (width, channels))
    return coloured.permute(0, 3, 1, 2)


def draw_look(obs: Tensor, generator: torch.Generator, pad: int, strength: float) -> Look:
    """For `view`: how far each image moves and, if they have a strength, its colours."""
    pixels = draw_shifts(obs, generator, pad)
    return (pixels, draw_colours(obs, generator, strength)) if strength else (pixels,)


def draw_alike(obs: Tensor, episode: Tensor, generator: torch.Generator, share: float, look: Look) -> Alike:
    """About this `share` of the episodes (B,), chosen at random, whose images all look like their first."""
    first = (episode[:, None] == episode).int().argmax(dim=1)
    chosen = torch.rand(len(obs), generator=generator, device=obs.device) < share
    return chosen[first], tuple(drawn[first] for drawn in look)


def look_alike(look: Look, alike: Alike) -> Look:
    """That of `alike` for the images that it chose, and `look` for the others."""
    chosen, same = alike
    return tuple(torch.where(chosen.view(-1, *[1] * (x.ndim - 1)), y, x) for x, y in zip(look, same, strict=True))


def view(obs: Tensor, pixels: Tensor, colours: Tensor | None = None) -> Tensor:
    """Observations as an agent learns from them: moved, and in other colours if these are given."""
    moved = shift(obs, pixels)
    return moved if colours is None else recolour(moved, colours)


def draw_convolutions(obs: Tensor, generator: torch.Generator) -> Tensor:
    """Weights (B, 3, 3, 3, 3) for `convolution`, N(0, 1)."""
    return torch.randn(len(obs), RGB, RGB, 3, 3, generator=generator, device=obs.device)


def convolution(obs: Tensor, weight: Tensor) -> Tensor:
    """Each observation (B, 3 * stack, H, W) through its own 3x3 convolution, then a sigmoid (SVEA).

    All frames of a stack have the same weights; borders repeat. Floats between 0 and 255, channels-last.
    """
    frames = torch.eye(obs.shape[1] // RGB, device=obs.device)[:, :, None, None]
    weight = torch.kron(frames, weight)  # (B, C, C, 3, 3): the same 3x3 convolution of each frame, none between frames
    x = F.pad(channels_last(obs) / 255.0, (1,) * 4, "replicate")
    # Image by image: on CPU a third faster than one convolution in groups, which also needs another layout.
    x = torch.cat([F.conv2d(image, w) for image, w in zip(x.split(1), weight, strict=True)])
    return x.sigmoid_().mul_(255.0)


def draw_images(obs: Tensor, images: Tensor, generator: torch.Generator) -> Tensor:
    """One of `images` (N, 3, H, W) for each observation: (B, 3, H, W)."""
    return images[torch.randint(len(images), (len(obs),), generator=generator, device=obs.device)]


def overlay(obs: Tensor, images: Tensor, weight: float = 0.5) -> Tensor:
    """Each observation (B, 3 * stack, H, W), all of its frames, mixed with its own image: floats, 0 to 255 (SVEA)."""
    image = images.repeat(1, obs.shape[1] // RGB, 1, 1)
    return (1.0 - weight) * obs + weight * image


def shift(obs: Tensor, pixels: Tensor) -> Tensor:
    """Each image moved down and to the right by its own two numbers of `pixels` (B, 2); borders repeat.

    The same as padding by replication and cropping at random (DrQ), by one selection of pixels: nothing is padded,
    interpolated or converted. The result is in channels-last layout, as the encoder wants it.
    """
    down, right = pixels.split(1, dim=1)
    batch, channels, height, width = obs.shape
    rows = (torch.arange(height, device=obs.device) + down).clamp(0, height - 1)  # (B, H)
    columns = (torch.arange(width, device=obs.device) + right).clamp(0, width - 1)  # (B, W)
    first = torch.arange(batch, device=obs.device)[:, None, None] * height * width
    index = first + rows[:, :, None] * width + columns[:, None, :]  # (B, H, W), counted through the batch
    flat = channels_last(obs).permute(0, 2, 3, 1).reshape(-1, channels)
    return flat.index_select(0, index.flatten()).view(batch, height, width, channels).permute(0, 3, 1, 2)
