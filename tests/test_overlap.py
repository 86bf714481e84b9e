"""Collecting while learning: what is done does not depend on who is faster, and nothing is lost when it breaks."""

from __future__ import annotations

import random
import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from cbm import training
from cbm.agents.drqv2 import DrQv2
from cbm.collect import Collector
from cbm.config import EnvConfig, RunConfig, make_config
from cbm.factory import Shapes, make_environment, make_run_agent, resolve_machine
from cbm.jsonl import read_lines
from cbm.replay import Replay
from cbm.rollout import Rollout
from cbm.seeds import seed_for
from cbm.session import Session
from cbm.types import begin_episode
from test_resume import assert_same_run, interrupt, load, same
from toy import TINY, PixelDot, cbm, finished_run, tiny_options

OWN = {
    "tpc": {
        "agent.length": 8,
        "agent.memory_dim": 16,
        "agent.conv_layers": 2,
        "agent.model_first": 4,
        "agent.updates_per_env_step": 0.2,
    }
}


def config(name: str = "drqv2+cbm", env: str = "toy:PixelDot-v0", **changes: Any) -> RunConfig:
    values = TINY | {
        "training.overlap": "true",
        "training.total_steps": 240,
        "training.eval_episodes": 1,
        "training.eval_every": 9_000,
        "training.film": "false",
    }
    values |= OWN.get(name, {}) | {key.replace("__", "."): value for key, value in changes.items()}
    return make_config(name, EnvConfig(env_id=env), overrides=[(key, str(value)) for key, value in values.items()])


