"""`cbm bench act`: how long one decision takes the agent and its exported ONNX file, in turns on one thread.

Sizes are those of the preset `paper`. Bars: the file is no slower than the agent, and 99 of 100 decisions take no
longer than the shortest agent step of the paper's tasks (40 ms in cheetah-run and finger-spin), so that a controller
keeps up.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import numpy as np

from cbm.agents import AGENTS, Setup, make_agent
from cbm.bench import Row, speedup
from cbm.config import make_config
from cbm.config.build import one_thread
from cbm.runs.export import export_agent, open_onnx
from cbm.types import Deployable

TASK = "cheetah-run"
ACTION_DIM = 6
AGENT_STEP = 0.04  # seconds


def rows(quick: bool = False, report: Callable[[str], None] = lambda what: None) -> Iterator[Row]:
    """Two rows for every agent that can be exported. `quick` takes fewer decisions, for tests."""
    with tempfile.TemporaryDirectory() as folder, one_thread():
        for name in AGENTS:
            report(name)
            times = decision_times(name, Path(folder) / f"{name}.onnx", decisions=30 if quick else 1_000)
            if times is not None:
                yield from summarise(name, *times)


def decision_times(name: str, path: Path, decisions: int) -> tuple[list[float], list[float]] | None:
    """Seconds of each decision by the agent and by its file; None for an agent that cannot be exported."""
    config = make_config(name)
    env = config.env
    shape = (3 * env.frame_stack, env.size, env.size)
    agent = make_agent(name, Setup(shape, ACTION_DIM), config.agent, config.objective)
    if not isinstance(agent, Deployable):
        return None
    memory_dim = agent.controller().memory_dim
    export_agent(agent, config, 0, path)
    policy, memory = open_onnx(path), np.zeros((1, memory_dim), np.float32) if memory_dim else None
    frames = np.random.default_rng(0).integers(0, 256, (16, *shape), dtype=np.uint8)
    by_agent, by_file = [], []
    for turn in range(decisions + 10):  # the first ten warm up
        obs = frames[turn % len(frames)]
        start = perf_counter()
        agent.act(obs)
        between = perf_counter()
        _, memory = policy(obs[None], memory)
        end = perf_counter()
        if turn >= 10:
            by_agent.append(between - start)
            by_file.append(end - between)
    return by_agent, by_file


def summarise(name: str, by_agent: list[float], by_file: list[float]) -> Iterator[Row]:
    agent_median, agent_late = (float(x) for x in np.percentile(by_agent, [50, 99]))
    median, late = (float(x) for x in np.percentile(by_file, [50, 99]))
    yield speedup(f"decision of {name} as ONNX, median seconds", TASK, median, agent_median, ">= 1")
    what = f"decision of {name} as ONNX, 99th percentile, seconds"
    yield Row(what, TASK, late, agent_late, agent_late / late, f"<= {AGENT_STEP}", late)
