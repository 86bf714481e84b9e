"""Evaluation episodes, each with its own seed, spread over worker processes.

A worker has its own agent and environments and plays whole episodes on one thread; the parent sends it weights and
seeds. An episode depends only on the weights and its seed, so the returns do not depend on the number of workers, and
nothing here touches the random state of training. The same workers play the episodes of analyses. Gymnasium's
AsyncVectorEnv with one batched policy in the parent was measured too: on two busy cores it played 28 agent steps per
second against 49, because every step waits for the slowest environment, and it would mix up the memories of recurrent
agents.
"""

from __future__ import annotations

import subprocess
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, TypeVar

import gymnasium as gym
import numpy as np
import torch

from cbm.config import EnvConfig, from_json
from cbm.config.build import Shapes, load_weights, make_environment, make_run_agent, one_thread
from cbm.errors import CBMError
from cbm.evaluation.play import Interrupted, PlayJob
from cbm.runs.state_tree import Json, pack, unpack
from cbm.system import child
from cbm.types import Agent

T = TypeVar("T")


class Weights(NamedTuple):
    """The state of an agent on its way to a worker, as `state_tree.pack` makes it."""

    skeleton: Json
    arrays: dict[str, np.ndarray]


class Workers:
    """Processes that play episodes. They start when first needed, and stay. With 0 of them, this process plays."""

    def __init__(self, config: Mapping[str, Any], count: int) -> None:
        self._config, self._count = dict(config), count
        self._processes: dict[Connection, subprocess.Popen[bytes]] = {}  # each at the other end of a socket
        self._local: _Player | None = None

    def start(self) -> None:
        """Start them, so that they build what they need while this process does something else."""
        while len(self._processes) < self._count:
            process, link = child.start("cbm.evaluation.workers")
            self._processes[link] = process
            link.send(self._config)

    def play(
        self,
        state: Mapping[str, Any],
        jobs: Sequence[PlayJob[T]],
        env_step: int,
        stop: Callable[[], bool] = lambda: False,
        done: Callable[[int, T], None] = lambda index, result: None,
    ) -> list[T]:
        """The results of all jobs, in order, played by an agent with this state (an `EpisodeSpec` gives an `Episode`).

        `done` is called with the index and result of each job as soon as it is finished.
        """
        self.start()
        skeleton, tensors = pack({**state, "optimizers": {}})
        # Arrays are copied into the pipe. PyTorch would pass tensors as open files, which outlive a killed process.
        weights = Weights(skeleton, {name: tensor.numpy() for name, tensor in tensors.items()})
        results: dict[int, T] = {}
        if self._count == 0:
            self._local = self._local or _Player(self._config)
            for index, job in enumerate(jobs):
                if stop():
                    raise Interrupted
                results[index] = self._local.play(weights, job, env_step)
                done(index, results[index])
        waiting = list(enumerate(jobs))
        busy: set[Connection] = set()

        def hand_out(link: Connection) -> None:
            if waiting:
                link.send((env_step, *waiting.pop(0)))
                busy.add(link)
            else:
                busy.discard(link)

        try:
            for link in self._processes:
                link.send(weights)
                hand_out(link)
            while busy:
                if stop():
                    raise Interrupted
                for ready in wait(list(busy), timeout=0.2):
                    assert isinstance(ready, Connection)
                    index, answer = ready.recv()
                    if isinstance(answer, str):
                        raise CBMError(f"an evaluation episode failed in its worker:\n{answer}")
                    results[index] = answer
                    hand_out(ready)
                    done(index, answer)
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            if stop():
                raise Interrupted from error
            codes = [process.poll() for process in self._processes.values()]
            raise CBMError(f"an evaluation worker died (exit codes {codes}). Is the machine out of memory?") from error
        return [results[index] for index in range(len(jobs))]

    def close(self) -> None:
        if self._local is not None:
            self._local.close()
        for link in self._processes:
            link.close()
        for process in self._processes.values():
            child.end(process, patience=2)


def serve(link: Connection) -> None:
    """A worker, at its end of a socket. It gets its configuration, and then weights and jobs."""
    weights: Weights | None = None
    with closing(_Player(link.recv())) as player:
        with suppress(Exception):  # what fails here fails again when needed, and is reported then
            player.prepare("train")
        while True:
            message = link.recv()
            if isinstance(message, Weights):
                weights = message
                continue
            env_step, index, job = message
            try:
                assert weights is not None
                link.send((index, player.play(weights, job, env_step)))
            except CBMError as error:
                link.send((index, str(error)))
            except Exception:
                link.send((index, traceback.format_exc()))


class _Player:
    """An agent and its environments, made when they are first needed."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = from_json(config)
        self._envs: dict[str, tuple[EnvConfig, gym.Env]] = {}  # the last one for each split
        self._agent: Agent | None = None
        self._loaded: Weights | None = None

    def prepare(self, split: str, elsewhere: EnvConfig | None = None) -> gym.Env:
        """An environment with these videos: that of the run, or another one."""
        wanted = self._config.env if elsewhere is None else elsewhere
        config, env = self._envs.pop(split, (None, None))
        if env is None or config != wanted:
            if env is not None:
                env.close()
            env = make_environment(wanted, split)
        self._envs[split] = wanted, env
        if self._agent is None:
            self._agent = make_run_agent(self._config, Shapes.of(env))
        return env

    def play(self, weights: Weights, job: PlayJob[T], env_step: int) -> T:
        env = self.prepare(job.split, job.env)
        assert self._agent is not None
        if self._loaded is not weights:
            self._loaded = weights
            tensors = {name: torch.from_numpy(array) for name, array in weights.arrays.items()}
            load_weights(self._agent, unpack(weights.skeleton, tensors))
        with one_thread():
            return job.run(self._agent, env, env_step)

    def close(self) -> None:
        for _, env in self._envs.values():
            env.close()
