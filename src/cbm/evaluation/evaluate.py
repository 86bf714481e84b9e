"""Evaluate a run's newest checkpoint again: with the seeds of training's own evaluation, in any conditions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cbm.config import RunConfig, to_json
from cbm.config.build import worker_count
from cbm.envs.conditions import Conditions
from cbm.envs.distractions import make_distractions
from cbm.errors import CBMError
from cbm.evaluation.play import evaluation_episodes, summarise
from cbm.evaluation.workers import Workers
from cbm.runs.directory import RunDir
from cbm.runs.load import find_run, load_checkpoint
from cbm.runs.zoo.entries import read_about
from cbm.schema.ranges import Count, Range
from cbm.schema.tree import check, unknown_key


def evaluate(
    directory: Path | str,
    episodes: int = 10,
    split: str = "train",
    workers: int | None = None,
    conditions: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Play episodes with the newest checkpoint of a run; the first are those that training's own evaluation played.

    Args:
        directory: the run directory, or `zoo:NAME`.
        episodes: how many.
        split: `train` or `unseen` videos.
        workers: processes that play them; None means one per core, 0 this process.
        conditions: what to change from training, as fields of `cbm.envs.conditions.Conditions`; seeds stay the same.

    Examples:
        With the run from the example of `cbm.train`.

        >>> import cbm
        >>> result = cbm.evaluate("runs/short", episodes=2, split="unseen", workers=0)
        >>> len(result["returns"]), result["split"]
        (2, 'unseen')
        >>> plain = cbm.evaluate("runs/short", episodes=2, workers=0, conditions={"distraction": "none"})
        >>> plain["backgrounds"]
        ['none', 'none']
    """
    check(Count, episodes, "--episodes")
    check(Annotated[int, Range(0, 1_024)] | None, workers, "--workers")
    run = find_run(directory)
    config, env_step, state = load_checkpoint(run, plays=True)
    changed = in_conditions(config, conditions, split)
    jobs = evaluation_episodes(config, env_step, episodes, (split,))
    with closing(Workers(to_json(changed), worker_count(len(jobs), workers))) as pool:
        played = pool.play(state["agent"], jobs, env_step)
    result = {"run": str(directory), "env_step": env_step, "split": split, **summarise(played)[split]}
    if conditions:
        return result | {"conditions": changed.env.conditions()}
    return result | (_compared(run, result) if run.entry.exists() else {})


def _compared(run: RunDir, result: dict[str, Any]) -> dict[str, Any]:
    """How an agent of the zoo was made, and whether its returns are the stored ones."""
    about = read_about(run.root)
    stored = about.returns.get(result["split"], ())
    count = min(len(stored), len(result["returns"]))
    same = list(stored[:count]) == result["returns"][:count]
    made = {"command": about.made.command, "commit": about.made.commit, "seed": about.made.seed}
    return {"made": made, "stored": {"returns": list(stored), "reproduced": same}}


def in_conditions(config: RunConfig, changes: Mapping[str, Any] | None, split: str = "train") -> RunConfig:
    """The configuration of a run with other conditions; `changes` are fields of `cbm.envs.conditions.Conditions`.

    If they contain a `distraction`, all other conditions return to their defaults, except for the source of videos, the
    camera and the task's arguments.
    """
    if changes:
        if config.env.env_id is not None:
            raise CBMError(f"{', '.join(changes)}: works only with tasks of the suite, not with {config.env.env_id}.")
        env = config.env
        if "distraction" in changes:
            kept = {name: getattr(env, name) for name in ("videos", "camera_id", "task_kwargs")}
            env = replace(env, **Conditions().conditions() | kept)
        for name in changes:
            if not hasattr(Conditions, name):
                raise unknown_key(name, list(Conditions().conditions()))
        config = replace(config, env=replace(env, **changes).resolved())
    if split not in config.env.splits:
        raise CBMError(f"{split} videos: this run shows no videos.")
    if changes:
        make_distractions(config.env, split)  # raises errors here, not in a worker
    return config
