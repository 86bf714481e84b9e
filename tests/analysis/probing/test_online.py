"""The probe, and analyses in the middle of training."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tyro

from cbm.analysis.probing.online import Analyzer
from cbm.analysis.probing.probe import Probe, RandomActions, background_of, showings
from cbm.cli.train import TrainArgs, expand_overrides, run_config
from cbm.config import read_config, to_json
from cbm.config.build import Shapes
from cbm.config.seeds import seed_for
from cbm.envs.make import make_env
from cbm.errors import CBMError
from cbm.evaluation.workers import Workers
from cbm.runs.directory import RunDir
from cbm.runs.load import load_checkpoint
from cbm.runs.read import load_runs
from cbm.system.jsonl import read_lines
from cbm.training import loop
from toy import finished_run, tiny_options


@pytest.fixture(scope="module")
def distracted():
    env = make_env("cartpole-swingup", "easy", size=32, num_videos=3, action_repeat=50)
    yield env
    env.close()


def random_half(env, **sizes):
    return Probe.join([showing.run(None, env, 0) for showing in showings(1, random=True, **sizes)])


def test_every_moment_is_seen_before_every_background(distracted):
    before = background_of(distracted).names
    probe = random_half(distracted, episodes=2, moments=7)
    assert background_of(distracted).names == before
    assert probe.obs.shape == (2 * 7 * 3, 9, 32, 32)
    assert probe.backgrounds == sorted(before)
    for moment in np.unique(probe.moment):
        own = probe.take(np.flatnonzero(probe.moment == moment))
        assert sorted(own.background) == sorted(before)
        assert (own.state == own.state[0]).all()  # the same physics, to the last bit
        assert (own.to_go == own.to_go[0]).all()
        assert len({picture.tobytes() for picture in own.obs}) == 3


def test_frames_that_are_not_drawn_do_not_change_those_that_are(distracted):
    """The repeated episodes draw only what is kept; a whole episode before the same background has the same frames."""
    probe = random_half(distracted, episodes=1, moments=4)
    video = background_of(distracted)
    names = video.names
    for name in names:
        own = probe.take(np.flatnonzero(probe.background == name))
        video.names = (name,)
        seed = seed_for(1, "probe", 0)
        actor = RandomActions(distracted.action_space, seed)
        obs, _ = distracted.reset(seed=seed)
        seen, rewards, over = [obs], [], False
        while not over:
            obs, reward, _, over, _ = distracted.step(actor.act(obs, 0, False))
            seen.append(obs)
            rewards.append(reward)
        assert own.step.tolist() == [0, 6, 13, 19]
        for index, step in enumerate(own.step):
            assert np.array_equal(own.obs[index], seen[step])
            assert own.to_go[index] == pytest.approx(sum(rewards[step:]))
    video.names = names


def tiny(**changes):
    return run_config(tyro.cli(TrainArgs, args=expand_overrides(tiny_options(**changes))))


def test_analysis_lines_come_with_evaluations(tmp_path):
    run = load_runs([finished_run()]).runs[0]
    assert [line["env_step"] for line in run.analysis] == [0, 400, 800]
    line = run.analysis[-1]
    assert {"agent_step", "updates", "ch_index", "clusters", "k", "background_accuracy", "state_r2"} <= set(line)
    assert (line["clusters"], line["k"], line["observations"]) == ("prototypes", 8, 120)
    assert line["background_accuracy"] is None  # the toy has no backgrounds
    assert line["ch_index"] > 0
    page = (Path(__file__).parents[3] / "docs" / "analysis.md").read_text()
    assert {key for key in line if f"`{key}`" not in page} == set()


def test_an_analysis_changes_nothing_else(tmp_path):
    """With and without: the same lines, the same weights."""
    loop.train(tiny(training__film=False), tmp_path / "without", quiet=True)
    assert read_lines(tmp_path / "without" / "analysis.jsonl") == []
    for name in ("metrics.jsonl", "evals.jsonl"):
        assert (tmp_path / "without" / name).read_bytes() == (finished_run() / name).read_bytes()
    manifests = [
        max((run / "checkpoint").iterdir()) / "manifest.json" for run in (tmp_path / "without", finished_run())
    ]
    weights = [json.loads(path.read_text())["tensors.safetensors"]["sha256"] for path in manifests]
    assert weights[0] == weights[1]


def test_the_last_line_is_measured_again_from_the_checkpoint():
    run = RunDir(finished_run())
    _, env_step, state = load_checkpoint(run)
    config = read_config(run.config)
    obs, action = state["shapes"]
    workers = Workers(to_json(config), 0)
    try:
        found = Analyzer(config, Shapes(tuple(obs), action), workers).measure(state["agent"], env_step)
    finally:
        workers.close()
    last = read_lines(run.analysis)[-1]
    assert {key: last[key] for key in found} == found


def test_odd_intervals_analyse_at_the_next_evaluation(tmp_path):
    config = tiny(training__total_steps=200, training__eval_every=40, training__analyze_every=70, training__film=False)
    loop.train(config, tmp_path / "run", quiet=True)
    steps = [line["env_step"] for line in read_lines(tmp_path / "run" / "analysis.jsonl")]
    assert steps == [0, 80, 160, 200]


def test_a_negative_interval_is_refused():
    with pytest.raises(CBMError, match="analyze_every must be 0"):
        tiny(training__analyze_every=-1)
