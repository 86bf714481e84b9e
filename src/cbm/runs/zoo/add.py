"""Make an entry of the zoo from a run."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cbm.config import EnvConfig, RunConfig, make_config, read_provenance, write_config
from cbm.errors import CBMError
from cbm.runs import checkpoint
from cbm.runs.directory import RunDir
from cbm.runs.load import find_run, load_checkpoint
from cbm.runs.zoo.entries import FORM, PREFIX, RECORDS, Entry, EntryJson, File, Made, check_name, folders, verify
from cbm.schema.tree import Effect, as_text, from_json, table, to_json
from cbm.system.files import aside, read_file, write_whole
from cbm.system.jsonl import read_lines


def add(run: Path | str, name: str | None = None, replace: bool = False) -> Entry:
    """Make an entry from a run's newest checkpoint, in the first folder of the zoo. Its default name is TASK/AGENT."""
    source = find_run(run)
    owner = source.owner()
    if owner is not None:
        raise CBMError(f"{source.root} is being trained by process {owner}. Add it when training is done.")
    config, env_step, state = load_checkpoint(source)
    name = check_name((name or f"{config.env.name}/{config.agent_name}").removeprefix(PREFIX))
    folder = folders()[0]
    root = folder / name
    if root.exists() and not replace:
        raise CBMError(f"{root} already exists. Choose another --name, or add --replace.")
    for part in (*root.relative_to(folder).parents,)[:-1]:
        if (folder / part / "entry.json").exists():
            raise CBMError(f"{part} is an entry itself, so {name} cannot be one. Choose another --name.")
    returns = _returns(source, config, env_step)
    origin = read_provenance(source.config)
    known = {"commit": origin.get("git"), "created": origin.get("created"), "versions": origin.get("versions")}
    root.parent.mkdir(parents=True, exist_ok=True)
    with aside(root) as made:
        made.mkdir()
        write_config(made / "config.json", config, _without_folders(origin))
        for record in RECORDS:
            if (source.root / record).exists() and (data := read_file(source.root / record, source.root)):
                write_whole(made / record, data, made)
        kept = {key: value for key, value in state["agent"].items() if key not in ("optimizers", "generator", "recent")}
        kept["modules"] = {name: value for name, value in kept["modules"].items() if not name.startswith("target_")}
        checkpoint.save(
            made / "checkpoint", env_step, {"config": state["config"], "shapes": state["shapes"], "agent": kept}
        )
        about = EntryJson(
            zoo=FORM,
            agent=config.agent_name,
            task=config.env.name,
            distraction=config.env.distraction,
            env_step=env_step,
            returns=returns,
            made=from_json(Made, {"command": train_command(config), "seed": config.seed, **known}),
            files=_files(made),
        )
        write_whole(made / "entry.json", (json.dumps(to_json(about), indent=1) + "\n").encode(), made)
        verify(made)
    return Entry(name, root, about)


def train_command(config: RunConfig) -> str:
    """The command that trains such a run again, with every setting that differs from its preset."""
    env = config.env
    words = ["--task", env.task] if env.env_id is None else ["--env", env.env_id]
    words += ["--agent", config.agent_name, "--preset", config.preset, "--seed", str(config.seed)]
    if env.env_id is None:
        words += ["--distraction", env.distraction]
    first = EnvConfig(task=env.task, env_id=env.env_id, distraction=env.distraction)
    usual = {row.name: row for row in table(make_config(config.agent_name, first, config.preset, config.seed))}
    for row in table(config):
        if row.value != usual[row.name].value and row.effect > Effect.ROUNDING:
            words += [f"--{row.name}", as_text(row.value)]
    return shlex.join(["cbm", "train", *words])


def _returns(run: RunDir, config: RunConfig, env_step: int) -> dict[str, tuple[float, ...]]:
    """The evaluation at the checkpoint, which `cbm eval` plays again."""
    for line in reversed(read_lines(run.evals, run.root)):
        if line.get("env_step") == env_step:
            return {split: tuple(map(float, line[split]["returns"])) for split in config.env.splits}
    raise CBMError(
        f"{run.root} has no evaluation at its newest checkpoint (step {env_step:,}), so there are no returns to store. "
        f"Let it finish first: {run.resume_command}"
    )


def _without_folders(origin: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance of a run, without the paths of the machine that it was trained on."""
    command = origin.get("command")
    if not isinstance(command, list):
        return dict(origin)
    return {**origin, "command": [Path(word).name if str(word).startswith("/") else word for word in command]}


def _files(root: Path) -> dict[str, File]:
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    contents = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    return {name: File(len(data), hashlib.sha256(data).hexdigest()) for name, data in contents.items()}
