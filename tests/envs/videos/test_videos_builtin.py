"""The generated clips: the same everywhere, in two disjoint sets, and pictures rather than noise."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cbm.envs.videos import open_source
from cbm.envs.videos.builtin import FRAMES, SIZE, TRAINING_FAMILIES, UNSEEN_FAMILIES, generate
from cbm.envs.videos.cache import cache_dir
from cbm.envs.videos.clips import Clip
from cbm.envs.videos.measure import Measures, measure_clip, median, seen
from cbm.errors import CBMError

ALL_FAMILIES = [*TRAINING_FAMILIES, *UNSEEN_FAMILIES]

# sha256 of three 64 x 64 frames of the first clip. If one changes on purpose, change builtin.VERSION with it.
GOLDEN = {
    "skyline": "1c7729a20bf067c1",
    "foliage": "33f62bf528dda419",
    "caustics": "6c1e657e399c6cc9",
    "crowd": "6f3f765009af30fc",
    "bricks": "ba49a622b86ef5b3",
    "mountains": "90593febade4a5cf",
    "solids": "45fd56827b752925",
    "bokeh": "f619e1a51d8a88fe",
    "cloth": "ed15493448620b70",
    "road": "82a92a6fbc669af5",
    "marble": "46e42f4db065cc79",
    "clouds": "16bf8768c04a52f6",
    "fish": "9c28b47c524a25df",
    "shelf": "b6a9f7037a105671",
    "balloons": "3a1a33d9565b81f2",
}


def family(name: str) -> str:
    return name.rpartition("-")[0]


def digest(frames: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(frames).tobytes()).hexdigest()[:16]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CBM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_counts_and_disjoint_splits() -> None:
    source = open_source("builtin")
    train, unseen = source.names("train"), source.names("unseen")
    assert len(set(train)) == len(train) >= 60
    assert len(set(unseen)) == len(unseen) >= 30
    assert not set(train) & set(unseen)


def test_unseen_has_new_clips_of_training_families_and_families_of_its_own() -> None:
    source = open_source()
    train, unseen = ({family(n) for n in source.names(split)} for split in ("train", "unseen"))
    assert len(train) >= 10
    assert train & unseen
    assert len(unseen - train) >= 2


@pytest.mark.parametrize("split", ["train", "unseen"])
def test_the_first_eight_are_of_different_families(split: str) -> None:
    first = open_source().names(split)[:8]
    assert len({family(name) for name in first}) == 8


@pytest.mark.parametrize("name", ALL_FAMILIES)
def test_pixels_are_the_golden_ones(name: str) -> None:
    assert digest(generate(f"{name}-01", frames=3, size=64)) == GOLDEN[name]


def test_two_processes_make_the_same_clip() -> None:
    code = (
        "import hashlib; from cbm.envs.videos.builtin import generate;"
        "print(hashlib.sha256(generate('marble-03').tobytes()).hexdigest()[:16])"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stdout.strip() == digest(generate("marble-03"))


def test_pixels_do_not_depend_on_the_vector_instructions_of_the_cpu() -> None:
    """numpy's sin or exp, for one, differ in the last bit between machines with and without AVX."""
    features = "from numpy._core._multiarray_umath import __cpu_features__ as f, __cpu_dispatch__ as d;"
    found = subprocess.run(
        [sys.executable, "-c", features + "print(' '.join(x for x in d if f.get(x)))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    code = (
        "import hashlib; from cbm.envs.videos.builtin import generate;"
        f"print([hashlib.sha256(generate(n + '-01', 3, 64).tobytes()).hexdigest()[:16] for n in {ALL_FAMILIES}])"
    )
    plain = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NPY_DISABLE_CPU_FEATURES": found},
    ).stdout
    assert plain.strip() == str([GOLDEN[name] for name in ALL_FAMILIES])


def test_does_not_import_torch() -> None:
    code = "import sys, cbm.envs.videos.builtin as s; s.generate('bokeh-01', 1, 32); print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "'torch'" not in loaded


def test_clips_of_one_family_differ() -> None:
    first, second = (generate(f"cloth-{i:02d}", frames=1).astype(np.float32) for i in (1, 2))
    assert np.abs(first - second).mean() > 20


def check_clip(frames: np.ndarray) -> None:
    """uint8 film of 256 x 256 that moves smoothly, with the spatial structure of a picture."""
    assert frames.dtype == np.uint8
    assert frames.shape == (FRAMES, SIZE, SIZE, 3)
    film = np.asarray(frames[:, ::2, ::2], np.float32)
    steps = np.abs(film[1:] - film[:-1]).mean(axis=(1, 2, 3))
    assert steps.min() > 0.05, "it must move in every frame"
    assert steps.max() < min(45, 2.5 * np.median(steps)), "and without jumps"
    assert np.abs(film[-1] - film[0]).mean() > 1.2 * steps.mean(), "and get somewhere"
    for frame in frames[::20]:
        grey = seen(frame).mean(axis=2)
        for a, b in ((grey[:, 1:], grey[:, :-1]), (grey[1:], grey[:-1])):
            assert np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.5, "neighbouring pixels are alike: it is not noise"
        assert grey.std() > 12, "enough contrast"
        coarse = grey.reshape(12, 7, 12, 7).mean(axis=(1, 3))
        assert coarse.std() > 6, "structure at a coarse scale too"
    assert np.asarray(frames[0], np.float32).std(axis=2).mean() > 2, "colour"


