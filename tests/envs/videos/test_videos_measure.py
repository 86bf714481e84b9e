"""The four measures of a video against pictures whose values are known, and their command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cbm.cli.suite import videos
from cbm.envs.videos import open_source
from cbm.envs.videos.clips import Clip
from cbm.envs.videos.measure import EDGE, PIXELS, colour_entropy, edge_density, measure_clip, seen, spectrum_slope
from cbm.errors import CBMError


def test_edges_are_where_the_grey_level_rises_by_more_than_nine_per_pixel() -> None:
    ramp = np.tile(np.arange(20.0), (20, 1))
    assert edge_density(ramp * (EDGE - 0.1)) == 0.0
    assert edge_density(ramp * (EDGE + 0.1)) == 1.0
    step = np.zeros((22, 22))
    step[:, 11:] = 100.0
    assert edge_density(step) == pytest.approx(2 / 20), "the two columns beside the step, of the 20 inside"


@pytest.mark.parametrize("exponent", [-1.0, -2.0, -3.0])
def test_the_slope_is_the_exponent_of_the_spectrum(exponent: float) -> None:
    rng, waves = np.random.default_rng(0), np.fft.fftfreq(PIXELS) * PIXELS
    radius = np.hypot(waves[:, None], waves)
    radius[0, 0] = 1.0
    pictures = [
        np.fft.ifft2(np.fft.fft2(rng.standard_normal((PIXELS, PIXELS))) * radius ** (exponent / 2)).real
        for _ in range(8)
    ]
    assert np.mean([spectrum_slope(picture) for picture in pictures]) == pytest.approx(exponent, abs=0.15)


def test_entropy_counts_bits() -> None:
    picture = np.zeros((16, 16, 3))
    assert colour_entropy(picture) == 0.0
    picture[:, 8:] = 255.0
    assert colour_entropy(picture) == 1.0
    picture[:8, :, 1] = 100.0
    assert colour_entropy(picture) == 2.0
    assert colour_entropy(np.minimum(picture + 20.0, 255.0)) == 2.0, "a shade has 32 levels"


def test_seen_is_the_central_part() -> None:
    frame = np.zeros((800, 800, 3), np.uint8)
    edge = round(400 - 0.5 * 0.41421 * 800)
    frame[edge : 800 - edge, edge : 800 - edge] = 200
    assert seen(frame).shape == (PIXELS, PIXELS, 3)
    assert (seen(frame) >= 190).all(), "all of it is seen"
    frame[edge + 8 : 800 - edge - 8, edge + 8 : 800 - edge - 8] = 0
    assert seen(frame)[:2].mean() > 150, "and its rim is the rim of the picture"


def test_change_is_over_three_frames_unless_told() -> None:
    frames = np.stack([np.full((20, 20, 3), 5 * i, np.uint8) for i in range(12)])
    assert measure_clip(Clip("grey", frames)).change == pytest.approx(15.0)
    assert measure_clip(Clip("grey", frames), apart=1).change == pytest.approx(5.0)
    with pytest.raises(CBMError, match=r"'short' has 3 frames, too few"):
        measure_clip(Clip("short", frames[:3]))


def test_the_command_prints_every_clip_and_the_median(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, pace in (("train/a", 1), ("train/b", 2), ("unseen/c", 9)):
        (tmp_path / name).mkdir(parents=True)
        for i in range(5):
            Image.new("RGB", (8, 8), (pace * i,) * 3).save(tmp_path / name / f"{i}.png")
    assert videos("measure", str(tmp_path), as_json=True) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {name: row["change"] for name, row in printed["clips"].items()} == {
        "train/a": 3,
        "train/b": 6,
        "unseen/c": 27,
    }
    assert printed["median"]["change"] == 6
    assert videos("measure", str(tmp_path), split="unseen", apart=1) == 0
    assert "unseen/c" in (text := capsys.readouterr().out)
    assert "9.00" in text
    assert "train/a" not in text


def test_a_copy_of_davis_with_one_list_can_be_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "JPEGImages" / "480p" / "camel"
    folder.mkdir(parents=True)
    for i in range(4):
        Image.new("RGB", (8, 8), (9 * i,) * 3).save(folder / f"{i}.jpg")
    with pytest.warns(UserWarning, match="29 of the 30 unseen videos are missing"):
        videos("measure", f"davis:{tmp_path}", as_json=True)
    assert list(json.loads(capsys.readouterr().out)["clips"]) == ["camel"]
    assert open_source(f"davis:{tmp_path}").clip("camel")[0].shape == (8, 8, 3)
