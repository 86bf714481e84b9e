"""The agent steps of training, taken one by one, or ahead of time in a separate process.

With `training.overlap`, the environment takes the steps up to the next update while the current update computes. A
copy of the agent acts, with the weights from before the update and with its own random numbers. So the outcome of a
step never depends on which side was faster. A step that was taken ahead counts only when the loop asks for it, so a
checkpoint between two of them need not wait.

It is a process and not a thread because the tasks of dm_control are Python code, which would hold up the threads that
learn. Measured with four steps per update of `laptop`: 73 ms one after the other, 70 with a thread, 62 with a process.
"""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Sequence
from contextlib import closing
from functools import cached_property
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from cbm.agents import AGENTS, split_name
from cbm.config import RunConfig, from_json, to_json
from cbm.config.build import Shapes, make_run_agent
from cbm.config.seeds import seed_for
from cbm.errors import CBMError
from cbm.system import child
from cbm.training.stepper import Begun, Step, Stepper
from cbm.types import ActsApart, Agent

_PATIENCE = 5.0  # seconds that the process has to finish its last step when the run ends


def make_collector(config: RunConfig) -> Collector:
    """What takes the steps of a run. Call `close()` at the end."""
    agent = AGENTS[split_name(config.agent_name)[0]].build
    overlaps = config.training.overlap and hasattr(agent, "acting")  # as in `types.ActsApart`
    return Ahead(config) if overlaps else Stepper(config)


class Ahead:
    """A `Stepper` in another process, at the other end of a socket. Answers come in the order of the questions."""

    def __init__(self, config: RunConfig) -> None:
        self._process, self._link = child.start("cbm.training.collect")
        self._link.send(to_json(config))
        self.ahead = 0  # steps that were requested and not yet returned by `take`
        self._state: dict[str, Any] = {}  # after the last step that `take` returned

    @cached_property
    def shapes(self) -> Shapes:
        return self._answer()  # the first one; until it is needed, the process starts up in parallel

    def act_for(self, learner: Agent) -> None:
        """Act through a copy of `learner`."""
        assert isinstance(learner, ActsApart)
        self._learner = learner
        self._follow()
        self._state |= self._call("state")

    def begin(self, episode: int) -> Begun:
        return self._call("begin", episode)

    def take(self, env_step: int) -> Step:
        """The next agent step, at `env_step`: the first one taken ahead, or else one that is taken now."""
        start = time.perf_counter()
        if not self.ahead:
            self._ask("take", [env_step])
        step, state = self._answer()
        self._state |= state
        if self.ahead:
            self.ahead -= 1
            step.seconds["wait"] = time.perf_counter() - start
        return step

    def go_ahead(self, env_steps: range) -> None:
        """Before an update: from now on act with the current weights, and take these steps during the update."""
        assert not self.ahead, "steps are still under way with older weights"
        self._follow()
        self._ask("take", env_steps)
        self.ahead = len(env_steps)

    def _follow(self) -> None:
        weights = [tensor.detach().cpu().numpy().copy() for tensor in _acting_tensors(self._learner)]
        self._state["weights"] = weights
        self._ask("follow", weights)

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs of the steps that `take` has returned, in addition to what is in replay."""
        return dict(self._state)

    def restore(self, state: dict[str, Any], episode: int, actions: np.ndarray, newest_frame: np.ndarray) -> None:
        """Return to where `state` was taken, in an episode with these actions so far."""
        self._state = dict(state)
        self._call("restore", state, episode, actions, newest_frame)

    def _call(self, what: str, *args: object) -> Any:
        self._ask(what, *args)
        return self._answer()

    def _ask(self, what: str, *args: object) -> None:
        try:
            self._link.send((what, args))
        except OSError as error:
            raise self._died() from error

    def _answer(self) -> Any:
        try:
            done, result = self._link.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        if done:
            return result
        failure, story = result
        if failure is None:
            raise CBMError(f"the collecting process failed:\n{story}")
        failure.add_note(f"In the process that collects:\n{story}")
        raise failure

    def _died(self) -> CBMError:
        code = self._process.poll()
        return CBMError(f"the collecting process died (exit code {code}). Is the machine out of memory?")

    def close(self) -> None:
        self._link.close()
        child.end(self._process, _PATIENCE)


Collector = Stepper | Ahead


class _Apart(Stepper):
    """The same in the other process, where a copy of the learner acts."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        agent = make_run_agent(config, self.shapes)
        assert isinstance(agent, ActsApart)
        agent.generator.manual_seed(seed_for(config.seed, "act"))
        self._copy: ActsApart = agent
        self.act_for(agent)

    def follow(self, weights: Sequence[np.ndarray]) -> None:
        """Act with these weights from now on."""
        with torch.no_grad():
            torch._foreach_copy_(_acting_tensors(self._copy), [torch.from_numpy(each) for each in weights])

    def state(self) -> dict[str, Any]:
        """Also the random state and the memory of the copy. The rest of the learner is in the checkpoint."""
        memory = getattr(self._copy, "memory", None)
        return {
            **super().state(),
            "generator": self._copy.generator.get_state().numpy(),
            "memory": None if memory is None else {name: x.numpy() for name, x in memory.items()},
        }

    def restore(self, state: dict[str, Any], episode: int, actions: np.ndarray, newest_frame: np.ndarray) -> None:
        super().restore(state, episode, actions, newest_frame)
        self.follow(state["weights"])
        self._copy.generator.set_state(torch.from_numpy(state["generator"]))
        if state["memory"] is not None:
            memory = {name: torch.from_numpy(x) for name, x in state["memory"].items()}
            self._copy.memory = memory  # type: ignore[attr-defined] # not every agent has one


def _acting_tensors(agent: ActsApart) -> list[torch.Tensor]:
    """All tensors that `act` reads and `update` changes."""
    return [tensor for name in agent.acting for tensor in getattr(agent, name).state_dict().values()]


def serve(link: Connection) -> None:
    """The code of the other process."""
    torch.set_num_threads(1)
    try:
        with closing(_Apart(from_json(link.recv()))) as stepper:
            link.send((True, stepper.shapes))
            while True:
                what, args = link.recv()
                if what == "take":
                    for env_step in args[0]:
                        link.send((True, (stepper.take(env_step), stepper.state())))
                elif what == "follow":  # no answer is sent
                    stepper.follow(*args)
                else:
                    link.send((True, getattr(stepper, what)(*args)))
    except Exception as error:  # if it is that the parent has gone, this fails in the same way
        link.send((False, (_portable(error), traceback.format_exc())))


def _portable(error: Exception) -> Exception | None:
    """The error, if it can be sent to another process."""
    try:
        return error if isinstance(pickle.loads(pickle.dumps(error)), type(error)) else None
    except Exception:
        return None
