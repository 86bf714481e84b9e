"""The configuration: presets, JSON in and out, options of the command line, and what is refused."""

from __future__ import annotations

import json
import re
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import tyro

from cbm.agents import AGENTS, RELEASED, agent_names
from cbm.cli.settings_page import settings_page
from cbm.cli.train import TrainArgs, expand_overrides, run_config
from cbm.config import PRESETS, EnvConfig, RunConfig, from_json, make_config, read_config, to_json, write_config
from cbm.envs.tasks import TASKS
from cbm.errors import CBMError
from cbm.objectives import OBJECTIVES
from cbm.runs.provenance import provenance
from cbm.schema.tree import BadSetting, override


def options(*words: str) -> RunConfig:
    """The configuration that `cbm train` with these words would run."""
    return run_config(tyro.cli(TrainArgs, args=expand_overrides(words)))


@pytest.mark.parametrize(
    ("agent", "preset"),
    [(a, p) for a in agent_names() for p in PRESETS if p != "released" or a in (*RELEASED, *RELEASED.values())],
)
def test_round_trip_through_json(agent: str, preset: str) -> None:
    config = make_config(agent, EnvConfig(distraction="easy", scale=0.25), preset, seed=3)
    assert from_json(json.loads(json.dumps(to_json(config)))) == config


def test_the_paper_preset_is_the_table_of_the_paper() -> None:
    config = make_config("drqv2+cbm")
    env, agent, objective, training = config.env, config.agent, config.objective, config.training
    assert (env.size, env.frame_stack, env.action_repeat) == (84, 3, 8)
    assert env.noise == TASKS["cartpole-swingup"].noise
    assert (agent.discount, agent.batch_size, agent.lr, agent.shift_pad) == (0.99, 128, 5e-4, 4)
    assert (agent.conv_strides, agent.conv_channels, agent.feature_dim) == ((2, 1, 1, 1), 32, 50)
    assert (agent.hidden_dim, agent.actor_every, agent.target_every, agent.target_rate) == (1024, 2, 2, 0.01)
    assert (objective.prototypes, objective.reward_rate, objective.temperature) == (128, 0.01, 0.1)
    assert objective.epsilon == 0.05
    assert (training.seed_steps, training.replay_capacity, training.total_steps) == (4_000, 500_000, 500_000)


def test_the_laptop_preset_makes_the_same_changes_for_every_agent() -> None:
    def settings(agent: str, preset: str) -> dict[str, object]:
        config = to_json(make_config(agent, preset=preset))
        parts = ("env", "agent", "objective", "training")
        return {f"{part}.{name}": config[part][name] for part in parts for name in config[part] or ()}

    agents = [agent for agent in agent_names() if agent != "tpc"]  # which has sizes of its own
    laptop = {agent: settings(agent, "laptop") for agent in agents}
    changed = {
        name for agent in agents for name, value in settings(agent, "paper").items() if value != laptop[agent][name]
    }
    assert {"agent.updates_per_step", "agent.lr", "agent.batch_size"} <= changed
    own = {  # docs/results/recipe.md
        "agent.batch_episodes": 4,
        "agent.alike_shifts": 0.5,
        "agent.head_updates": 8,
        "agent.updates_per_step": 0.25,
    }
    for name in changed - set(own):
        those = [agent for agent in agents if not (name == "agent.colour_jitter" and agent.startswith("released"))]
        assert len({str(laptop[agent][name]) for agent in those if name in laptop[agent]}) == 1, name
    contrastive = {f"{base}+{name}" for base in ("drq", "drqv2") for name in ("cbm", "dynamics", "bisim-nce")}
    for name, value in own.items():
        assert {agent for agent in agents if laptop[agent][name] == value} == contrastive


@pytest.mark.parametrize("task", ["cartpole-swingup", "cheetah-run", "walker-walk"])  # repeats of 8, 4 and 2
@pytest.mark.parametrize("agent", ["drqv2", "drq+cbm", "svea", "proto"])
def test_the_laptop_preset_makes_as_many_updates_in_every_task(agent: str, task: str) -> None:
    config = make_config(agent, EnvConfig(task), "laptop")
    agent_steps = config.training.total_steps / (config.env.action_repeat or 0)
    assert config.updates_per_agent_step * agent_steps == 500_000 / (32 if "+" in agent else 16)


