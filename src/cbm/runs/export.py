"""A trained agent as one file that acts without this package: ONNX, or PyTorch's own format (`cbm export`).

The file takes uint8 frames as the agent saw them in training and gives an action; it scales the pixels itself. What
else a user must know (task, frames in a stack, action repeat, ...) is in the file too. Each file is read back and
compared with the agent before it gets its final name.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.export import ExportedProgram

from cbm import __version__
from cbm.agents.controller import Controller
from cbm.config import RunConfig
from cbm.config.build import one_thread
from cbm.errors import EXPORT_HINT, CBMError, choose
from cbm.runs.load import load_run
from cbm.system.files import aside, check_output
from cbm.types import Agent, Deployable, begin_episode

TOLERANCE = 1e-5  # of an action in [-1, 1]
CHECKED = 64  # observations


# A policy file, opened: (obs, memory) -> (action, memory). `memory` is None for an agent without one, and zeros when an
# episode begins.
Policy = Callable[[np.ndarray, np.ndarray | None], tuple[np.ndarray, np.ndarray | None]]


class Format(NamedTuple):
    """How a traced controller is written to a file, and how the file is opened again."""

    needs: tuple[str, ...]
    write: Callable[[ExportedProgram, Mapping[str, str], Path], None]
    open: Callable[[Path], Policy]


def export(
    run: Path | str, path: Path, format: str | None = None, report: Callable[[str], None] = lambda what: None
) -> tuple[RunConfig, int, float]:
    """Write the policy of a run's newest checkpoint to `path`. Without `format`, the file's suffix decides.

    Returns the run's configuration, its environment step, and what `export_agent` returns.
    """
    chosen = _format(path, format)
    check_output(path)
    report("reading the run")
    config, agent, env_step = load_run(run, full_precision=True)
    return config, env_step, export_agent(agent, config, env_step, path, chosen, report)


def export_agent(
    agent: Agent,
    config: RunConfig,
    env_step: int,
    path: Path,
    format: str = "onnx",
    report: Callable[[str], None] = lambda what: None,
) -> float:
    """Write the policy of an agent. Returns the largest difference between actions of the file and of the agent."""
    if not isinstance(agent, Deployable):
        raise CBMError(
            f"the agent {config.agent_name!r} cannot be exported: it has no method `controller`, which returns the "
            "networks that act as one module (docs/extending.md)."
        )
    kind, controller = FORMATS[format], agent.controller()
    shape = (3 * config.env.frame_stack, config.env.size, config.env.size)
    try:
        with aside(path) as made, _quietly(), one_thread():
            report("tracing the networks")
            traced = trace(controller, shape)
            report(f"writing {path.name}")
            kind.write(traced, metadata(config, controller, env_step), made)
            report(f"comparing it with the agent on {CHECKED} observations")
            obs = np.random.default_rng(0).integers(0, 256, (CHECKED, 1, *shape), dtype=np.uint8)
            difference = largest_difference(agent, kind.open(made), controller.memory_dim, obs)
            if not difference <= TOLERANCE:  # also true for NaN
                raise CBMError(
                    f"{path} was not written: its actions differ from those of the agent by up to {difference:.1e}."
                )
    except OSError as error:
        raise CBMError(
            f"cannot write {path} ({error.strerror or error}). Choose a place that you can write to with -o."
        ) from error
    return difference


def metadata(config: RunConfig, controller: Controller, env_step: int) -> dict[str, str]:
    """What a control loop must know beyond the shapes of inputs and outputs."""
    env = config.env.resolved()
    facts = {
        "task": env.name,
        "distraction": env.distraction if env.env_id is None else "none",
        "frame_stack": env.frame_stack,
        "size": env.size,
        "channels": "RGB frames, oldest first",
        "action_repeat": env.action_repeat,
        "action_low": -1.0,
        "action_high": 1.0,
        "memory": controller.memory_dim,
        "agent": config.agent_name,
        "env_step": env_step,
        "cbm_rl": __version__,
    }
    return {name: str(value) for name, value in facts.items()}


def trace(controller: Controller, shape: tuple[int, int, int]) -> ExportedProgram:
    """The controller as a graph, for batches of any size."""
    inputs = [torch.zeros(2, *shape, dtype=torch.uint8)]
    if controller.memory_dim:
        inputs.append(torch.zeros(2, controller.memory_dim))
    batch = torch.export.Dim("batch")
    with torch.no_grad():
        return torch.export.export(controller, tuple(inputs), dynamic_shapes=tuple({0: batch} for _ in inputs))


def largest_difference(agent: Agent, policy: Policy, memory_dim: int, obs: np.ndarray) -> float:
    """The largest difference between the actions of an agent and of its file, for observations (T, N, C, H, W) of N
    episodes side by side."""
    differences, memory = [], np.zeros((obs.shape[1], memory_dim), np.float32) if memory_dim else None
    begin_episode(agent)
    for seen in obs:
        action, memory = policy(seen, memory)
        differences.append(np.abs(action - agent.act(seen)).max())
    begin_episode(agent)
    return float(np.max(differences))


def _write_onnx(traced: ExportedProgram, facts: Mapping[str, str], path: Path) -> None:
    memory = len(traced.graph_signature.user_inputs) > 1
    program = torch.onnx.export(
        traced,
        input_names=["observation", "memory"] if memory else ["observation"],
        output_names=["action", "next_memory"] if memory else ["action"],
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    model: Any = program.model_proto
    for name, value in facts.items():
        model.metadata_props.add(key=name, value=value)
    path.write_bytes(model.SerializeToString())


def open_onnx(path: Path) -> Policy:
    """Opened on one thread: the networks are too small to divide among several."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])

    def policy(obs: np.ndarray, memory: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        outputs = session.run(None, {"observation": obs} if memory is None else {"observation": obs, "memory": memory})
        return outputs[0], None if memory is None else outputs[1]

    return policy


def _write_pt2(traced: ExportedProgram, facts: Mapping[str, str], path: Path) -> None:
    with path.open("wb") as file:  # given a name, torch would insist that it ends in .pt2
        torch.export.save(traced, file, extra_files={"cbm.json": json.dumps(facts, indent=2)})


def open_pt2(path: Path) -> Policy:
    with path.open("rb") as file:
        module: Any = torch.export.load(file).module()

    @torch.no_grad()
    def policy(obs: np.ndarray, memory: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        if memory is None:
            return module(torch.from_numpy(obs)).numpy(), None
        action, following = module(torch.from_numpy(obs), torch.from_numpy(memory))
        return action.numpy(), following.numpy()

    return policy


FORMATS = {
    "onnx": Format(("onnx", "onnxscript", "onnxruntime"), _write_onnx, open_onnx),
    "pt2": Format((), _write_pt2, open_pt2),
}


def _format(path: Path, format: str | None) -> str:
    by_name = path.suffix.removeprefix(".")
    name = by_name if format is None else format
    if name not in FORMATS and format is None:
        raise CBMError(f"-o {path}: the name must end in {' or '.join(f'.{known}' for known in FORMATS)}.")
    kind = choose("format", name, FORMATS)
    if by_name != name:
        raise CBMError(f"--format {name} writes a file that ends in .{name}: type -o {path.with_suffix(f'.{name}')}")
    missing = [package for package in kind.needs if find_spec(package) is None]
    if missing:
        raise CBMError(
            f"exporting to ONNX needs {', '.join(missing)}: {EXPORT_HINT}. "
            f"PyTorch's own format needs nothing more: -o {path.with_suffix('.pt2')}"
        )
    return name


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence the exporter's remarks about packages that are not used here."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)
