"""`cbm train` for every name in the registry, on the toy task: a few updates, an evaluation, a resumed run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cbm.agents import ActorCriticConfig, agent_names
from cbm.config import EnvConfig, RunConfig, from_json, make_config, to_json
from cbm.training import loop

SETTINGS = {
    "agent.batch_size": 6,
    "agent.conv_channels": 4,
    "agent.hidden_dim": 16,
    "training.total_steps": 60,
    "training.seed_steps": 40,
    "training.eval_every": 60,
    "training.eval_episodes": 1,
    "training.eval_workers": 0,
    "training.log_every": 10,
    "training.threads": 1,
    "training.replay_capacity": 500,
    "training.film": False,
}
OWN = {  # an episode has 11 frames, and an agent step is two environment steps
    "svea": {"agent.first_updates": 0},
    "tpc": {
        "agent.length": 8,
        "agent.memory_dim": 16,
        "agent.conv_layers": 2,
        "agent.model_first": 1,
        "agent.updates_per_env_step": 0.5,
    },
}


def config(name: str) -> RunConfig:
    env = EnvConfig(env_id="toy:PixelDot-v0", size=24, action_repeat=2)
    values = SETTINGS | OWN.get(name, {})
    return make_config(name, env, seed=1, overrides=[(key, str(value)) for key, value in values.items()])


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", agent_names())
def test_trains_evaluates_and_resumes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "helpers"))  # where the toy task is
    loop.train(config(name), tmp_path, quiet=True)
    assert loop.resume(tmp_path, total_steps=80, quiet=True).at.updates == 21
    assert [line["env_step"] for line in lines(tmp_path / "evals.jsonl")] == [0, 60, 80]
    assert any("loss/critic" in line for line in lines(tmp_path / "metrics.jsonl"))


@pytest.mark.parametrize("name", agent_names())
def test_presets(name: str) -> None:
    paper, laptop = make_config(name), make_config(name, preset="laptop")
    sizes = {"proto": 512, "tpc": 250}.get(name, 128), 12 if name == "tpc" else 64
    assert (paper.agent.batch_size, laptop.agent.batch_size) == sizes
    assert (paper.env.size, laptop.env.size) == (84, 64)
    if isinstance(paper.agent, ActorCriticConfig):
        assert (paper.agent.conv_strides, laptop.agent.conv_strides) == ((2, 1, 1, 1), (2, 2, 1, 1))
        pace = 16 if laptop.objective is None else laptop.objective.laptop_pace
        assert (paper.agent.updates_per_step, laptop.agent.updates_per_step) == (1.0, 8 / pace)  # repeat 8
    for chosen in (paper, laptop):
        assert from_json(to_json(chosen)) == chosen
