"""Random shifts against padding and cropping; random convolutions and overlays by hand."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from augmentation import random_colours, random_convolution, random_overlay, random_shift
from cbm.bench.plain import grid_shift
from cbm.learning.augment import draw_alike, draw_look, look_alike

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


def test_some_episodes_look_alike() -> None:
    obs, episode, generator = images(400), torch.arange(400) % 100, torch.Generator().manual_seed(1)
    own = draw_look(obs, generator, PAD, 0.4)
    chosen, same = draw_alike(obs, episode, generator, 0.25, draw_look(obs, generator, PAD, 0.4))
    assert 15 <= chosen[:100].sum() <= 35
    for each in range(100):
        assert len(chosen[episode == each].unique()) == 1
    for before, after in zip(own, look_alike(own, (chosen, same)), strict=True):
        assert torch.equal(after[~chosen], before[~chosen])
        for each in episode[chosen].unique():
            assert len(after[episode == each].unique(dim=0)) == 1
        assert len(after[chosen].unique(dim=0)) > 10  # from one episode to another they differ
    assert len(draw_look(obs, generator, PAD, 0.0)) == 1  # no colours


def test_works_on_views_and_depends_on_the_generator_alone() -> None:
    obs = images(40).view(20, 2, 3, 7, 9)[:, 1]
    torch.manual_seed(0)
    first = random_shift(obs, torch.Generator().manual_seed(1), PAD)
    torch.manual_seed(1)
    assert torch.equal(first, random_shift(obs, torch.Generator().manual_seed(1), PAD))


def test_the_benchmark_s_grid_sampling_does_the_same() -> None:
    obs = images(30)
    assert len(set(which(grid_shift(obs.float(), PAD).round(), obs))) > 5


def stacks(batch: int) -> torch.Tensor:
    return torch.randint(0, 256, (batch, 6, 7, 9), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def test_random_colours_are_a_factor_and_an_offset_for_each_colour_of_an_image() -> None:
    obs, factors, offsets = stacks(400), [], []
    out = random_colours(obs, torch.Generator().manual_seed(1), 0.4)
    for before, after in zip(obs.double(), out.double(), strict=True):
        for colour in range(3):
            x, y = (image[[colour, colour + 3]].flatten() for image in (before, after))  # both frames of the stack
            factor = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()
            offset = y.mean() - factor * x.mean()
            torch.testing.assert_close(y, factor * x + offset, rtol=0, atol=1e-3)
            factors.append(float(factor)), offsets.append(float(offset))
    assert 0.6 - 1e-4 < min(factors) < 0.61 < 1.39 < max(factors) < 1.4 + 1e-4
    assert -51.1 < min(offsets) < -50 < 50 < max(offsets) < 51.1  # a fifth of 255
    assert len({round(f, 4) for f in factors}) > 1000  # each image and colour has its own


def test_random_convolution_is_one_convolution_for_each_image() -> None:
    obs = stacks(4)
    out = random_convolution(obs, torch.Generator().manual_seed(1))
    weight = torch.randn(4, 3, 3, 3, 3, generator=torch.Generator().manual_seed(1)).double()
    padded = F.pad(obs.double() / 255, (1,) * 4, "replicate")
    expected = torch.zeros(4, 6, 7, 9, dtype=torch.double)
    for frame in (0, 3):  # both frames of a stack with the weights of their image
        for y in range(7):
            for x in range(9):
                patch = padded[:, frame : frame + 3, y : y + 3, x : x + 3]
                expected[:, frame : frame + 3, y, x] = (weight * patch[:, None]).sum(dim=(2, 3, 4))
    torch.testing.assert_close(out.double(), 255 * torch.sigmoid(expected), rtol=1e-5, atol=1e-3)
    assert not torch.equal(weight[0], weight[1])


def test_random_overlay_mixes_one_image_into_all_frames() -> None:
    obs, pictures = stacks(50), images(3)
    out = random_overlay(obs, pictures, torch.Generator().manual_seed(1), weight=0.25)
    chosen = set()
    for before, after in zip(obs, out, strict=True):
        picture = (after - 0.75 * before) / 0.25
        torch.testing.assert_close(picture[:3], picture[3:], rtol=0, atol=1e-3)
        match = (pictures - picture[:3]).abs().amax(dim=(1, 2, 3)) < 1e-2
        assert match.sum() == 1
        chosen.add(int(match.nonzero()[0]))
    assert chosen == {0, 1, 2}


def test_strong_augmentations_stay_in_the_range_of_pixels_and_follow_the_generator() -> None:
    obs, pictures = stacks(10).view(5, 2, 6, 7, 9)[:, 1], images(3)
    for augment in (random_convolution, lambda obs, g: random_overlay(obs, pictures, g)):
        torch.manual_seed(0)
        first = augment(obs, torch.Generator().manual_seed(1))
        torch.manual_seed(1)
        assert torch.equal(first, augment(obs, torch.Generator().manual_seed(1)))
        assert first.shape == obs.shape
        assert first.min() >= 0
        assert first.max() <= 255
