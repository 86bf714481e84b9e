"""Returns over a grid of conditions, most of which the agent was not trained in.

Each cell is played with the seeds of an evaluation, so agents with the same run seed play the same episodes. Finished
cells are stored in `robustness.jsonl` of the run, and are not played again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from cbm.config import read_config, to_json
from cbm.config.build import worker_count
from cbm.envs.distractions import DIFFICULTIES, DISTRACTIONS
from cbm.envs.videos import open_source
from cbm.errors import CBMError
from cbm.evaluation.evaluate import in_conditions
from cbm.evaluation.play import Episode, nth_episode, summarise
from cbm.evaluation.workers import Workers
from cbm.runs.load import find_run, load_checkpoint
from cbm.system.files import make_folder
from cbm.system.jsonl import JsonLines, read_lines

SCALES = (0.1, 0.2, 0.3, 0.5)
AS_TRAINED = "as in training"


@dataclass(frozen=True)
class Cell:
    """One condition to play in."""

    row: str
    """Its name in the matrix."""
    split: str
    """Training or unseen videos."""
    conditions: Mapping[str, Any] = field(default_factory=dict)
    """The changes for `evaluate.in_conditions`; empty means as in training."""

    @property
    def dynamic(self) -> bool:
        """Which half of the matrix it is in."""
        return bool(self.conditions.get("dynamic"))


@dataclass(frozen=True)
class Matrix:
    """The returns of one run."""

    name: str
    env_step: int
    returns: Mapping[tuple[str, bool], list[float]]  # (row, dynamic) -> one per episode

    def mean(self, row: str, dynamic: bool) -> float | None:
        own = self.returns.get((row, dynamic))
        return float(np.mean(own)) if own else None


def grid(scales: Sequence[float] = SCALES, sources: Sequence[str] = ()) -> list[Cell]:
    """No distraction, each distraction alone at every scale, and the difficulties, static and dynamic, on unseen
    videos; also background and difficulties with videos from other sources."""
    for source in sources:
        open_source(source)  # an error if there is no such source
    short = [Path(source).name for source in sources]
    labels = {source: name if short.count(name) == 1 else source for source, name in zip(sources, short, strict=True)}
    cells = [Cell(AS_TRAINED, "train"), Cell("none", "train", {"distraction": "none"})]
    for also in ({}, {"dynamic": True}):
        for name in (*DISTRACTIONS, *DIFFICULTIES):
            shows = name in DIFFICULTIES or DISTRACTIONS[name].shows_videos
            split = "unseen" if shows else "train"
            rows: dict[str, dict[str, Any]] = {name: {}}
            if name not in DIFFICULTIES and "scale" in DISTRACTIONS[name].options:
                rows = {f"{name} {scale:g}": {"scale": scale} for scale in scales}
            if shows:
                rows |= {f"{name}, {label}": {"videos": source} for source, label in labels.items()}
            cells += [Cell(row, split, {"distraction": name, **own, **also}) for row, own in rows.items()]
    return cells


def play_grid(
    run: Path | str,
    cells: Sequence[Cell],
    episodes: int,
    workers: int | None = None,
    output: Path = Path("robustness"),
    done: Callable[[Cell | None, list[float], bool], None] = lambda cell, returns, fresh: None,
) -> Matrix:
    """The returns of a run's newest checkpoint in every cell.

    `done(cell, returns, fresh)` is called after each episode. Only the last one of a cell passes the cell and its
    returns. It is also called for each cell that was stored before; `fresh` is False for those.
    """
    source = find_run(run)
    if (env_id := read_config(source.config).env.env_id) is not None:
        raise CBMError(f"{run} runs in {env_id}. Only tasks of the suite have conditions.")
    config, env_step, state = load_checkpoint(source)
    name = f"{config.env.name} {config.agent_name} s{config.seed}"
    envs = [in_conditions(config, cell.conditions, cell.split).env for cell in cells]
    root = source.root
    if source.entry.exists():  # an entry of the zoo is never changed
        root = make_folder(output / f"zoo-{name.replace(' ', '-')}", output)
    returns = _finished(root, cells, env_step, episodes)
    for cell in cells:
        if (own := returns.get((cell.row, cell.dynamic))) is not None:
            done(cell, own, False)
    missing = [(cell, env) for cell, env in zip(cells, envs, strict=True) if (cell.row, cell.dynamic) not in returns]
    jobs = [
        replace(nth_episode(config, env_step, cell.split, index), env=env)
        for cell, env in missing
        for index in range(episodes)
    ]
    if not jobs:
        return Matrix(name, env_step, returns)
    played: dict[int, Episode] = {}
    file = JsonLines(root / "robustness.jsonl", root)

    def keep(index: int, episode: Episode) -> None:
        played[index] = episode
        number = index // episodes
        own = [played[i] for i in range(number * episodes, (number + 1) * episodes) if i in played]
        if len(own) < episodes:
            done(None, [], True)
            return
        cell = missing[number][0]
        numbers = summarise(own)[cell.split]
        said = {"env_step": env_step, "row": cell.row, "split": cell.split, "conditions": dict(cell.conditions)}
        file.append({**said, **numbers})
        returns[cell.row, cell.dynamic] = numbers["returns"]
        done(cell, numbers["returns"], True)

    with closing(file), closing(Workers(to_json(config), worker_count(len(jobs), workers))) as pool:
        pool.play(state["agent"], jobs, env_step, done=keep)
    return Matrix(name, env_step, returns)


def _finished(root: Path, cells: Sequence[Cell], env_step: int, episodes: int) -> dict[tuple[str, bool], list[float]]:
    """The cells that this checkpoint has played before, in the same conditions, with at least as many episodes."""
    found = {}
    for line in read_lines(root / "robustness.jsonl", root):
        for cell in cells:
            same = (line.get("env_step"), line.get("split"), line.get("conditions"))
            own = line.get("returns")
            numbers = [value for value in own if isinstance(value, float)] if isinstance(own, list) else []
            if same == (env_step, cell.split, dict(cell.conditions)) and len(numbers) >= episodes:
                found[cell.row, cell.dynamic] = numbers[:episodes]
    return found
