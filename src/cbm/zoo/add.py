"""An entry of the zoo out of a run."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cbm import checkpoint
from cbm.config import (
    OF_THE_MACHINE,
    EnvConfig,
    RunConfig,
    bound_settings,
    check_settings,
    make_config,
    read_config,
    read_provenance,
    write_config,
)
from cbm.errors import CBMError
from cbm.files import read_file, write_whole
from cbm.jsonl import read_lines
from cbm.load import find_run, load_state
from cbm.run_dir import RunDir
from cbm.settings import Setting, from_json, table, to_json
from cbm.zoo.entries import FORM, PREFIX, RECORDS, About, Entry, File, Made, check_name, folders, put, verify


def add(run: Path | str, name: str | None = None, replace: bool = False) -> Entry:
    """Make an entry of a run's newest checkpoint, in the first folder of the zoo. Called TASK/AGENT if not named."""
    source = find_run(run)
    owner = source.owner()
    if owner is not None:
        raise CBMError(f"{source.root} is being trained by process {owner}. Add it when that is done.")
    config = read_config(source.config)
    env_step, state = load_state(source)
    check_settings(bound_settings(config), state.get("config"), source.config)
    name = check_name((name or f"{config.env.name}/{config.agent_name}").removeprefix(PREFIX))
    folder = folders()[0]
    root = folder / name
    if root.exists() and not replace:
        raise CBMError(f"{root} is there already. Choose another --name, or say --replace.")
    for part in (*root.relative_to(folder).parents,)[:-1]:
        if (folder / part / "entry.json").exists():
            raise CBMError(f"{part} is an entry itself, so {name} cannot be one. Choose another --name.")
    returns = _returns(source, config, env_step)
    origin = read_provenance(source.config)
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f".{name.replace('/', '-')}.{os.getpid()}"
    try:
        aside.mkdir()
        write_config(aside / "config.json", config, _without_folders(origin))
        _copy_records(source, aside)
        kept = {key: value for key, value in state["agent"].items() if key not in ("optimizers", "generator")}
        checkpoint.save(
            aside / "checkpoint", env_step, {"config": state["config"], "shapes": state["shapes"], "agent": kept}
        )
        about = About(
            zoo=FORM,
            agent=config.agent_name,
            task=config.env.name,
            distraction=config.env.distraction,
            env_step=env_step,
            returns=returns,
            made=_made(config, origin),
            files=_files(aside),
        )
        write_whole(aside / "entry.json", (json.dumps(to_json(about), indent=1) + "\n").encode(), aside)
        verify(aside)
        put(aside, root)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Entry(name, root, about)


def train_command(config: RunConfig) -> str:
    """The command that trains such a run again, with every setting in which it differs from its preset."""
    env = config.env
    words = ["--task", env.task] if env.env_id is None else ["--env", env.env_id]
    words += ["--agent", config.agent_name, "--preset", config.preset, "--seed", str(config.seed)]
    if env.env_id is None:
        words += ["--distraction", env.distraction]
    first = EnvConfig(task=env.task, env_id=env.env_id, distraction=env.distraction)
    usual = {row.name: row for row in table(make_config(config.agent_name, first, config.preset, config.seed))}
    for row in table(config):
        if row.value != usual[row.name].value and row.name.removeprefix("training.") not in OF_THE_MACHINE:
            words += [f"--{row.name}", _typed(row)]
    return shlex.join(["cbm", "train", *words])


def _typed(row: Setting) -> str:
    """A value as `settings.parse` reads it."""
    if isinstance(row.value, Mapping):
        return ",".join(f"{name}={value}" for name, value in row.value.items())
    if isinstance(row.value, tuple):
        return ",".join(map(str, row.value))
    return str(row.value).lower() if row.value is None or isinstance(row.value, bool) else str(row.value)


def _made(config: RunConfig, origin: Mapping[str, Any]) -> Made:
    known = {"commit": origin.get("git"), "created": origin.get("created"), "versions": origin.get("versions")}
    return from_json(Made, {"command": train_command(config), "seed": config.seed, **known})


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
    """Where a run comes from, without the paths of the machine that it was trained on."""
    command = origin.get("command")
    if not isinstance(command, list):
        return dict(origin)
    return {**origin, "command": [Path(word).name if str(word).startswith("/") else word for word in command]}


def _copy_records(source: RunDir, aside: Path) -> None:
    for record in RECORDS:
        if (source.root / record).exists():
            data = read_file(source.root / record, source.root)
            if data:
                write_whole(aside / record, data, aside)


def _files(root: Path) -> dict[str, File]:
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    contents = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    return {name: File(len(data), hashlib.sha256(data).hexdigest()) for name, data in contents.items()}
