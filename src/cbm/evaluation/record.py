"""Films of an agent: the scene as rendered, next to the small picture that the agent sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import gymnasium as gym
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from cbm.config import RunConfig
from cbm.config.build import make_environment, one_thread
from cbm.envs.rendering.film import check_film, write_film
from cbm.errors import CBMError
from cbm.evaluation.evaluate import in_conditions
from cbm.evaluation.play import Episode, EpisodeSpec, nth_episode, play
from cbm.runs.directory import RunDir
from cbm.runs.load import load_run
from cbm.runs.trust import check_trusted
from cbm.schema.ranges import Range
from cbm.schema.tree import check
from cbm.system.files import make_folder
from cbm.system.jsonl import read_lines
from cbm.types import Agent

_HEIGHT, _STRIP = 336, 32  # four times 84 pixels, and a line of text under it; both even, as yuv420p needs
_PLAYBACK = 20  # frames per second if the environment does not say


class Take(NamedTuple):
    """An episode, its frames, and how many of them are shown per second."""

    episode: Episode
    frames: list[np.ndarray]
    fps: float


def film(
    directories: Sequence[Path | str],
    path: Path,
    split: str = "train",
    episode: int = 0,
    conditions: Mapping[str, Any] | None = None,
) -> list[Episode]:
    """Film one of the episodes of `evaluate`. Several agents play the first one's episode, side by side."""
    check(Annotated[int, Range(0, 10**9)], episode, "--episode")
    check_film(path)
    spec, tasks, takes = None, dict[str, Path | str](), list[Take]()
    for directory in directories:
        config, agent, env_step = load_run(directory)
        check_trusted(config.env.env_id, Path(directory))
        config = in_conditions(config, conditions, split)
        tasks.setdefault(config.env.name, directory)
        if len(tasks) > 1:
            raise CBMError(f"agents that are filmed side by side need one task, not {', '.join(tasks)}.")
        spec = spec or nth_episode(config, env_step, split, episode)
        takes.append(_take(config, agent, spec, env_step))
    write_film(path, side_by_side([take.frames for take in takes]), takes[0].fps)
    return [take.episode for take in takes]


def film_best(config: RunConfig, run: RunDir, agent: Agent) -> Path:
    """Play the best episode of the last evaluation again, and film it into `videos/`."""
    spec, env_step = best_episode(config, run)
    path = make_folder(run.films, run.root) / f"best-{env_step:09d}.mp4"
    take = _take(config, agent, spec, env_step)
    write_film(path, take.frames, take.fps, run.root)
    return path


def best_episode(config: RunConfig, run: RunDir) -> tuple[EpisodeSpec, int]:
    """The episode of the last evaluation with the highest return, on training or unseen videos."""
    last = read_lines(run.evals)[-1]
    returns = {split: last[split]["returns"] for split in config.env.splits}
    split = max(returns, key=lambda name: max(returns[name]))
    best = returns[split].index(max(returns[split]))
    return nth_episode(config, last["env_step"], split, best), last["env_step"]


def _take(config: RunConfig, agent: Agent, spec: EpisodeSpec, env_step: int) -> Take:
    # On one thread, as in an evaluation, so that it is the same episode to the last bit.
    with closing(make_environment(config.env, spec.split, film=True)) as env, one_thread():
        return film_episode(agent, env, spec, env_step, f"{config.env.name}  {config.agent_name}")


def film_episode(agent: Agent, env: gym.Env, spec: EpisodeSpec, env_step: int, title: str) -> Take:
    frames: list[np.ndarray] = []

    def watch(obs: np.ndarray, total: float) -> None:
        caption = f"{title}   step {len(frames)}   return {total:.1f}"
        picture = env.render() if env.render_mode == "rgb_array" else None  # some environments cannot render
        scene = picture if isinstance(picture, np.ndarray) else None
        frames.append(compose(scene, obs[-3:].transpose(1, 2, 0), caption))

    episode = play(agent, env, spec, env_step, watch)
    return Take(episode, frames, float(env.metadata.get("render_fps") or _PLAYBACK))


def side_by_side(films: Sequence[Sequence[np.ndarray]]) -> Iterator[np.ndarray]:
    """Several films as one. A film that is over keeps showing its last frame."""
    for index in range(max(map(len, films))):
        yield np.concatenate([frames[min(index, len(frames) - 1)] for frames in films], axis=1)


def compose(scene: np.ndarray | None, seen: np.ndarray, caption: str) -> np.ndarray:
    """One frame: the scene, the newest observation enlarged pixel by pixel, and a line of text."""
    parts = [] if scene is None else [_to_height(scene, Image.Resampling.BILINEAR)]
    parts.append(_to_height(seen, Image.Resampling.NEAREST))
    picture = np.concatenate(parts, axis=1)
    canvas = Image.new("RGB", (picture.shape[1], _HEIGHT + _STRIP))
    canvas.paste(Image.fromarray(picture))
    font = ImageFont.load_default(size=14)
    ImageDraw.Draw(canvas).text((8, _HEIGHT + 8), caption, fill=(235, 235, 235), font=font)
    return np.asarray(canvas)


def _to_height(image: np.ndarray, how: Image.Resampling) -> np.ndarray:
    width = round(image.shape[1] * _HEIGHT / image.shape[0] / 2) * 2
    return np.asarray(Image.fromarray(np.ascontiguousarray(image)).resize((width, _HEIGHT), how))
