"""Every setting, with its value, what it may be and what it means: for `cbm train --settings`, and for the docs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cbm.settings import table

if TYPE_CHECKING:
    from cbm.config import RunConfig

_HEAD = """# Every setting

Any of them can be set by its name, on the command line (`cbm train --agent.lr 1e-3`), in the file of a study and in
Python. A value outside of its range is refused, wherever it comes from, config.json included.
`cbm train --agent NAME --settings` prints those of a run. This page is made by `python -m cbm.commands.settings`.
"""


def settings_text(config: RunConfig) -> str:
    """The settings of a run, for a terminal."""
    lines = []
    for row in table(config):
        allowed = "" if row.allowed == "Any" else f"  ({row.allowed})"
        lines.append(f"--{row.name} {_shown(row.value)}{allowed}" + (f"\n      {row.about}" if row.about else ""))
    return "\n".join(lines)


def settings_page() -> str:
    """docs/settings.md: what all agents have, then each agent and each objective."""
    from cbm.agents import AGENTS
    from cbm.agents.parts import AgentConfig
    from cbm.config import EnvConfig, TrainingConfig
    from cbm.objectives import OBJECTIVES

    shared = {row.name: row for row in table(AgentConfig())}
    parts = [_HEAD]
    for title, prefix, config in (
        ("The environment", "env.", EnvConfig().resolved()),
        ("Training", "training.", TrainingConfig()),
        ("Every agent but TPC", "agent.", AgentConfig()),
        *((f"The agent {name}", "agent.", entry.config()) for name, entry in AGENTS.items()),
        *((f"The objective {name}", "objective.", entry.config()) for name, entry in OBJECTIVES.items()),
    ):
        own = isinstance(config, AgentConfig) and type(config) is not AgentConfig
        rows = [row for row in table(config) if not own or shared.get(row.name) != row]
        lines = [f"| `{prefix}{row.name}` | {_shown(row.value)} | {row.allowed} | {_cell(row.about)} |" for row in rows]
        head = f"## {title}\n| setting | default | may be | |\n|---|---|---|---|"
        parts.append("\n".join([head, *lines]) + "\n")
    return "\n".join(parts)


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(settings_page(), end="")
