"""DAVIS, folders of one's own, the registry, and what is said when something is wrong."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from cbm.envs.videos import SOURCES, contact_sheet, list_sources, open_source
from cbm.envs.videos.davis import TRAIN, VAL, DavisSource
from cbm.envs.videos.folder import MAX_FRAMES, MAX_SIDE, FolderSource, decode
from cbm.errors import CBMError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CBM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CBM_DAVIS", raising=False)
    return tmp_path / "cache"


def write_images(folder: Path, count: int = 3, size: tuple[int, int] = (20, 12), suffix: str = "jpg") -> None:
    """Frame i is a grey of 10 i."""
    folder.mkdir(parents=True)
    for i in range(count):
        Image.new("RGB", size, (10 * i,) * 3).save(folder / f"{i:05d}.{suffix}", quality=95)


def write_video(file: Path, count: int = 5, size: tuple[int, int] = (64, 48)) -> None:
    """Frame i is a grey of 20 i."""
    file.parent.mkdir(parents=True, exist_ok=True)
    codec, pixels = {".gif": ("gif", "rgb8"), ".avi": ("mpeg4", "yuv420p")}.get(file.suffix, ("mpeg4", "yuv420p"))
    with av.open(str(file), "w") as out:
        stream = out.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = *size, pixels
        for i in range(count):
            frame = np.full((size[1], size[0], 3), min(20 * i, 255), np.uint8)
            out.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24").reformat(format=pixels)))
        out.mux(stream.encode())


def write_davis(root: Path, names: tuple[str, ...] = TRAIN + VAL, count: int = 2) -> Path:
    for name in names:
        write_images(root / "JPEGImages" / "480p" / name, count)
    return root


# DAVIS


def test_the_official_lists() -> None:
    assert (len(TRAIN), len(VAL)) == (60, 30)
    assert list(TRAIN) == sorted(TRAIN)
    assert list(VAL) == sorted(VAL)
    assert not set(TRAIN) & set(VAL)
    assert TRAIN[:4] == ("bear", "bmx-bumps", "boat", "boxing-fisheye")
    assert (VAL[0], VAL[-1], TRAIN[-1]) == ("bike-packing", "soapbox", "walking")


@pytest.mark.parametrize("inside", ["", "DAVIS"])
def test_davis_reads_the_standard_folder(tmp_path: Path, inside: str) -> None:
    write_davis(tmp_path / "data" / inside)
    source = open_source(f"davis:{tmp_path / 'data'}")
    assert source.name == "davis"
    assert source.names("train") == TRAIN
    assert source.names("unseen") == VAL
    clip = source.clip("camel")
    assert (clip.name, len(clip)) == ("camel", 2)
    assert clip[1].shape == (12, 20, 3)
    assert clip[1].dtype == np.uint8
    assert abs(int(clip[1].mean()) - 10) <= 1, "frames in order"


def test_davis_is_found_in_the_cache_at_cbm_davis_and_by_a_plain_path(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_davis(own_cache / "davis", TRAIN[:1] + VAL[:1])
    assert open_source("davis").clip("bear")[0].shape == (12, 20, 3)
    write_davis(tmp_path / "other", TRAIN[:1])
    monkeypatch.setenv("CBM_DAVIS", str(tmp_path / "other"))
    assert DavisSource().root == tmp_path / "other"
    assert isinstance(open_source(str(tmp_path / "other")), DavisSource)
    assert isinstance(open_source(str(tmp_path / "other" / "JPEGImages" / "480p")), DavisSource)


def test_davis_survives_pickling(tmp_path: Path) -> None:
    source = pickle.loads(pickle.dumps(DavisSource(write_davis(tmp_path / "d", TRAIN[:1]))))
    assert len(source.clip("bear")) == 2


def test_missing_davis_says_where_and_what_to_do(tmp_path: Path, own_cache: Path) -> None:
    with pytest.raises(CBMError) as error:
        open_source("davis")
    for part in (str(own_cache / "davis"), "does not exist", "cbm videos download davis", "--videos builtin"):
        assert part in str(error.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CBMError, match="has no JPEGImages/480p folder"):
        open_source(f"davis:{tmp_path / 'empty'}")


def test_an_incomplete_davis_is_never_silent(tmp_path: Path) -> None:
    source = DavisSource(write_davis(tmp_path / "d", ("bear", "boat", "camel")))
    with pytest.warns(UserWarning, match="58 of the 60 train videos are missing"):
        assert source.names("train") == ("bear", "boat")
    with pytest.raises(CBMError, match=r"'dog'.*29 of the 30 unseen videos are missing"):
        source.clip("dog")
    with pytest.raises(CBMError, match=r"unknown clip.*'camle'.*Did you mean 'camel'"):
        source.clip("camle")
    only_val = DavisSource(write_davis(tmp_path / "v", VAL[:2]))
    with pytest.raises(CBMError, match="none of the 60 train videos"):
        only_val.names("train")


@pytest.mark.parametrize("content", ["cut", "text", "empty"])
def test_a_broken_jpeg_is_named(tmp_path: Path, content: str) -> None:
    root = write_davis(tmp_path / "d", ("bear",))
    file = root / "JPEGImages" / "480p" / "bear" / "00001.jpg"
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(file)
    whole = file.read_bytes()
    file.write_bytes({"cut": whole[: len(whole) // 2], "text": b"hello", "empty": b""}[content])
    clip = DavisSource(root).clip("bear")
    assert clip[0].shape == (12, 20, 3)
    with pytest.raises(CBMError, match=r"bear/00001.jpg.*download it again, or remove it"):
        clip[1]


# folders


@pytest.mark.parametrize("suffix", ["mp4", "avi", "mov", "mkv", "gif"])
def test_video_files_are_decoded_once(tmp_path: Path, own_cache: Path, suffix: str, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    for name in ("a", "b", "c"):
        write_video(tmp_path / "v" / f"{name}.{suffix}")
    source = open_source(str(tmp_path / "v"))
    clip = source.clip(f"a.{suffix}")
    assert len(clip) == 5
    assert clip[0].shape == (48, 64, 3)
    means = [float(clip[i].mean()) for i in range(5)]
    assert all(abs(mean - 20 * i) < 22 for i, mean in enumerate(means)), means
    assert means == sorted(means)
    assert len(list((own_cache / "decoded-v1").iterdir())) == 1
    monkeypatch.setattr("cbm.envs.videos.folder.decode", lambda file: pytest.fail("decoded twice"))
    assert np.array_equal(source.clip(f"a.{suffix}")[4], clip[4])


def test_a_changed_video_is_decoded_anew(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_video(tmp_path / f"{name}.mp4")
    source = FolderSource(tmp_path)
    assert len(source.clip("a.mp4")) == 5
    size = (tmp_path / "a.mp4").stat().st_size
    write_video(tmp_path / "a.mp4", count=7)
    assert len(source.clip("a.mp4")) == 7
    (tmp_path / "a.mp4").write_bytes(b"x" * size)  # as long as the first, but of another time
    os.utime(tmp_path / "a.mp4", ns=(1, 1))
    with pytest.raises(CBMError, match="cannot decode"):
        source.clip("a.mp4")


def test_long_and_large_videos_are_limited(tmp_path: Path) -> None:
    write_video(tmp_path / "wide.mp4", count=2, size=(1280, 320))
    assert decode(tmp_path / "wide.mp4").shape == (2, MAX_SIDE * 320 // 1280, MAX_SIDE, 3)
    write_video(tmp_path / "long.mp4", count=MAX_FRAMES + 5, size=(16, 16))
    assert len(decode(tmp_path / "long.mp4")) == MAX_FRAMES


def test_a_mixed_folder_is_split_by_name(tmp_path: Path) -> None:
    for name in ("clip1", "clip2", "clip10", "clip20"):
        write_images(tmp_path / name, suffix="png")
    write_video(tmp_path / "clip3.mp4")
    (tmp_path / "notes.txt").write_text("not a video")
    (tmp_path / "empty").mkdir()
    source = open_source(str(tmp_path))
    assert source.names("train") == ("clip1", "clip2", "clip10", "clip20")
    assert source.names("unseen") == ("clip3.mp4",)
    assert source.clip("clip10")[2].mean() == 20


def test_train_and_unseen_folders_are_the_split(tmp_path: Path) -> None:
    for name in ("train/a", "train/b", "unseen/a"):
        write_images(tmp_path / name)
    source = open_source(f"folder:{tmp_path}")
    assert source.names("train") == ("train/a", "train/b")
    assert source.names("unseen") == ("unseen/a",)
    assert len(source.clip("unseen/a")) == 3


def test_frames_are_in_natural_order(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        for i in (1, 2, 10):
            Image.new("RGB", (4, 4), (i, i, i)).save(tmp_path / name / f"f{i}.png")
    clip = FolderSource(tmp_path).clip("a")
    assert [int(clip[i][0, 0, 0]) for i in range(3)] == [1, 2, 10]


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(CBMError, match=r"nowhere does not exist"):
        open_source(str(tmp_path / "nowhere"))
    (tmp_path / "none").mkdir()
    with pytest.raises(CBMError, match=r"no videos in .*none: it needs video files \(avi, gif.*folders of images"):
        open_source(str(tmp_path / "none"))
    write_images(tmp_path / "few" / "a")
    with pytest.raises(CBMError, match=r"too few videos in .*few: 1\. .*at least 3"):
        open_source(str(tmp_path / "few"))
    write_images(tmp_path / "half" / "train" / "a")
    with pytest.raises(CBMError, match="needs `train` and `unseen`"):
        open_source(str(tmp_path / "half"))
    (tmp_path / "half" / "unseen").mkdir()
    with pytest.raises(CBMError, match=r"no videos in .*half/unseen"):
        open_source(str(tmp_path / "half"))
    write_video(tmp_path / "one.mp4")
    with pytest.raises(CBMError, match=r"one.mp4 is a file"):
        open_source(str(tmp_path / "one.mp4"))


@pytest.mark.parametrize("content", ["cut", "text", "empty"])
def test_a_broken_video_is_named(tmp_path: Path, own_cache: Path, content: str) -> None:
    for name in ("a", "b", "c"):
        write_video(tmp_path / "v" / f"{name}.mp4")
    file = tmp_path / "v" / "b.mp4"
    whole = file.read_bytes()
    file.write_bytes({"cut": whole[: len(whole) // 2], "text": b"hello " * 50, "empty": b""}[content])
    source = FolderSource(tmp_path / "v")
    assert len(source.clip("a.mp4")) == 5
    with pytest.raises(CBMError, match=r"cannot decode the video .*b\.mp4 .*or remove it"):
        source.clip("b.mp4")
    assert len(list((own_cache / "decoded-v1").iterdir())) == 1, "nothing half-made in the cache"


# the registry


@pytest.mark.parametrize(
    ("spec", "hint"), [("buildin", "Did you mean 'builtin'"), ("davies", "Did you mean 'davis'"), ("zzz", "Choose")]
)
def test_an_unknown_source_lists_the_choices(spec: str, hint: str) -> None:
    with pytest.raises(CBMError) as error:
        open_source(spec)
    for part in (repr(spec), hint, "builtin, davis, davis:/path", "path of a folder"):
        assert part in str(error.value)


@pytest.mark.parametrize("spec", ["builtin:/tmp", "folder", "folder:", "davis:"])
def test_a_misused_source_says_how_to_write_it(spec: str) -> None:
    with pytest.raises(CBMError, match=r"video source .*(write|needs)"):
        open_source(spec)


def test_the_registry_and_the_list(tmp_path: Path, own_cache: Path) -> None:
    assert set(SOURCES) == {"builtin", "davis", "folder"}
    rows = {row.name: row for row in list_sources()}
    assert (rows["builtin"].train, rows["builtin"].unseen) == (60, 30)
    assert (rows["davis"].train, rows["davis"].unseen) == (0, 0)
    assert "cbm videos download davis" in rows["davis"].where
    write_davis(own_cache / "davis", TRAIN[:5] + VAL[:2])
    davis = list_sources()[1]
    assert (davis.train, davis.unseen) == (5, 2)
    assert str(own_cache / "davis") in davis.where


def test_contact_sheet_shows_the_middle_frame_of_every_clip(tmp_path: Path) -> None:
    for i, name in enumerate(("a", "b", "c")):
        (tmp_path / name).mkdir()
        Image.new("RGB", (30, 30), (80 * (i + 1), 0, 0)).save(tmp_path / name / "0.png")
    sheet = contact_sheet(open_source(str(tmp_path)), "train", columns=4, tile=50)
    assert sheet.width == 100
    assert sheet.getpixel((25, 25)) == (80, 0, 0)
    assert sheet.getpixel((75, 25)) == (160, 0, 0)
