"""Collecting while learning: what is done does not depend on who is faster, and nothing is lost when it breaks."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import psutil
import pytest

from cbm.agents.acting import Acting
from cbm.config import EnvConfig, RunConfig, make_config
from cbm.config.build import Shapes, make_environment, make_run_agent, resolve_machine
from cbm.config.seeds import seed_for
from cbm.errors import CBMError
from cbm.replay import Replay
from cbm.system.jsonl import read_lines
from cbm.training import loop
from cbm.training.callbacks import Callback, LiveRun
from cbm.training.collect import make_collector
from cbm.training.session import Session
from cbm.types import begin_episode
from same_run import assert_same_run, complete, interrupt, load, same
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
        first = config.agent.first_updates if since >= 0 else 0
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
        ("svea", {"agent__updates_per_step": 4, "agent__first_updates": 0, "training__total_steps": 138}),
        ("tpc", {}),
    ],
)
def test_each_step_is_taken_with_the_weights_from_before_the_updates(
    name: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    chosen, whole, died = config(name, training__checkpoint_every=34, **changes), tmp_path / "whole", tmp_path / "died"
    loop.train(chosen, whole, quiet=True)
    total = chosen.training.total_steps
    assert same(load(whole)[1]["agent"], by_hand(chosen, tmp_path / "replay"))
    assert not collecting()
    seconds = read_lines(whole / "timings.jsonl")[-1]["seconds"]
    beside = {"act", "environment"}
    assert beside | {"wait", "replay", "sample", "update", "checkpoint", "evaluate"} <= set(seconds)
    assert sum(value for part, value in seconds.items() if part not in beside | {"all"}) <= seconds["all"]
    # A checkpoint between two steps that were taken ahead.
    shutil.copytree(whole, died)
    shutil.rmtree(max((died / "checkpoint").iterdir()))
    assert load(died)[0] == total - 2
    loop.resume(died, quiet=True)
    assert_same_run(died, whole)


def test_prolonged_from_between_two_steps(tmp_path: Path) -> None:
    whole, short = (config("drqv2", agent__updates_per_step=0.25, training__total_steps=n) for n in (160, 126))
    complete(loop.train(whole, tmp_path / "whole", quiet=True))
    complete(loop.train(replace(short, training=replace(short.training, threads=2)), tmp_path / "short", quiet=True))
    complete(loop.resume(tmp_path / "short", total_steps=160, quiet=True))
    ours, theirs = tmp_path / "short", tmp_path / "whole"
    assert (ours / "metrics.jsonl").read_bytes() == (theirs / "metrics.jsonl").read_bytes()
    assert same(load(ours)[1]["agent"], load(theirs)[1]["agent"])


class Terminate(Callback):
    """Asks for an end, as `timeout` does, at a moment that it chooses."""

    def on_step(self, run: LiveRun) -> None:
        if run.env_step == 124:
            signal.raise_signal(signal.SIGTERM)


def test_a_signal_within_a_run_is_noticed_and_costs_nothing(tmp_path: Path) -> None:
    """What looked like another outcome of the same run, when the machine was slow: it had been asked to stop."""
    chosen = config("drqv2", training__total_steps=160, training__overlap="false")
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    outcome = loop.train(chosen, stopped, callbacks=[Terminate()], quiet=True)
    with pytest.raises(AssertionError, match="stopped at 124: SIGTERM"):
        complete(outcome)
    complete(loop.train(chosen, whole, quiet=True))
    assert (stopped / "metrics.jsonl").read_bytes() != (whole / "metrics.jsonl").read_bytes()
    complete(loop.resume(stopped, quiet=True))
    assert_same_run(stopped, whole)


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


def collecting() -> list[psutil.Process]:
    return [each for each in psutil.Process().children() if "cbm.training.collect" in " ".join(each.cmdline())]


class Meeting(PixelDot):
    """Late in training, a step ends when an update is under way."""

    def step(self, action: np.ndarray) -> Any:
        folder = Path(os.environ["MEETING"])
        if folder.exists():
            meet(folder / "step", folder / "update")
        return super().step(action)


def meet(own: Path, other: Path) -> None:
    """Leave a sign, and wait for the other's."""
    own.touch()
    deadline = time.monotonic() + 20
    while not other.exists():
        assert time.monotonic() < deadline, f"{own.name} is alone"
        time.sleep(0.005)


class Breaking(PixelDot):
    """Fails in the seventh episode of training."""

    episodes = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        self.episodes += 1
        return super().reset(seed=seed, options=options)

    def step(self, action: np.ndarray) -> Any:
        if self.episodes == 7 and os.environ["PARENT"] != str(os.getpid()):
            raise RuntimeError("the arm fell off")
        return super().step(action)


gym.register("Meeting-v0", entry_point=f"{__name__}:Meeting")
gym.register("Breaking-v0", entry_point=f"{__name__}:Breaking")


def test_the_environment_steps_while_the_agent_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signs = tmp_path / "signs"
    monkeypatch.setenv("MEETING", str(signs))
    chosen = resolve_machine(config("drqv2", "test_overlap:Meeting-v0"))
    collector = make_collector(chosen)
    try:
        session = Session(chosen, collector, tmp_path / "replay", None)
        for _ in range(20):
            session.store(collector.take(session.at.env_step))
        batch = session.agent.sample(session.replay, session.sampling)
        signs.mkdir()
        collector.go_ahead(range(session.at.env_step, session.at.env_step + 1))
        meet(signs / "update", signs / "step")
        session.agent.update(batch, 0)
        assert collector.ahead == 1
        session.store(collector.take(session.at.env_step))
    finally:
        collector.close()
    assert not collecting()


def test_a_failing_environment_ends_the_run_and_leaves_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARENT", str(os.getpid()))
    chosen = config("drqv2", "test_overlap:Breaking-v0", training__checkpoint_every=20)
    with pytest.raises(RuntimeError, match="the arm fell off") as caught:
        loop.train(chosen, tmp_path, quiet=True)
    assert "in step" in caught.value.__notes__[0]  # its traceback
    assert load(tmp_path)[0] == 120  # after six episodes
    assert "the arm fell off" in (tmp_path / "ended.json").read_text()
    assert not collecting()


def test_a_process_that_dies_is_said(tmp_path: Path) -> None:
    collector = make_collector(resolve_machine(config("drqv2")))
    try:
        assert collector.shapes.obs == (9, 24, 24)
        collecting()[0].kill()
        with pytest.raises(CBMError, match="the collecting process died"):
            collector.begin(0)
    finally:
        collector.close()
    with pytest.raises(CBMError, match="nosuchmodule"):
        loop.train(config(env="nosuchmodule:X-v0"), tmp_path, quiet=True)
    assert not collecting()


def test_an_agent_that_cannot_be_copied_acts_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = config("drqv2", training__total_steps=120)
    plain = replace(plain, training=replace(plain.training, overlap=False))
    loop.train(plain, tmp_path / "plain", quiet=True)
    monkeypatch.delattr(Acting, "acting")
    loop.train(config("drqv2", training__total_steps=120), tmp_path / "asked")
    assert "drqv2 cannot act while it learns" in capsys.readouterr().out
    ours, theirs = (load(tmp_path / name)[1]["agent"] for name in ("asked", "plain"))
    assert same(ours, theirs)


def test_who_overlaps() -> None:
    assert make_config(preset="laptop").training.overlap
    assert not make_config().training.overlap
    assert not make_config(preset="released").training.overlap
