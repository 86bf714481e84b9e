"""Run directories by hand, with files of the sizes that real ones have."""

from __future__ import annotations

import csv
import json
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from PIL import Image

from cbm.envs.rendering.film import write_film
from cbm.runs.provenance import RECORDS_VERSION

HEIGHT = {"drqv2+cbm": 0.6, "drq+cbm": 0.55, "drqv2": 0.3, "drq": 0.25, "proto": 0.35, "svea": 0.4, "tpc": 0.45}


def write_run(
    path: Path,
    agent: str = "drqv2+cbm",
    task: str = "cartpole-swingup",
    seed: int = 0,
    total: int = 100_000,
    reached: int | None = None,
    distraction: str = "easy",
    splits: tuple[str, ...] = ("train", "unseen"),
    analysed: bool = False,
    settings: dict | None = None,
) -> Path:
    """One run, evaluated every tenth of its length. With `analysed`, it also has analyses, figures and a film."""
    path.mkdir(parents=True)
    rng = np.random.default_rng([seed, *map(ord, agent + task)])
    config = {
        "agent_name": agent,
        "agent": {"batch_size": 64, "lr": 0.0005, "conv_strides": [2, 2, 1, 1], "n_step": 3},
        "objective": {"prototypes": 128, "temperature": 0.1} if agent.endswith("cbm") else None,
        "env": {"task": task, "distraction": distraction, "scale": None, "num_videos": None, "env_id": None},
        "training": {"total_steps": total, "seed_steps": 4000, "eval_every": total // 10, "threads": 1},
        "seed": seed,
        "preset": "laptop",
        "provenance": {
            "records": RECORDS_VERSION,
            "command": ["cbm", "train", "--seed", str(seed)],
            "versions": {"torch": "2"},
        },
    }
    for name, value in (settings or {}).items():
        part, _, key = name.partition(".")
        config[part][key] = value
    (path / "config.json").write_text(json.dumps(config, indent=2))
    end = total if reached is None else reached
    steps = range(0, end + 1, total // 10)
    (path / "evals.jsonl").write_text(_lines(_eval(rng, agent, step, total, splits) for step in steps))
    (path / "metrics.jsonl").write_text(_lines(_metrics(rng, agent, step) for step in range(1000, end + 1, 1000)))
    (path / "timings.jsonl").write_text(_lines({"env_step": step, "update": step / 40} for step in steps))
    if analysed:
        (path / "analysis.jsonl").write_text(_lines(_analysis(rng, agent, step, total) for step in steps))
        shutil.copytree(sample_media(seed % 3), path, dirs_exist_ok=True)
    return path


def _lines(lines) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def _eval(rng, agent, step, total, splits):
    line = {"env_step": step, "agent_step": step // 8, "updates": step // 8}
    for split in splits:
        level = 80 + 900 * HEIGHT.get(agent, 0.2) * (step / total) ** 0.7 * (0.8 if split == "unseen" else 1.0)
        returns = (level + rng.normal(0, 40, 10)).tolist()
        line[split] = {"mean": float(np.mean(returns)), "std": float(np.std(returns)), "returns": returns}
        line[split] |= {"lengths": [125] * 10, "backgrounds": ["caustics-01"] * 10}
    return line


def _metrics(rng, agent, step):
    if step % 2000 == 0:
        return {
            "env_step": step,
            "episode": step // 1000,
            "episode_return": 90 + rng.normal(0, 9),
            "episode_length": 125,
        }
    names = ["loss/critic", "loss/actor", "critic/q", "critic/target", "z/std"]
    if agent.endswith("cbm"):
        names += [
            "loss/dynamics",
            "loss/cluster",
            "cbm/p_entropy",
            "cbm/q_entropy",
            "cbm/prototypes_used",
            "cbm/agreement",
        ]
    return {"env_step": step, "agent_step": step // 8, "updates": step // 8} | {
        name: rng.normal(1, 0.1) for name in names
    }


def _analysis(rng, agent, step, total):
    good = HEIGHT.get(agent, 0.2) * step / total
    return {
        "env_step": step,
        "clusters": "prototypes" if agent.endswith("cbm") else "kmeans",
        "k": 128,
        "ch_index": 20 + 60 * good + rng.normal(0, 2),
        "background_accuracy": 0.9 - 0.9 * good,
        "background_chance": 0.25,
        "state_r2": 0.2 + good,
    }


@cache
def sample_media(number: int) -> Path:
    """videos/ and figures/ as an analysed run has them. One of three, made once."""
    root = Path(mkdtemp())
    rng = np.random.default_rng(number)
    picture = _scene(rng, 368, 672)
    frames = [np.roll(picture, 3 * i, axis=1) for i in range(60)]
    write_film(root / "videos" / "best-000100000.mp4", frames, 25)
    figures = root / "figures"
    figures.mkdir()
    for name, size in {"gallery": (400, 900), "assignments": (500, 900), "saliency": (400, 800)}.items():
        Image.fromarray(_scene(rng, *size)).save(figures / f"{name}.png")
    _write_embedding(figures, rng)
    return root


def _scene(rng, height, width):
    """Smooth coloured shapes with texture and some grain: compresses about as a rendered frame does."""
    y, x = np.mgrid[0:height, 0:width] / 60
    waves = [np.sin(x * a + b) + np.cos(y * c) for a, b, c in rng.uniform(0.3, 2.0, (3, 3))]
    texture = rng.normal(0, 22, (height // 5 + 1, width // 5 + 1, 3)).repeat(5, axis=0).repeat(5, axis=1)
    image = 128 + 50 * np.stack(waves, axis=-1) + texture[:height, :width]
    return np.clip(image + rng.normal(0, 2, image.shape), 0, 255).astype(np.uint8)


def _write_embedding(figures, rng, count=768, columns=32, size=48):
    with (figures / "tsne.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["kind", "x", "y", "value", "background", "step", "frame"])
        for i in range(count):
            x, y = rng.normal(0, 20, 2)
            writer.writerow(["observation", x, y, x + rng.normal(), f"skyline-0{i % 4}", i % 125, i])
        for _ in range(128):
            writer.writerow(["prototype", *rng.normal(0, 20, 2), "", "", "", ""])
    sheet = _scene(rng, count // columns * size, columns * size)
    for i in range(count):  # the colour of a frame's corner tells its number
        row, column = divmod(i, columns)
        sheet[row * size : row * size + 24, column * size : column * size + 24] = (i % 256, i // 256 * 60, 200)
    Image.fromarray(sheet).save(figures / "tsne_frames.png")
    (figures / "tsne_frames.json").write_text(
        json.dumps({"width": size, "height": size, "columns": columns, "count": count})
    )


def write_many(root: Path, count: int, analysed: bool = True, total: int = 500_000) -> Path:
    """As many runs as the paper has: tasks x methods x seeds."""
    from cbm.envs.tasks import PAPER_TASKS

    names = [(task, agent, seed) for seed in range(9) for task in PAPER_TASKS for agent in HEIGHT]
    for task, agent, seed in names[:count]:
        write_run(root / f"{task}-{agent}-s{seed}", agent, task, seed, total, analysed=analysed)
    return root