def test_nothing_can_be_changed_afterwards() -> None:
    with pytest.raises(FrozenInstanceError):
        make_config("drq").seed = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sede": 3}, "unknown setting 'sede'. Did you mean 'seed'"),
        ({"seed": "3"}, "seed must be a whole number, not '3'"),
        ({"seed": True}, "seed must be a whole number, not True"),
        ({"env": {"taks": "x"}}, "unknown setting 'env.taks'. Did you mean 'task'"),
        ({"env": {"scale": "much"}}, "env.scale must be a number, not 'much'"),
        ({"env": 3}, "env must be an object"),
        ({"agent": {"lr": None}}, "agent.lr must be a number, not None"),
        ({"agent": {"conv_strides": [2, "1"]}}, r"agent.conv_strides\[1\] must be a whole number"),
        ({"objective": {"prototypes": 1.5}}, "objective.prototypes must be a whole number, not 1.5"),
        ({"objective": {"reward_average": "mean"}}, "objective.reward_average must be one of 'actual', 'balanced'"),
        ({"agent": {"actor_bound": 0}}, "agent.actor_bound must be above 0, not 0"),
        ({"training": {"eval_evry": 1}}, "Did you mean 'eval_every'"),
        ({"training": {"log_every": 0}}, "training.log_every must be 1 to 1e12, not 0"),
        ({"agent_name": "drqv3+cbm"}, "unknown agent 'drqv3'. Did you mean 'drqv2'"),
    ],
)
def test_a_wrong_key_or_type_in_json_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(CBMError, match=message.replace("|", r"\|").replace("'.", r"'\.")):
        from_json(to_json(make_config("drqv2+cbm")) | change)


def test_an_agent_without_objective_takes_none() -> None:
    data = to_json(make_config("drq"))
    assert data["objective"] is None
    with pytest.raises(BadSetting, match="'drq' has no objective"):
        from_json(data | {"objective": {"prototypes": 4}})


def test_every_documented_option_reaches_the_configuration() -> None:
    words = """
        --task walker-walk --agent drq+cbm --distraction hard --preset laptop --seed 7 --steps 20000
        --scale 0.2 --num-videos 6 --dynamic --videos davis --device cpu --prototypes 64 --mixed-precision
        --agent.lr 1e-3 --objective.temperature=0.2 --env.noise.steps 5e4 --agent.conv-strides 2,2,2
        --training.threads 1 --training.film false --env.action_repeat 3
    """
    config = options(*words.split())
    env, training = config.env, config.training
    assert (env.task, env.distraction, env.scale, env.num_videos) == ("walker-walk", "hard", 0.2, 6)
    assert (env.dynamic, env.videos, env.action_repeat) == (True, "davis", 3)
    assert env.noise is not None
    assert env.noise.steps == 50_000
    assert (config.agent_name, config.preset, config.seed) == ("drq+cbm", "laptop", 7)
    assert (config.agent.lr, config.agent.conv_strides, config.agent.mixed_precision) == (1e-3, (2, 2, 2), True)
    assert (config.objective.prototypes, config.objective.temperature) == (64, 0.2)
    assert (training.total_steps, training.threads, training.film, training.device) == (20_000, 1, False, "cpu")
    assert config.run_name == "walker-walk-drq+cbm-hard-s7"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--task cartpole-swing", "Did you mean 'cartpole-swingup'"),
        ("--agent drqv2+cmb", "Did you mean 'cbm'"),
        ("--preset latop", "Did you mean 'laptop'"),
        ("--agent.lrr 1", "unknown setting 'agent.lrr'. Did you mean 'lr'"),
        ("--agnet.lr 1", "unknown setting 'agnet'. Did you mean 'agent'"),
        ("--agent.lr fast", "agent.lr must be a number, not 'fast'"),
        ("--agent.batch_size 1.5", "agent.batch_size must be a whole number, not '1.5'"),
        ("--env.dynamic perhaps", "env.dynamic must be true or false"),
        ("--objective.reward_average mean", "objective.reward_average must be one of"),
        ("--agent drq --preset released", "nothing for 'drq'; choose --preset paper or laptop"),
        ("--agent drq --objective.temperature 1", "objective is None in this run"),
        ("--agent drq --prototypes 3", "--prototypes needs an agent that carries CBM"),
        ("--env.noise 3", "env.noise is a group; set one of: env.noise.start"),
        ("--env.noise.steps", "--env.noise.steps needs a value"),
        ("--set agent.lr", "write NAME=VALUE"),
        ("--env a:b --task cartpole-swingup", "--env replaces --task"),
        ("--steps 1000 --training.total_steps 2000", "--steps and --training.total_steps are the same setting"),
        ("--distraction easy --env.distraction hard", "--distraction and --env.distraction are the same setting"),
    ],
)
def test_a_wrong_option_is_named_with_what_was_meant(words: str, message: str) -> None:
    with pytest.raises(CBMError, match=message):
        options(*words.split())


