"""Files of videos: few are open at a time, and what is not a picture of sensible size is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import av
import numpy as np
import pytest

ROLL_THE_DICE = """
import os
from cbm.envs import make_env

env = make_env("cartpole-swingup", distraction="background", videos={folder!r}, num_videos=3)
env.reset(seed=0)
at_first = len(os.listdir("/proc/self/fd"))
shown = set()
for seed in range(400):
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
    assert shown > 280, "more frames than files may be open"
    assert grown <= 2
