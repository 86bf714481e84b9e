"""Agents out of run directories: to act, to be filmed, to be evaluated again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cbm.checkpoint import load_newest
from cbm.conditions import Conditions
from cbm.config import RunConfig, bound_settings, check_settings, read_config, to_json
from cbm.envs.distractions import make_distractions
from cbm.errors import CBMError
from cbm.evaluation import Episode, Job, Workers, nth_job, plan, summarise
from cbm.factory import Shapes, load_weights, make_environment, make_run_agent, one_thread, worker_count
from cbm.files import make_folder
from cbm.jsonl import read_lines
from cbm.ranges import Count, Range
from cbm.record import film_episode
from cbm.run_dir import RunDir, open_existing
from cbm.settings import check, unknown_key
from cbm.trust import check_trusted
from cbm.types import begin_episode
from cbm.zoo.entries import is_reference, open_entry, read_about, verify

if TYPE_CHECKING:
    from cbm.types import Agent


def load_agent(directory: Path | str, device: str = "cpu") -> Agent:
    """The agent of a run's newest checkpoint, or `zoo:NAME`, ready to `act`. No code in the run is executed."""
    return load_run(directory, device)[1]


def find_run(name: Path | str) -> RunDir:
    """What RUN on a command line means: the run in the directory of that name, or the agent `zoo:NAME`."""
    if is_reference(name):
        return RunDir(open_entry(str(name)).root)
    run = open_existing(Path(name))
    if run.entry.exists():
        verify(run.root)
    return run


def load_run(
    directory: Path | str, device: str = "cpu", settings: Mapping[str, Any] | None = None
) -> tuple[RunConfig, Agent, int]:
    """Configuration, agent and environment step of a run's newest checkpoint.

    `settings` of the agent replace those of the run where the agent has them. They must leave the weights as they are.
    """
    run = find_run(directory)
    read = config = read_config(run.config)
    known = {name: value for name, value in (settings or {}).items() if hasattr(config.agent, name)}
    config = replace(config, agent=replace(config.agent, **known))
    env_step, state = load_state(run)
    check_settings(bound_settings(read), state.get("config"), run.config)
    obs, action = state["shapes"]
    agent = make_run_agent(config, Shapes(tuple(obs), action), device)
    load_weights(agent, state["agent"])
    begin_episode(agent)  # what it remembers of an episode in training would be of no use
    return config, agent, env_step


def load_state(run: RunDir) -> tuple[int, dict[str, Any]]:
    """Environment step and state of a run's newest checkpoint; an error where it has none."""
    found = load_newest(run.checkpoints)
    if found is None:
        raise CBMError(f"{run.root} has no checkpoint yet. Train it first: {run.resume_command}")
    return found


def in_conditions(config: RunConfig, changes: Mapping[str, Any] | None, split: str = "train") -> RunConfig:
    """The configuration of a run, to be tried in other conditions: fields of `cbm.conditions.Conditions`.

    With another `distraction` they begin anew, but for the source of videos, the camera and the task's arguments.
    """
    if changes:
        if config.env.env_id is not None:
            raise CBMError(f"{', '.join(changes)}: goes with the tasks of the suite, not with {config.env.env_id}.")
        env = config.env
        if "distraction" in changes:
            kept = {name: getattr(env, name) for name in ("videos", "camera_id", "task_kwargs")}
            env = replace(env, **Conditions().conditions() | kept)
        for name in changes:
            if not hasattr(Conditions, name):
                raise unknown_key(name, list(Conditions().conditions()))
        config = replace(config, env=replace(env, **changes).resolved())
    if split not in config.env.splits:
        raise CBMError(f"{split} videos: this shows no videos, so there are no {split} ones.")
    if changes:
        make_distractions(config.env, split)  # what is wrong with them is said here, not by a worker
    return config


def evaluate(
    directory: Path | str,
    episodes: int = 10,
    split: str = "train",
    workers: int | None = None,
    conditions: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Play `episodes` with the newest checkpoint. The first are those of the evaluation that training made there.

    `conditions` as in `in_conditions`: other ones than in training, with the same seeds.
    """
    check(Count, episodes, "--episodes")
    check(Annotated[int, Range(0, 1_024)] | None, workers, "--workers")
    run = find_run(directory)
    config = read_config(run.config)
    check_trusted(config.env.env_id, run.root)
    changed = in_conditions(config, conditions, split)
    env_step, state = load_state(run)
    check_settings(bound_settings(config), state.get("config"), run.config)
    jobs = plan(config, env_step, episodes, (split,))
    pool = Workers(to_json(changed), worker_count(len(jobs), workers))
    try:
        played = pool.play(state["agent"], jobs, env_step)
    finally:
        pool.close()
    result = {"run": str(directory), "env_step": env_step, "videos": split, **summarise(played)[split]}
    if conditions:
        return result | {"conditions": changed.env.conditions()}
    return result | (_compared(run, result) if run.entry.exists() else {})


def _compared(run: RunDir, result: dict[str, Any]) -> dict[str, Any]:
    """How an agent of the zoo was made, and whether it has played as it did then."""
    about = read_about(run.root)
    stored = about.returns.get(result["videos"], ())
    count = min(len(stored), len(result["returns"]))
    same = list(stored[:count]) == result["returns"][:count]
    made = {"command": about.made.command, "commit": about.made.commit, "seed": about.made.seed}
    return {"made": made, "stored": {"returns": list(stored), "reproduced": same}}


def film(
    directory: Path | str,
    path: Path,
    split: str = "train",
    episode: int = 0,
    conditions: Mapping[str, Any] | None = None,
) -> Episode:
    """Film one of the episodes of `evaluate`."""
    check(Annotated[int, Range(0, 10**9)], episode, "--episode")
    _check_film(path)
    config, agent, env_step = load_run(directory)
    check_trusted(config.env.env_id, Path(directory))
    config = in_conditions(config, conditions, split)
    job = nth_job(config, env_step, split, episode)
    return _film(config, agent, job, env_step, path)


def film_best(config: RunConfig, run: RunDir, agent: Agent) -> Path:
    """A film in `videos/` of the best episode of the last evaluation, which is played again for it."""
    job, env_step = best_job(config, run)
    path = make_folder(run.videos, run.root) / f"best-{env_step:09d}.mp4"
    _film(config, agent, job, env_step, path, run.root)
    return path


def best_job(config: RunConfig, run: RunDir) -> tuple[Job, int]:
    """The episode of the last evaluation with the highest return, on videos of training or unseen."""
    last = read_lines(run.evals)[-1]
    returns = {split: last[split]["returns"] for split in config.env.splits}
    split = max(returns, key=lambda name: max(returns[name]))
    best = returns[split].index(max(returns[split]))
    return nth_job(config, last["env_step"], split, best), last["env_step"]


def _film(config: RunConfig, agent: Agent, job: Job, env_step: int, path: Path, root: Path | None = None) -> Episode:
    env = make_environment(config.env, job.split, film=True)
    try:
        with one_thread():  # as in an evaluation, so that it is the same episode to the last bit
            return film_episode(agent, env, job, env_step, path, f"{config.env.name}  {config.agent_name}", root)
    finally:
        env.close()


def _check_film(path: Path) -> None:
    if path.suffix != ".mp4":
        raise CBMError(f"a film is an .mp4 file, not {path}.")
