"""Random shifts, against padding and cropping."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from cbm.augment import random_shift
from cbm.bench.update import grid_shift

PAD = 2


def crops(image: torch.Tensor) -> torch.Tensor:
    """All (2 PAD + 1)^2 crops of one image (C, H, W) that was padded by replication."""
    padded = F.pad(image[None].float(), (PAD,) * 4, "replicate")[0]
    _, height, width = image.shape
    side = range(2 * PAD + 1)
    return torch.stack([padded[:, y : y + height, x : x + width] for y in side for x in side])


def images(batch: int) -> torch.Tensor:
    return torch.randint(0, 256, (batch, 3, 7, 9), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def which(shifted: torch.Tensor, obs: torch.Tensor) -> list[int]:
    """For each image, which of its crops it became."""
    found = [(crops(before) == after.float()).flatten(1).all(dim=1) for before, after in zip(obs, shifted, strict=True)]
    assert all(match.any() for match in found)
    return [int(match.nonzero()[0]) for match in found]


def test_every_shift_is_a_crop_of_the_padded_image() -> None:
    obs = images(400)
    shifted = random_shift(obs, torch.Generator().manual_seed(1), PAD)
    assert shifted.dtype == torch.uint8
    assert len(set(which(shifted, obs))) == 25  # all of them occur, and each image has its own


def test_works_on_views_and_depends_on_the_generator_alone() -> None:
    obs = images(40).view(20, 2, 3, 7, 9)[:, 1]
    torch.manual_seed(0)
    first = random_shift(obs, torch.Generator().manual_seed(1), PAD)
    torch.manual_seed(1)
    assert torch.equal(first, random_shift(obs, torch.Generator().manual_seed(1), PAD))


def test_the_benchmark_s_grid_sampling_does_the_same() -> None:
    obs = images(30)
    assert len(set(which(grid_shift(obs.float(), PAD).round(), obs))) > 5
