"""`cbm export`: every agent as a file that acts as the agent does, and every way to ask for it wrongly."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
import re
import runpy
import zipfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from cbm import make_env
from cbm.agents import AGENTS, Setup, agent_names, make_agent
from cbm.cli import main
from cbm.config import make_config
from cbm.errors import CBMError
from cbm.runs.directory import RunDir
from cbm.runs.export import TOLERANCE, export_agent, largest_difference, metadata, open_onnx, open_pt2
from cbm.runs.load import load_checkpoint, load_run
from cbm.types import Deployable, begin_episode
from toy import finished_run

GUIDE = Path(__file__).parents[2] / "docs" / "deploy.md"
SIZE, ACTIONS = 48, 1
SMALL = {"conv_channels": 8, "hidden_dim": 64}


@pytest.fixture(scope="module")
def observations() -> np.ndarray:
    """100 steps of 10 episodes of distracting cartpole under random actions: (100, 10, C, H, W)."""
    episodes = []
    with closing(make_env("cartpole-swingup", "easy", size=SIZE, action_repeat=1)) as env:
        env.action_space.seed(0)
        for seed in range(10):
            seen = [env.reset(seed=seed)[0]]
            seen += [env.step(env.action_space.sample())[0] for _ in range(99)]
            episodes.append(np.stack(seen))
    return np.stack(episodes, axis=1)


def small(name: str):
    """An agent with fresh weights, and its configuration."""
    overrides = [(f"agent.{key}", str(value)) for key, value in SMALL.items()]
    config = make_config(name, preset="laptop", overrides=[*overrides, ("env.size", str(SIZE))])
    return make_agent(name, Setup((9, SIZE, SIZE), ACTIONS, seed=3), config.agent, config.objective), config


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory):
    """An agent and its ONNX file, written once."""

    @functools.cache
    def export(name: str):
        agent, config = small(name)
        export_agent(agent, config, 70_000, path := tmp_path_factory.mktemp("exported") / "policy.onnx")
        return agent, path

    return export


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_acts_the_same_as_onnx_on_1000_observations(name, exported, observations):
    agent, path = exported(name)
    memory = agent.controller().memory_dim
    assert observations.shape[:2] == (100, 10)
    assert largest_difference(agent, open_onnx(path), memory, observations) <= TOLERANCE
    actions = agent.act(observations[:, 0], 0, explore=False) if not memory else None
    assert actions is None or actions.std() > 1e-3  # not the same action whatever is seen
    onnx.checker.check_model(onnx.load(path), full_check=True)
    assert onnxruntime.InferenceSession(path).get_modelmeta().custom_metadata_map == {
        "task": "cartpole-swingup",
        "distraction": "none",
        "frame_stack": "3",
        "size": str(SIZE),
        "channels": "RGB frames, oldest first",
        "action_repeat": "8",
        "action_low": "-1.0",
        "action_high": "1.0",
        "memory": str(memory),
        "agent": name,
        "env_step": "70000",
        "cbm_rl": importlib.metadata.version("cbm-rl"),
    }


@pytest.mark.parametrize("name", ["drqv2+cbm", "tpc"])
def test_the_same_in_pytorchs_own_format(name, tmp_path, observations):
    agent, config = small(name)
    export_agent(agent, config, 70_000, path := tmp_path / "policy.pt2", "pt2")
    controller = agent.controller()
    assert largest_difference(agent, open_pt2(path), controller.memory_dim, observations[:20]) <= TOLERANCE
    with zipfile.ZipFile(path) as archive:
        (facts,) = [entry for entry in archive.namelist() if entry.endswith("cbm.json")]
        assert json.loads(archive.read(facts)) == metadata(config, controller, 70_000)


@pytest.mark.parametrize("name", agent_names())
def test_every_name_has_a_controller_that_shares_nothing_with_the_agent(name, observations):
    agent, _ = small(name)
    assert isinstance(agent, Deployable)
    controller, seen = agent.controller(), torch.as_tensor(observations[0])
    inputs = [seen, torch.zeros(len(seen), controller.memory_dim)] if controller.memory_dim else [seen]
    before = agent.act(observations[0], 0, explore=False)
    with torch.no_grad():
        for module in agent.modules.values():
            for parameter in module.parameters():
                parameter.add_(1.0)
    action = controller(*inputs)[0] if controller.memory_dim else controller(*inputs)
    np.testing.assert_array_equal(action.numpy(), before)
    assert not any(parameter.requires_grad for parameter in controller.parameters())


def test_a_memory_matters_and_travels_through_the_file(exported, observations):
    agent, path = exported("tpc")
    policy, blank = open_onnx(path), np.zeros((10, agent.controller().memory_dim), np.float32)
    first, memory = policy(observations[0], blank)
    np.testing.assert_array_equal(memory[:, -ACTIONS:], first)
    assert np.abs(policy(observations[1], memory)[0] - policy(observations[1], blank)[0]).max() > 1e-3


def test_a_file_that_acts_otherwise_is_not_kept(tmp_path, monkeypatch):
    agent, config = small("drqv2")
    real = agent.controller

    def off():
        controller = real()
        controller.actor.net[-1].bias.add_(0.01)
        return controller

    monkeypatch.setattr(agent, "controller", off)
    with pytest.raises(CBMError, match="was not written"):
        export_agent(agent, config, 0, tmp_path / "policy.pt2", "pt2")
    assert not list(tmp_path.iterdir())


def test_a_run_computed_in_bfloat16_is_exported_in_32_bits(tmp_path, monkeypatch, capsys):
    config, env_step, state = load_checkpoint(RunDir(finished_run()))
    config = replace(config, agent=replace(config.agent, mixed_precision=True))
    monkeypatch.setattr("cbm.runs.load.load_checkpoint", lambda run: (config, env_step, state))
    assert main(["export", str(finished_run()), "-o", str(tmp_path / "policy.pt2")]) == 0
    assert "in 32 bits" in capsys.readouterr().out


def test_the_command(tmp_path, capsys):
    path = tmp_path / "new" / "policy.onnx"
    assert main(["export", str(finished_run()), "-o", str(path)]) == 0
    assert "drqv2+cbm on PixelDot-v0 at step 800" in capsys.readouterr().out
    assert [entry.name for entry in path.parent.iterdir()] == ["policy.onnx"]
    _, agent, _ = load_run(finished_run())
    obs = np.random.default_rng(1).integers(0, 256, (5, 9, 24, 24), dtype=np.uint8)
    np.testing.assert_allclose(open_onnx(path)(obs, None)[0], agent.act(obs, 0, explore=False), atol=TOLERANCE)


@pytest.mark.parametrize("name", ["drqv2", "tpc"])
def test_the_control_loop_of_the_guide_plays_on_the_suite(name, tmp_path, exported):
    """Its lines, with numpy and onnxruntime alone, do at every step what the agent does there."""
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE) == ["numpy", "onnxruntime"]
    assert len(code.partition("def play")[2].splitlines()) <= 20
    (script := tmp_path / "loop.py").write_text(code)
    agent, path = exported(name)
    with closing(make_env("cartpole-swingup", "easy", size=SIZE)) as env:
        watched = Watched(env, agent, steps=30)
        total = runpy.run_path(str(script))["play"](path, watched)
    assert total == pytest.approx(sum(watched.rewards))
    assert len(watched.differences) == 30
    assert max(watched.differences) <= TOLERANCE
    assert total > 0


class Watched:
    """What the guide asks of an environment: single frames, reward, whether it is over. The agent looks on."""

    def __init__(self, env, agent, steps: int) -> None:
        self.env, self.agent, self.steps = env, agent, steps
        self.rewards, self.differences = [], []

    def reset(self) -> np.ndarray:
        begin_episode(self.agent)
        self.obs, _ = self.env.reset(seed=5)
        return self.obs[-3:]

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool]:
        self.differences.append(np.abs(action - self.agent.act(self.obs, 0, explore=False)).max())
        self.obs, reward, terminated, truncated, _ = self.env.step(action)
        self.rewards.append(float(reward))
        return self.obs[-3:], self.rewards[-1], terminated or truncated or len(self.rewards) == self.steps


def refused(capsys, *words: object) -> str:
    assert main(["export", *map(str, words)]) == 1
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert err.count("\n") == 1
    return err


def test_a_folder_that_cannot_be_written(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    message = refused(capsys, finished_run(), "-o", tmp_path / "file" / "policy.onnx")
    assert "cannot write" in message
    assert "with -o" in message
    (tmp_path / "folder.onnx").mkdir()
    assert "it is a folder" in refused(capsys, finished_run(), "-o", tmp_path / "folder.onnx")
    assert "cannot write" in refused(capsys, finished_run(), "-o", "/proc/policy.onnx")


def test_a_run_without_a_checkpoint_or_no_run_at_all(tmp_path, capsys):
    (tmp_path / "config.json").write_text((finished_run() / "config.json").read_text())
    message = refused(capsys, tmp_path, "-o", tmp_path / "policy.onnx")
    assert f"cbm train --resume {tmp_path}" in message
    assert "is not a run directory" in refused(capsys, tmp_path / "nowhere", "-o", tmp_path / "policy.onnx")


@pytest.mark.parametrize("missing", ["onnx", "onnxscript", "onnxruntime"])
def test_onnx_not_installed(missing, tmp_path, capsys, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr("cbm.runs.export.find_spec", lambda name: None if name == missing else real(name))
    message = refused(capsys, finished_run(), "-o", tmp_path / "policy.onnx")
    assert f"needs {missing}: pip install" in message
    assert "cbm-rl[export]" in message
    assert f"-o {tmp_path / 'policy.pt2'}" in message


def test_a_name_that_no_format_has(tmp_path, capsys):
    assert "must end in .onnx or .pt2" in refused(capsys, finished_run(), "-o", tmp_path / "policy.pt")
    message = refused(capsys, finished_run(), "-o", tmp_path / "policy.onnx", "--format", "pt2")
    assert f"-o {tmp_path / 'policy.pt2'}" in message


def test_an_agent_without_a_controller_is_refused_with_the_reason(tmp_path):
    class Foreign:
        pass

    _, config = small("drqv2")
    with pytest.raises(CBMError, match="cannot be exported: it has no method `controller`"):
        export_agent(Foreign(), config, 0, tmp_path / "policy.onnx")
