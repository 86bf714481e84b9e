"""Show people what the agent will see: a contact sheet of a setting, and a film of a dynamic one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from cbm.envs.distractions import CHOICES
from cbm.envs.make import make_env
from cbm.envs.rendering.film import write_film
from cbm.envs.rendering.pictures import picture_grid
from cbm.envs.tasks import PAPER_TASKS

_CAPTION = 18  # height of a line of text
_ZOOM = 2  # of the frames on a contact sheet


@dataclass(frozen=True)
class PreviewEpisode:
    """The newest frame of every observation of one episode under random actions."""

    background: str
    frames: list[np.ndarray]  # (H, W, 3)
    fps: float  # in simulated time


def watch(env_options: dict[str, Any], episodes: int, steps: int, seed: int) -> Iterator[PreviewEpisode]:
    """Play `episodes` episodes of at most `steps` agent steps; episode i is reset with seed + i."""
    with closing(make_env(**env_options)) as env:
        for episode in range(episodes):
            obs, info = env.reset(seed=seed + episode)
            env.action_space.seed(seed + episode)
            frames = [_newest(obs)]
            for _ in range(steps):
                obs, _, terminated, truncated, info = env.step(env.action_space.sample())
                frames.append(_newest(obs))
                if terminated or truncated:
                    break
            yield PreviewEpisode(info["background"], frames, env.metadata["render_fps"])


def contact_sheet(title: str, episodes: list[PreviewEpisode], columns: int) -> Image.Image:
    """A row per episode: the name of its background, and below it `columns` frames spread over the episode."""
    height, width = (_ZOOM * side for side in episodes[0].frames[0].shape[:2])
    spread = [np.linspace(0, len(episode.frames) - 1, columns).round().astype(int) for episode in episodes]
    frames = [episode.frames[step] for episode, steps in zip(episodes, spread, strict=True) for step in steps]
    sheet = picture_grid(frames, columns, (width, height), top=_CAPTION, above=_CAPTION)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=12)
    draw.text((4, 2), title, "black", font)
    for index, episode in enumerate(episodes):
        top = _CAPTION + index * (height + _CAPTION)
        draw.text((4, top + 2), f"episode {index}   background: {episode.background}", "black", font)
    return sheet


def overview(seed: int, size: int = 128) -> Image.Image:
    """The tasks of the paper as rows, the distractions as columns, and an episode in each cell."""
    frames = []
    for index, (task, distraction) in enumerate(product(PAPER_TASKS, CHOICES)):
        options = {"task": task, "distraction": distraction, "size": size, "frame_stack": 1}
        (episode,) = watch(options, 1, 6, seed + index)
        frames.append(episode.frames[-1])
    left, font = 130, ImageFont.load_default(size=13)
    sheet = picture_grid(frames, len(CHOICES), (size, size), left=left, top=_CAPTION)
    draw = ImageDraw.Draw(sheet)
    for column, distraction in enumerate(CHOICES):
        draw.text((left + column * size + 6, 2), distraction, "black", font)
    for row, task in enumerate(PAPER_TASKS):
        draw.text((6, _CAPTION + row * size + size // 2 - 8), task, "black", font)
    return sheet


def film(path: Path, episodes: list[PreviewEpisode], zoom: int = 4) -> None:
    """The episodes side by side, until the shortest of them ends."""
    length = min(len(episode.frames) for episode in episodes)
    side_by_side = (np.concatenate([episode.frames[step] for episode in episodes], axis=1) for step in range(length))
    enlarged = (frame.repeat(zoom, axis=0).repeat(zoom, axis=1) for frame in side_by_side)
    write_film(path, enlarged, episodes[0].fps)


def _newest(obs: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(obs[-3:].transpose(1, 2, 0))
