"""Every agent and every objective has a page of one shape, which names all that is special to it."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from cbm.agents import AGENTS, ActorCriticConfig
from cbm.objectives import OBJECTIVES
from small_agents import agent, example

PAGES = Path(__file__).parents[2] / "docs" / "methods"
ENTRIES: dict[str, Any] = {**AGENTS, **OBJECTIVES}


def page(name: str) -> str:
    name = "released" if name.startswith("released-") else name.replace("-", "_")
    return (PAGES / f"{name}.md").read_text()


def setting_names(config: Any) -> set[str]:
    """Those that not every agent has; of a group, its members."""
    common = {field.name for field in fields(ActorCriticConfig)} if isinstance(config, ActorCriticConfig) else set()
    found = set()
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            found |= {f"{field.name}.{inner.name}" for inner in fields(value)}
        elif field.name not in common:
            found.add(field.name)
    return found


@pytest.mark.parametrize("name", ENTRIES)
def test_sections(name: str) -> None:
    sections = re.findall(r"^## (.*)$", page(name), re.MULTILINE)
    assert [section.split(" from ")[0] for section in sections] == [
        "What it is",
        "Equations",
        "Settings",
        "Differs",
        "Metrics",
    ]


@pytest.mark.parametrize("name", ENTRIES)
def test_settings(name: str) -> None:
    text = page(name)
    assert not {setting for setting in setting_names(ENTRIES[name].config()) if f"`{setting}`" not in text}


@pytest.mark.parametrize("name", ENTRIES)
def test_metrics(name: str) -> None:
    """What is not on the page of the agent that it is, or that carries it, or of DrQ, whose SAC others share."""
    known = page(name) + page("drq") + (page("drqv2") if name in OBJECTIVES else "")
    a = agent(f"drqv2+{name}" if name in OBJECTIVES else name)
    metrics = a.update(example(a), 0)
    assert not {metric for metric in metrics if f"`{metric}`" not in known}
