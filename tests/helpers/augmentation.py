"""Augmentations that are drawn and made at once."""

from __future__ import annotations

import torch
from torch import Tensor

from cbm.learning.augment import (
    convolution,
    draw_colours,
    draw_convolutions,
    draw_images,
    draw_shifts,
    overlay,
    recolour,
    shift,
)


def random_shift(obs: Tensor, generator: torch.Generator, pad: int = 4) -> Tensor:
    return shift(obs, draw_shifts(obs, generator, pad))


def random_colours(obs: Tensor, generator: torch.Generator, strength: float) -> Tensor:
    return recolour(obs, draw_colours(obs, generator, strength))


def random_convolution(obs: Tensor, generator: torch.Generator) -> Tensor:
    return convolution(obs, draw_convolutions(obs, generator))


def random_overlay(obs: Tensor, images: Tensor, generator: torch.Generator, weight: float = 0.5) -> Tensor:
    return overlay(obs, draw_images(obs, images, generator), weight)