def by_hand(config: RunConfig, folder: Path) -> dict[str, Any]:
    """What an overlapped run must come to: one thing after the other, acting with the weights before the updates."""
    env, settings, repeat = make_environment(config.env, "train"), config.training, config.env.action_repeat or 1
    learner, actor = (make_run_agent(config, Shapes.of(env)) for _ in range(2))
    actor.generator.manual_seed(seed_for(config.seed, "act"))
    replay = Replay.create(folder, *Shapes.of(env), settings.replay_capacity)
    explore, sampling = (np.random.default_rng(seed_for(config.seed, name)) for name in ("explore", "replay"))
    obs, over, episode, updates = None, True, 0, 0
    for step in range(settings.total_steps // repeat):
        if over:
            obs, _ = env.reset(seed=seed_for(config.seed, "train", episode))
            begin_episode(actor)
            replay.add_first(obs, 0)
            episode += 1
        if step * repeat < settings.seed_steps:
            action = explore.uniform(-1.0, 1.0, 1).astype(np.float32)
        else:
            action = actor.act(obs, step * repeat, explore=True)
        obs, reward, terminated, truncated, _ = env.step(action)
        replay.add(action, float(reward), obs, terminated, truncated)
        over = terminated or truncated
        since = step + 1 - settings.seed_steps // repeat  # agent steps since the first update
        first = config.first_updates if since >= 0 else 0
        due = first + int(max(0, since + (first == 0)) * config.updates_per_agent_step)
        if due > updates:
            for name, module in actor.modules.items():
                module.load_state_dict(learner.modules[name].state_dict())
        while updates < due:
            learner.update(learner.sample(replay, sampling), (step + 1) * repeat)
            updates += 1
    return learner.state_dict()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("drqv2+cbm", {"agent__updates_per_step": 0.25}),
        ("drqv2", {}),
        ("svea", {"agent__updates_per_step": 4, "agent__first_updates": 0, "training__total_steps": 140}),
        ("tpc", {}),
    ],
)
def test_each_step_is_taken_with_the_weights_from_before_the_updates(
    name: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    chosen = config(name, **changes)
    training.train(chosen, tmp_path / "run", quiet=True)
    assert same(load(tmp_path / "run")[1]["agent"], by_hand(chosen, tmp_path / "replay"))
    assert not collecting()


@pytest.mark.parametrize(("name", "rate"), [("drqv2+cbm", 0.25), ("tpc", None)])
def test_a_checkpoint_between_two_steps_taken_ahead(name: str, rate: float | None, tmp_path: Path) -> None:
    whole, died = tmp_path / "whole", tmp_path / "died"
    changes = {} if rate is None else {"agent__updates_per_step": rate}
    training.train(config(name, training__checkpoint_every=34, **changes), whole, quiet=True)
    shutil.copytree(whole, died)
    shutil.rmtree(max((died / "checkpoint").iterdir()))
    assert load(died)[0] == 238
    training.resume(died, quiet=True)
    assert_same_run(died, whole)
    short = tmp_path / "short"
    training.train(config(name, training__total_steps=206, **changes), short, quiet=True)
    training.resume(short, total_steps=240, quiet=True)
    assert (short / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()
    assert same(load(short)[1]["agent"], load(whole)[1]["agent"])


def test_killed_while_learning_and_collecting(tmp_path: Path) -> None:
    options = tiny_options(training__overlap="true", agent__updates_per_step=0.5, training__film="false")
    options += ["--training.eval_episodes", "1"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    process = cbm("train", *options, "--out", whole)
    assert process.wait(timeout=120) == 0, process.communicate()[0]
    code, _ = interrupt(killed, signal.SIGKILL, random.randint(10, 20), [*options, "--out", killed])
    assert code == -signal.SIGKILL
    code, output = interrupt(killed, signal.SIGTERM, random.randint(24, 34), ["--resume", killed])
    assert code == 128 + signal.SIGTERM, output
    process = cbm("train", "--resume", killed)
    assert process.wait(timeout=120) == 0, process.communicate()[0]
    assert_same_run(killed, whole)
    before = [line for line in read_lines(finished_run() / "metrics.jsonl") if line["env_step"] < 100]
    assert read_lines(whole / "metrics.jsonl")[: len(before)] == before  # nothing is different before the first update


def collecting() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "cbm-collect"]


def test_the_environment_steps_while_the_agent_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meeting, threads = threading.Barrier(2), []
    step, update = Rollout.step, DrQv2.update

    def meeting_step(self: Rollout, action: np.ndarray) -> Any:
        meeting.wait(timeout=20)
        threads.append(threading.current_thread().name)
        return step(self, action)

    def meeting_update(self: DrQv2, *batch: Any) -> Any:
        meeting.wait(timeout=20)  # until a step is under way, too
        return update(self, *batch)

    chosen = resolve_machine(config("drqv2"))
    collector = Collector(chosen)
    try:
        session = Session(chosen, collector, tmp_path, None)
        for _ in range(20):
            session.store(collector.take(session.at.env_step))
        monkeypatch.setattr(Rollout, "step", meeting_step)
        monkeypatch.setattr(DrQv2, "update", meeting_update)
        for _ in range(5):
            collector.go_ahead(session.at.env_step, 1)
            session.agent.update(session.agent.sample(session.replay, session.sampling), 0)
            session.store(collector.take(session.at.env_step))
    finally:
        collector.close()
    assert threads == ["cbm-collect"] * 5
    assert not collecting()


class Breaking(PixelDot):
    """Fails in its eighth episode."""

    episodes = 0

    def reset(self, **options: Any) -> Any:
        type(self).episodes += 1
        return super().reset(**options)

    def step(self, action: np.ndarray) -> Any:
        if self.episodes == 8 and threading.current_thread().name == "cbm-collect":
            raise RuntimeError("the arm fell off")
        return super().step(action)


gym.register("Breaking-v0", entry_point=f"{__name__}:Breaking")


def test_a_failing_environment_ends_the_run_and_leaves_the_checkpoint(tmp_path: Path) -> None:
    Breaking.episodes = 0
    chosen = config("drqv2", "test_overlap:Breaking-v0", training__checkpoint_every=20)
    with pytest.raises(RuntimeError, match="the arm fell off"):
        training.train(chosen, tmp_path, quiet=True)
    assert load(tmp_path)[0] == 120  # after six episodes: the evaluation at step 0 has one
    assert "the arm fell off" in (tmp_path / "ended.json").read_text()
    assert not collecting()
    Breaking.episodes = 100
    assert training.resume(tmp_path, quiet=True).at.env_step == 240


def test_an_environment_that_cannot_be_made_leaves_no_thread(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="nosuchmodule"):
        training.train(config(env="nosuchmodule:X-v0"), tmp_path, quiet=True)
    assert not collecting()


def test_an_agent_that_cannot_be_copied_acts_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = config("drqv2", training__total_steps=160)
    plain = replace(plain, training=replace(plain.training, overlap=False))
    training.train(plain, tmp_path / "plain", quiet=True)
    monkeypatch.delattr(DrQv2, "acting")
    training.train(config("drqv2", training__total_steps=160), tmp_path / "asked")
    assert "drqv2 cannot act while it learns" in capsys.readouterr().out
    ours, theirs = (load(tmp_path / name)[1]["agent"] for name in ("asked", "plain"))
    assert same(ours, theirs)


def test_timings_say_who_spent_what(tmp_path: Path) -> None:
    training.train(config("drqv2"), tmp_path, quiet=True)
    seconds = read_lines(tmp_path / "timings.jsonl")[-1]["seconds"]
    beside = {"act", "environment"}
    assert beside | {"wait", "replay", "sample", "update", "checkpoint", "evaluate"} <= set(seconds)
    own = sum(value for part, value in seconds.items() if part not in beside | {"all"})
    assert own <= seconds["all"]


def test_who_overlaps() -> None:
    assert make_config(preset="laptop").training.overlap
    assert not make_config().training.overlap
    assert not make_config(preset="released").training.overlap


def test_the_copy_that_acts_shares_no_tensor_with_the_agent() -> None:
    from cbm.collect import copy_to_act

    for name in ("drqv2+cbm", "drq", "proto", "svea", "tpc"):
        agent = make_run_agent(config(name), Shapes((9, 24, 24), 1))
        actor = copy_to_act(agent, 1)
        for part in agent.acting:
            ours, theirs = (getattr(each, part).state_dict() for each in (actor, agent))
            assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
            assert all(ours[key].data_ptr() != theirs[key].data_ptr() for key in theirs)