def test_a_mistyped_flag_is_named_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options("--distracton", "easy")
    assert "--distraction" in capsys.readouterr().err


def test_a_setting_is_replaced_and_the_rest_stays() -> None:
    config = make_config("drqv2")
    changed = override(config, "training.eval_workers", "none")
    assert changed == replace(config, training=replace(config.training, eval_workers=None))
    assert override(config, "training.eval_workers", "3").training.eval_workers == 3


def test_the_sets_of_videos_are_those_that_the_run_shows() -> None:
    assert EnvConfig(distraction="easy").splits == ("train", "unseen")
    assert EnvConfig(distraction="camera").splits == ("train",)
    assert EnvConfig(distraction="easy", env_id="toy:PixelDot-v0").splits == ("train",)


def test_config_json_tells_where_the_run_came_from(tmp_path: Path) -> None:
    config = make_config("drq+cbm")
    write_config(tmp_path / "config.json", config, provenance())
    written = json.loads((tmp_path / "config.json").read_text())["provenance"]
    assert written["versions"]["torch"]
    assert "git" in written
    assert read_config(tmp_path / "config.json") == config
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CBMError, match="is not JSON"):
        read_config(tmp_path / "config.json")


CHOSEN = (*AGENTS, *(f"drqv2+{objective}" for objective in OBJECTIVES))  # each config class at least once


def numbers_of(config: RunConfig) -> list[tuple[str, Any, Any]]:
    """Every setting that is a number: dotted name, the dataclass that has it, and its type."""
    found = []

    def walk(part: Any, prefix: str) -> None:
        hints = get_type_hints(type(part), include_extras=True)
        for field in fields(part):
            value = getattr(part, field.name)
            if is_dataclass(value):
                walk(value, f"{prefix}{field.name}.")
            elif (
                re.search(r"\b(int|float)\b", hint := str(get_type_hints(type(part))[field.name]))
                and "Mapping" not in hint
            ):
                found.append((prefix + field.name, part, hints[field.name]))

    walk(config, "")
    return found


@pytest.mark.parametrize("agent", CHOSEN)
def test_every_number_has_a_range_that_holds_wherever_it_comes_from(agent: str) -> None:
    config = make_config(agent)
    for name, part, hint in numbers_of(config):
        ranges = re.findall(r"(Range|Length)\(", str(hint))
        assert ranges, f"{name} has no range"
        leaf, *outside = name.rpartition(".")[2], -1e30, float("nan"), float("inf"), -7
        for value in outside if "tuple" not in str(hint) else [(), (0,), (99,)]:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            with pytest.raises(CBMError, match=leaf):
                make_config(agent, overrides=[(name, text)])
            with pytest.raises(CBMError, match=leaf):
                replace(part, **{leaf: value})
            data = to_json(config)
            at = data
            for group in name.split(".")[:-1]:
                at = at[group]
            at[leaf] = value
            with pytest.raises(CBMError, match=leaf):
                from_json(data)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("agent.hidden_dim", "0"),
        ("agent.discount", "2"),
        ("agent.n_step", "0"),
        ("agent.target_rate", "7"),
        ("agent.updates_per_step", "-1"),
        ("agent.lr", "-1"),
        ("agent.conv_channels", "0"),
        ("agent.conv_strides", ""),
        ("agent.actor_every", "0"),
        ("objective.temperature", "-1"),
        ("objective.epsilon", "-1"),
        ("objective.sinkhorn_iterations", "0"),
        ("objective.reward_rate", "5"),
        ("objective.prototypes", "1e9"),
        ("env.noise.steps", "-1"),
        ("env.size", "2"),
        ("training.checkpoint_minutes", "nan"),
        ("training.total_steps", "1e300"),
        ("training.total_steps", "inf"),
        ("training.threads", "0"),
        ("training.threads", "100000"),
        ("training.eval_workers", "-1"),
        ("training.replay_capacity", "1e12"),
        ("training.device", "tpu"),
        ("seed", "-1"),
    ],
)
def test_what_was_once_accepted_is_refused_with_its_range(name: str, value: str) -> None:
    with pytest.raises(CBMError, match=f"^{re.escape(name)}.* must be .*(to|above|at least|cpu|list|number)"):
        make_config("drqv2+cbm", overrides=[(name, value)])


def test_the_page_of_settings_is_the_one_that_the_program_prints() -> None:
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    assert page.read_text() == settings_page(), "to write it again: python -m cbm.cli.settings_page > docs/settings.md"
