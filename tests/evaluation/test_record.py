"""Films that players can show."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
import tyro
from PIL import Image

from cbm.analysis.probing.probe import RandomActions
from cbm.cli.train import record as record_verb
from cbm.config import read_config
from cbm.envs.adapt import PixelTask
from cbm.envs.make import make_env
from cbm.envs.preview import film as preview
from cbm.envs.preview import watch
from cbm.envs.rendering.film import write_film
from cbm.errors import CBMError
from cbm.evaluation.play import EpisodeSpec, play
from cbm.evaluation.record import best_episode, compose, film, film_episode, side_by_side
from cbm.runs.directory import RunDir
from cbm.system.jsonl import read_lines
from toy import PixelDot, finished_run


def frames_of(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.pix_fmt) == ("h264", "yuv420p")
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]


def test_a_frame_shows_the_scene_the_observation_and_the_return() -> None:
    scene, seen = np.full((100, 200, 3), 50, np.uint8), np.zeros((84, 84, 3), np.uint8)
    seen[:42] = 200
    frame = compose(scene, seen, "return 12.3")
    assert frame.shape == (368, 672 + 336, 3)
    assert (frame[:336, :672] == 50).all()
    assert (frame[:168, 672:] == 200).all()
    assert (frame[168:336, 672:] == 0).all()
    assert frame[336:].max() > 200  # the text
    assert compose(None, seen, "").shape == (368, 336, 3)


def test_training_ends_with_a_film_of_its_best_episode() -> None:
    run = RunDir(finished_run())
    (path,) = run.films.iterdir()
    assert len(frames_of(path)) == 11  # ten agent steps and the first observation
    spec, env_step = best_episode(read_config(run.config), run)
    returns = read_lines(run.evals)[-1]["train"]["returns"]
    assert env_step == 800
    (again,) = film([run.root], path.with_name("again.mp4"), episode=int(np.argmax(returns)))
    assert again.spec == spec
    assert again.total == max(returns)
    path.with_name("again.mp4").unlink()


def test_record_writes_a_film(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new" / "x.mp4"
    assert tyro.cli(record_verb, args=[str(finished_run()), "-o", str(path)]) == 0
    said = capsys.readouterr().out
    assert f"{finished_run()}: return" in said
    assert said.endswith(f"The film is {path}\n")
    assert frames_of(path)[0].shape == (368, 672, 3)
    with pytest.raises(CBMError, match=r"\.mp4"):
        film([finished_run()], tmp_path / "x.gif")


def test_several_agents_play_the_same_episode_side_by_side(tmp_path: Path) -> None:
    alone, beside = tmp_path / "alone.mp4", tmp_path / "beside.mp4"
    (one,) = film([finished_run()], alone, episode=1)
    both = film([finished_run(), finished_run()], beside, episode=1)
    assert both == [one, one]
    single, double = frames_of(alone), frames_of(beside)
    assert len(double) == len(single)
    for frame, wide in zip(single, double, strict=True):
        for half in np.split(wide, 2, axis=1):
            assert np.abs(half.astype(int) - frame).mean() < 3  # what compression changes


def test_a_film_that_ends_early_shows_its_last_frame() -> None:
    long, short = [np.full((2, 2, 3), i, np.uint8) for i in range(3)], [np.full((2, 2, 3), 9, np.uint8)]
    assert [frame[0, :, 0].tolist() for frame in side_by_side([long, short])] == [
        [0, 0, 9, 9],
        [1, 1, 9, 9],
        [2, 2, 9, 9],
    ]


def test_a_moving_picture_for_a_readme(tmp_path: Path) -> None:
    path = tmp_path / "x.webp"
    write_film(path, [np.full((64, 96, 3), 20 * i, np.uint8) for i in range(12)], 12.5)
    with Image.open(path) as picture:
        assert (picture.n_frames, picture.size) == (12, (48, 32))
        picture.seek(11)
        picture.load()
        assert picture.info["duration"] == 80
        assert np.abs(np.asarray(picture.convert("RGB")).astype(int) - 220).max() < 4


def test_filming_does_not_change_the_episode() -> None:
    class Push:
        def act(self, obs: np.ndarray, env_step: int, explore: bool) -> np.ndarray:
            return np.array([0.1], np.float32)

    env = PixelTask(PixelDot("rgb_array"), 24, 3, 1)
    filmed = film_episode(Push(), env, EpisodeSpec("train", 3), 0, "toy")  # type: ignore[arg-type]
    assert filmed.episode == play(Push(), env, EpisodeSpec("train", 3), 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(("repeat", "fps"), [(None, 20.0), (5, 8.0)])
def test_a_film_runs_as_fast_as_what_it_shows(repeat: int | None, fps: float, tmp_path: Path) -> None:
    env = make_env("walker-walk", action_repeat=repeat, render_mode="rgb_array", task_kwargs={"time_limit": 0.25})
    take = film_episode(RandomActions(env.action_space, 0), env, EpisodeSpec("train", 0), 0, "")
    write_film(tmp_path / "x.mp4", take.frames, take.fps)
    preview(tmp_path / "y.mp4", list(watch({"task": "walker-walk", "action_repeat": repeat}, 1, 3, seed=0)))
    for name in ("x.mp4", "y.mp4"):
        with av.open(str(tmp_path / name)) as container:
            assert float(container.streams.video[0].average_rate or 0) == fps
    env.close()


def test_a_repeat_slows_the_film_of_any_environment_down() -> None:
    dot = PixelDot()
    dot.metadata = {"render_modes": [], "render_fps": 30}
    assert PixelTask(dot, 32, 3, action_repeat=4).metadata["render_fps"] == 7.5
