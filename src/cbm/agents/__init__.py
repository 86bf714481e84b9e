"""Agents: one file (or folder) and one line here each. `drqv2+cbm` is `drqv2` that carries the objective `cbm`.

`released-drqv2-cbm` and `released-drq-cbm` are the code of the paper's authors, whole. Other packages add theirs by
entry points `cbm.agents` (docs/extending.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym

from cbm.agents.actor_critic import ActorCriticConfig
from cbm.agents.base import Setup, seeded
from cbm.agents.drq import DrQ, DrQConfig
from cbm.agents.drqv2 import DrQv2, DrQv2Config
from cbm.agents.proto_rl import ProtoRL, ProtoRLConfig
from cbm.agents.released import ReleasedConfig, ReleasedDrQ, ReleasedDrQv2
from cbm.agents.svea import SVEA, SVEAConfig
from cbm.agents.tpc import TPC, TPCConfig
from cbm.errors import CBMError, choose
from cbm.objectives import OBJECTIVES
from cbm.objectives.cbm import DynamicsConfig
from cbm.registry import Registry
from cbm.schema.methods import AgentConfig, ObjectiveConfig
from cbm.types import Agent

__all__ = [
    "AGENTS",
    "RELEASED",
    "ActorCriticConfig",
    "AgentConfig",
    "AgentEntry",
    "Setup",
    "agent_names",
    "configs",
    "make_agent",
    "split_name",
]


class AgentEntry(NamedTuple):
    """`build(config, setup, objective)` makes an `Agent`; without `carries` it takes no objective."""

    config: type[AgentConfig]
    build: Callable[..., Agent]
    carries: bool = True


AGENTS = Registry(
    "cbm.agents",
    AgentEntry,
    {
        "drq": AgentEntry(DrQConfig, DrQ),
        "drqv2": AgentEntry(DrQv2Config, DrQv2),
        "proto": AgentEntry(ProtoRLConfig, ProtoRL, carries=False),
        "released-drq-cbm": AgentEntry(ReleasedConfig, ReleasedDrQ, carries=False),
        "released-drqv2-cbm": AgentEntry(ReleasedConfig, ReleasedDrQv2, carries=False),
        "svea": AgentEntry(SVEAConfig, SVEA, carries=False),
        "tpc": AgentEntry(TPCConfig, TPC, carries=False),
    },
)


RELEASED = {"drq+cbm": "released-drq-cbm", "drqv2+cbm": "released-drqv2-cbm"}  # what the authors published


def agent_names() -> list[str]:
    """Every name that `make_agent` takes."""
    return [
        name + suffix
        for name, entry in AGENTS.items()
        for suffix in ["", *(f"+{objective}" for objective in OBJECTIVES if entry.carries)]
    ]


def split_name(name: str) -> tuple[str, str | None]:
    """`drqv2+cbm` -> ("drqv2", "cbm"), `drqv2` -> ("drqv2", None); an error that names the choices for any other."""
    agent, plus, objective = name.partition("+")
    entry = choose("agent", agent, AGENTS)
    if not plus:
        return agent, None
    choose("objective", objective, OBJECTIVES)
    if not entry.carries:
        raise CBMError(f"the agent {agent!r} cannot carry an objective, so there is no {name!r}")
    return agent, objective


def configs(name: str) -> tuple[AgentConfig, ObjectiveConfig | None]:
    """The default configs (those of the preset `paper`) of an agent and of its objective, if it has one."""
    agent, objective = split_name(name)
    return AGENTS[agent].config(), None if objective is None else OBJECTIVES[objective].config()


def make_agent(
    name: str,
    setup: Setup | gym.Env[Any, Any],
    config: AgentConfig | None = None,
    objective_config: ObjectiveConfig | None = None,
) -> Agent:
    """An agent with fresh weights.

    Args:
        name: such as `drqv2+cbm`; `agent_names()` lists them.
        setup: what it must know of its environment; or the environment.
        config: its settings; those of the preset `paper` by default.
        objective_config: the same for its objective.

    Examples:
        >>> import cbm
        >>> env = cbm.make_env("cartpole-swingup", size=32)
        >>> agent = cbm.make_agent("drqv2+cbm", env)
        >>> obs, info = env.reset(seed=0)
        >>> agent.act(obs).shape
        (1,)
        >>> agent.encode(obs[None]).shape
        torch.Size([1, 50])
        >>> env.close()
    """
    setup = setup if isinstance(setup, Setup) else Setup.of(setup)
    agent, objective_name = split_name(name)
    default, objective_default = configs(name)
    config = default if config is None else config
    _check(agent, config, AGENTS[agent].config)
    objective = None
    if objective_name is not None:
        entry = OBJECTIVES[objective_name]
        objective_config = objective_default if objective_config is None else objective_config
        _check(objective_name, objective_config, entry.config)
        if config.batch_size < entry.min_batch:
            raise CBMError(
                f"{objective_name!r} compares observations of a batch, so agent.batch_size must be at least "
                f"{entry.min_batch}, not {config.batch_size}"
            )
        few = not isinstance(config, ActorCriticConfig) or config.batch_episodes
        if isinstance(objective_config, DynamicsConfig) and objective_config.compares_episodes and not few:
            raise CBMError(
                "objective.episode_means and objective.episode_weight need several transitions of each episode in a "
                "batch: add, for example, --agent.batch_episodes 4"
            )
        with seeded(setup.seed):
            objective = entry.build(
                objective_config,
                latent_dim=config.feature_dim,
                action_dim=setup.action_dim,
                reward_scale=1.0 / setup.action_repeat,
            )
    return AGENTS[agent].build(config, setup, objective)


def _check(name: str, config: object, expected: type) -> None:
    if not isinstance(config, expected):
        raise CBMError(f"{name!r} takes a {expected.__name__}, not a {type(config).__name__}")
