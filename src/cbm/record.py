"""Films of an agent: the scene as rendered, beside the small picture that the agent sees."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from cbm.evaluation import Episode, Job, play
from cbm.film import write_film

if TYPE_CHECKING:
    import gymnasium as gym

    from cbm.types import Agent

_HEIGHT, _STRIP = 336, 32  # four times 84 pixels, and a line of text under it; both even, as yuv420p needs
_PLAYBACK = 20  # frames a second where the environment does not say


def film_episode(
    agent: Agent, env: gym.Env, job: Job, env_step: int, path: Path, title: str, root: Path | None = None
) -> Episode:
    """Play one episode and write it to `path` (.mp4). `root` as in `write_whole`."""
    frames: list[np.ndarray] = []

    def watch(obs: np.ndarray, total: float) -> None:
        caption = f"{title}   step {len(frames)}   return {total:.1f}"
        frames.append(compose(_scene(env), obs[-3:].transpose(1, 2, 0), caption))

    episode = play(agent, env, job, env_step, watch)
    write_film(path, frames, float(env.metadata.get("render_fps") or _PLAYBACK), root)
    return episode


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


def _scene(env: gym.Env) -> np.ndarray | None:
    """What `render` shows, where the environment has it."""
    if env.render_mode != "rgb_array":
        return None
    picture = env.render()
    return picture if isinstance(picture, np.ndarray) else None


def _to_height(image: np.ndarray, how: Image.Resampling) -> np.ndarray:
    width = round(image.shape[1] * _HEIGHT / image.shape[0] / 2) * 2
    return np.asarray(Image.fromarray(np.ascontiguousarray(image)).resize((width, _HEIGHT), how))
