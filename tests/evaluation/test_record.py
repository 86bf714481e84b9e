"""Films that players can show."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
import tyro

from cbm.analysis.probing.probe import RandomActions
from cbm.cli.train import record as record_verb
from cbm.config import read_config
from cbm.envs import make_env
from cbm.envs.adapt import PixelTask
from cbm.envs.preview import film as preview
from cbm.envs.preview import watch
from cbm.errors import CBMError
from cbm.evaluation.play import EpisodeSpec, play
from cbm.evaluation.record import best_episode, compose, film, film_episode
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
    (path,) = run.videos.iterdir()
    assert len(frames_of(path)) == 11  # ten agent steps and the first observation
    spec, env_step = best_episode(read_config(run.config), run)
    returns = read_lines(run.evals)[-1]["train"]["returns"]
    assert env_step == 800
    assert film(run.root, path.with_name("again.mp4"), episode=int(np.argmax(returns))).spec == spec
    assert film(run.root, path.with_name("again.mp4"), episode=int(np.argmax(returns))).total == max(returns)
    path.with_name("again.mp4").unlink()


def test_record_writes_a_film(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new" / "x.mp4"
    assert tyro.cli(record_verb, args=[str(finished_run()), "-o", str(path)]) == 0
    assert f"{path}: return" in capsys.readouterr().out
    assert frames_of(path)[0].shape == (368, 672, 3)
    with pytest.raises(CBMError, match=r"\.mp4"):
        film(finished_run(), tmp_path / "x.gif")


def test_filming_does_not_change_the_episode(tmp_path: Path) -> None:
    class Push:
        def act(self, obs: np.ndarray, env_step: int, explore: bool) -> np.ndarray:
            return np.array([0.1], np.float32)

    env = PixelTask(PixelDot("rgb_array"), 24, 3, 1)
    filmed = film_episode(Push(), env, EpisodeSpec("train", 3), 0, tmp_path / "x.mp4", "toy")  # type: ignore[arg-type]
    assert filmed == play(Push(), env, EpisodeSpec("train", 3), 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(("repeat", "fps"), [(None, 20.0), (5, 8.0)])
def test_a_film_runs_as_fast_as_what_it_shows(repeat: int | None, fps: float, tmp_path: Path) -> None:
    env = make_env("walker-walk", action_repeat=repeat, render_mode="rgb_array", task_kwargs={"time_limit": 0.25})
    film_episode(RandomActions(env.action_space, 0), env, EpisodeSpec("train", 0), 0, tmp_path / "x.mp4", "")
    preview(tmp_path / "y.mp4", list(watch({"task": "walker-walk", "action_repeat": repeat}, 1, 3, seed=0)))
    for name in ("x.mp4", "y.mp4"):
        with av.open(str(tmp_path / name)) as container:
            assert float(container.streams.video[0].average_rate or 0) == fps
    env.close()


def test_a_repeat_slows_the_film_of_any_environment_down() -> None:
    dot = PixelDot()
    dot.metadata = {"render_modes": [], "render_fps": 30}
    assert PixelTask(dot, 32, 3, action_repeat=4).metadata["render_fps"] == 7.5