def check_bars(rows: list[Measures]) -> None:
    """As cluttered as the frames of DAVIS, whose medians are 0.45, -2.8, 4.5 and 28."""
    middle = median(rows)
    assert 0.40 <= middle.edge_density <= 0.65
    assert -3.1 <= middle.spectrum_slope <= -2.3
    assert 4.2 <= middle.colour_entropy <= 5.2
    assert 20 <= middle.change <= 40


def test_clips_are_as_cluttered_as_real_video() -> None:
    """One clip of each family, by its first frames: all of them take a minute (below)."""
    check_bars([measure_clip(Clip(name, generate(f"{name}-02", frames=10))) for name in ALL_FAMILIES])


@pytest.mark.parametrize("name", ["skyline-01", "foliage-01", "caustics-01", "crowd-01", "fish-01"])
def test_a_clip_is_a_film(name: str) -> None:
    check_clip(generate(name))


def test_neighbour_frames_are_much_closer_than_other_clips() -> None:
    clips = {name: generate(name, frames=4).astype(np.float32) for name in open_source().names("train")[:8]}
    for name, frames in clips.items():
        step = np.abs(frames[1] - frames[0]).mean()
        others = [np.abs(frames[0] - clips[other][0]).mean() for other in clips if other != name]
        assert 0 < step < 0.7 * min(others), name


@pytest.mark.slow
def test_every_clip_is_a_film_and_together_they_are_as_cluttered_as_real_video() -> None:
    source = open_source()
    for split in ("train", "unseen"):
        clips = [Clip(name, generate(name)) for name in source.names(split)]
        for clip in clips:
            check_clip(clip.frames)
        check_bars([measure_clip(clip) for clip in clips])


def test_a_clip_is_made_once_and_then_mapped(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clip = open_source().clip("cloth-01")
    file = own_cache / "builtin-v2" / "cloth-01.npy"
    assert file.is_file()
    assert len(clip) == FRAMES
    assert clip[3].shape == (SIZE, SIZE, 3)
    assert clip[3].dtype == np.uint8
    assert clip.name == "cloth-01"
    monkeypatch.setattr("cbm.envs.videos.builtin.generate", lambda name: pytest.fail("made twice"))
    again = open_source().clip("cloth-01")
    assert isinstance(again.frames, np.memmap)  # type: ignore[attr-defined]
    assert np.array_equal(again[3], clip[3])
    assert [f.name for f in file.parent.iterdir()] == ["cloth-01.npy"], "no temporary file is left"


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped", "not an array"])
def test_a_damaged_cache_file_is_made_anew(own_cache: Path, damage: str) -> None:
    right = digest(open_source().clip("cloth-02").frames)  # type: ignore[attr-defined]
    file = own_cache / "builtin-v2" / "cloth-02.npy"
    content = bytearray(file.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 1
    file.unlink()  # a mapped file must not shrink under its readers
    file.write_bytes(
        {"truncated": content[: len(content) // 2], "empty": b"", "not an array": b"hello" * 99}.get(damage, content)
    )
    assert digest(open_source().clip("cloth-02").frames) == right  # type: ignore[attr-defined]


def _open_and_hash(name: str) -> str:
    return digest(open_source("builtin").clip(name).frames)  # type: ignore[attr-defined]


def test_several_processes_make_the_same_clip_at_once(own_cache: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        hashes = pool.map(_open_and_hash, ["bokeh-01"] * 3, chunksize=1)
    assert set(hashes) == {digest(generate("bokeh-01"))}
    assert [f.name for f in (own_cache / "builtin-v2").iterdir()] == ["bokeh-01.npy"]


def test_a_cache_that_cannot_be_written_names_the_directory_and_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CBM_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(CBMError, match=r"file/cache.*CBM_CACHE=/some/dir"):
        open_source().clip("cloth-01")


def test_no_permission_for_the_cache(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("cbm.envs.videos.cache.aside", refuse)
    with pytest.raises(CBMError, match=r"builtin-v2 \(Permission denied\).*CBM_CACHE=/some/dir"):
        open_source().clip("cloth-01")


def test_the_cache_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CBM_CACHE", str(tmp_path / "mine"))
    assert cache_dir() == tmp_path / "mine"
    monkeypatch.delenv("CBM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "cbm"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == Path("~/.cache/cbm").expanduser()


def test_an_unknown_clip_or_split_is_named() -> None:
    with pytest.raises(CBMError, match=r"unknown clip.*'cloth-99'.*Did you mean 'cloth-0"):
        open_source().clip("cloth-99")
    with pytest.raises(CBMError, match=r"unknown split.*'val'.*train, unseen"):
        open_source().names("val")  # type: ignore[arg-type]
