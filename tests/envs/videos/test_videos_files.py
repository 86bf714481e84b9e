"""Files of videos: few are open at a time, and what is not a picture of sensible size is refused."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from cbm.envs.videos import open_source
from cbm.envs.videos.clips import MAX_PIXELS, read_image
from cbm.envs.videos.folder import decode
from cbm.errors import CBMError

ROLL_THE_DICE = """
import os
from cbm.envs.make import make_env

env = make_env("cartpole-swingup", distraction="background", videos={folder!r}, num_videos=3)
env.reset(seed=0)
at_first = len(os.listdir("/proc/self/fd"))
shown = set()
for seed in range(280):
    env.reset(seed=seed)
    background = env.unwrapped.distractions[0]
    shown.add((background.name, background.frame))
print(len(shown), len(os.listdir("/proc/self/fd")) - at_first)
"""


def write_video(file: Path, count: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(file), "w") as out:
        stream = out.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 16, 16, "yuv420p"
        for i in range(count):
            frame = av.VideoFrame.from_ndarray(np.full((16, 16, 3), i % 250, np.uint8), format="rgb24")
            out.mux(stream.encode(frame.reformat(format="yuv420p")))
        out.mux(stream.encode())


@pytest.mark.skipif(sys.platform != "linux", reason="counts open files in /proc")
def test_open_files_do_not_grow_with_the_number_of_frames_shown(tmp_path, python) -> None:
    for name in ("train/a", "train/b", "train/c", "unseen/d"):
        write_video(tmp_path / "films" / f"{name}.mp4", 300)
    limited = ("bash", "-c", 'ulimit -n 256; exec "$@"', "bash")
    script = ROLL_THE_DICE.format(folder=str(tmp_path / "films"))
    done = python(script, *limited, CBM_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    shown, grown = map(int, done.stdout.split())
    assert shown > 220, "more frames than files may be open, beside those of Python"
    assert grown <= 2


@pytest.fixture
def deadline() -> Iterator[None]:
    """What waits for a pipe fails instead."""

    def late(*_: object) -> None:
        raise TimeoutError("it waited for what will never be written")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def put(kind: str, path: Path) -> None:
    """Something other than a file under the name of one."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        here = os.getcwd()
        os.chdir(path.parent)  # the path of a socket is short
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
        os.chdir(here)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path.with_name("nowhere"))


def pictures(folder: Path, size: tuple[int, int] = (20, 12)) -> None:
    folder.mkdir(parents=True)
    for i in range(3):
        Image.new("RGB", size, (10 * i,) * 3).save(folder / f"{i}.png")


ODD = ["fifo", "socket", "device", "folder", "dangling link"]


@pytest.mark.usefixtures("deadline")
@pytest.mark.parametrize("kind", ODD)
def test_only_regular_files_are_read(tmp_path, kind) -> None:
    for name in ("a", "b", "c"):
        pictures(tmp_path / name)
    put(kind, tmp_path / "a" / "1b.jpg")
    put(kind, tmp_path / "film.mp4")
    source = open_source(str(tmp_path))
    assert source.names("train") + source.names("unseen") == ("a", "b", "c")
    clip = source.clip("a")
    assert [int(clip[i][0, 0, 0]) for i in range(len(clip))] == [0, 10, 20]


@pytest.mark.usefixtures("deadline")
@pytest.mark.parametrize("kind", ODD)
def test_a_file_that_became_something_else_is_named(tmp_path, kind) -> None:
    put(kind, tmp_path / "frame.jpg")
    with pytest.raises(CBMError, match=r"cannot read the image .*frame\.jpg"):
        read_image(tmp_path / "frame.jpg")
    put(kind, tmp_path / "film.mp4")
    with pytest.raises(CBMError, match=r"cannot decode the video .*film\.mp4"):
        decode(tmp_path / "film.mp4")


@pytest.mark.usefixtures("deadline")
def test_a_davis_video_of_pipes_has_no_images(tmp_path) -> None:
    bear = tmp_path / "JPEGImages" / "480p" / "bear"
    bear.mkdir(parents=True)
    os.mkfifo(bear / "00000.jpg")
    with pytest.raises(CBMError, match="has no images"):
        open_source(f"davis:{tmp_path}").clip("bear")


def test_pictures_beyond_a_sensible_size_are_refused(tmp_path) -> None:
    """A file of 60 kB that would take 180 MB: refused by its header, before it is decoded."""
    Image.new("1", (10_000, 6_000)).save(tmp_path / "huge.png")
    with pytest.raises(CBMError, match=r"huge\.png is too large: 10000 x 6000 pixels; the limit is 50 million"):
        read_image(tmp_path / "huge.png")
    wide = MAX_PIXELS // 10
    Image.new("1", (wide, 10)).save(tmp_path / "just.png")
    assert read_image(tmp_path / "just.png").shape == (10, wide, 3)


def test_films_beyond_a_sensible_size_are_refused(tmp_path, monkeypatch) -> None:
    write_video(tmp_path / "film.mp4", 2)
    monkeypatch.setattr("cbm.envs.videos.clips.MAX_PIXELS", 255)
    with pytest.raises(CBMError, match=r"film\.mp4 is too large: 16 x 16 pixels"):
        decode(tmp_path / "film.mp4")
