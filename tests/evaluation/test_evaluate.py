"""Evaluation: deterministic whatever the number of workers, apart from training, and clear when something breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import tyro

from cbm.cli.train import evaluate as eval_verb
from cbm.config import read_config, to_json
from cbm.envs.adapt import PixelTask
from cbm.errors import CBMError
from cbm.evaluation.evaluate import evaluate
from cbm.evaluation.play import EpisodeSpec, Interrupted, evaluation_episodes, play, summarise
from cbm.evaluation.workers import Workers
from cbm.runs.directory import RunDir
from cbm.runs.load import load_agent, load_checkpoint, load_run
from cbm.system.jsonl import read_lines
from toy import PixelDot, finished_run


class Constant:
    """Always the same push."""

    def act(self, obs: np.ndarray, env_step: int, explore: bool) -> np.ndarray:
        assert not explore
        return np.array([0.5], np.float32)


def test_an_episode_depends_on_its_seed_alone_and_leaves_the_random_state() -> None:
    env = PixelTask(PixelDot(), 24, 3, 2)
    before = torch.get_rng_state()
    first = play(Constant(), env, EpisodeSpec("train", 5), 0)  # type: ignore[arg-type]
    play(Constant(), env, EpisodeSpec("train", 6), 0)  # type: ignore[arg-type]
    assert play(Constant(), env, EpisodeSpec("train", 5), 0) == first  # type: ignore[arg-type]
    assert torch.equal(torch.get_rng_state(), before)
    assert first.length == 10


def test_seeds_differ_by_split_step_and_episode_and_repeat_by_run() -> None:
    config = read_config(finished_run() / "config.json")
    jobs = [job for step in (0, 10_000) for job in evaluation_episodes(config, step, 10, ("train", "unseen"))]
    assert len({job.seed for job in jobs}) == 40
    assert evaluation_episodes(config, 0, 3, ("train",)) == jobs[:3]
    assert evaluation_episodes(replace(config, seed=1), 0, 10, ("train",))[0].seed != jobs[0].seed


def test_the_number_of_workers_changes_nothing_and_training_wrote_the_same() -> None:
    here, alone, together = (evaluate(finished_run(), 4, workers=count) for count in (0, 1, 2))
    assert here == alone == together
    last = read_lines(finished_run() / "evals.jsonl")[-1]
    assert alone["env_step"] == last["env_step"] == 800
    assert alone["returns"][:2] == last["train"]["returns"]
    assert alone["mean"] == pytest.approx(np.mean(alone["returns"]))
    assert alone["std"] == pytest.approx(np.std(alone["returns"]))


def test_eval_prints_and_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(finished_run()), "--episodes", "2", "--workers", "0", "-o", str(tmp_path / "eval.json")]
    assert tyro.cli(eval_verb, args=words) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "eval.json").read_text())
    assert len(printed["returns"]) == 2


def test_a_run_without_videos_has_no_unseen_ones(tmp_path: Path) -> None:
    with pytest.raises(CBMError, match="shows no videos"):
        evaluate(finished_run(), 1, "unseen")
    with pytest.raises(CBMError, match="is not a run directory"):
        evaluate(tmp_path, 1)


def test_a_loaded_agent_acts_as_the_trained_one() -> None:
    config, agent, env_step = load_run(finished_run())
    job = evaluation_episodes(config, env_step, 1, ("train",))[0]
    torch.set_num_threads(1)
    env = PixelTask(PixelDot(), 24, 3, 2)
    assert (
        play(agent, env, job, env_step).total == read_lines(finished_run() / "evals.jsonl")[-1]["train"]["returns"][0]
    )
    obs, _ = env.reset(seed=0)
    assert np.array_equal(load_agent(finished_run()).act(obs, env_step, explore=False), agent.act(obs, env_step, False))


def test_seen_and_unseen_are_summarised_apart() -> None:
    env = PixelTask(PixelDot(), 24, 3, 2)
    episodes = [play(Constant(), env, EpisodeSpec(split, 1), 0) for split in ("train", "unseen", "unseen")]  # type: ignore[arg-type]
    summary = summarise(episodes)
    assert [len(summary[split]["returns"]) for split in ("train", "unseen")] == [1, 2]


@pytest.fixture
def workers() -> Iterator[Workers]:
    config = read_config(finished_run() / "config.json")
    pool = Workers(to_json(config), 1)
    yield pool
    pool.close()


def test_a_stop_request_ends_an_evaluation_soon(workers: Workers) -> None:
    with pytest.raises(Interrupted):
        workers.play(
            load_checkpoint(RunDir(finished_run()))[2]["agent"], [EpisodeSpec("train", 1)] * 500, 0, lambda: True
        )


def test_a_worker_that_fails_or_dies_is_an_error_with_its_reason(workers: Workers) -> None:
    state = load_checkpoint(RunDir(finished_run()))[2]["agent"]
    with pytest.raises(CBMError, match="does not fit"):
        workers.play({**state, "modules": {}}, [EpisodeSpec("train", 1)], 0)
    next(iter(workers._processes.values())).kill()
    with pytest.raises(CBMError, match="an evaluation worker died"):
        workers.play(state, [EpisodeSpec("train", 1)], 0)


def test_a_script_without_a_main_guard_can_evaluate() -> None:
    code = (
        "import toy; from cbm.evaluation.evaluate import evaluate; "
        f"print(evaluate({str(finished_run())!r}, 2, workers=1)['returns'])"
    )
    folder = str(Path(__file__).parents[1] / "helpers")
    result = subprocess.run(
        [sys.executable, "-"], input=code, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": folder}
    )
    assert json.loads(result.stdout) == read_lines(finished_run() / "evals.jsonl")[-1]["train"]["returns"], (
        result.stderr
    )
