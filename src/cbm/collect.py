"""The agent steps of training, taken one by one, or ahead of time in a process of their own.

With `training.overlap` the environment takes the steps that are due until the next update while this one computes. A
copy of the agent acts, with the weights from before the update and random numbers of its own. So what is done in a
step depends on the step alone, never on who was faster; and a step that was taken ahead counts only when the loop asks
for it, so a checkpoint between two of them needs no waiting.

A process and not a thread: the tasks of dm_control are Python, which would hold up the threads that learn. Measured
with four steps an update of `laptop`: 73 ms one after the other, 70 with a thread, 62 with a process.
"""

from __future__ import annotations

import pickle
import signal
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
import torch

from cbm import child
from cbm.agents import AGENTS, split_name
from cbm.config import RunConfig, from_json, to_json
from cbm.errors import CBMError
from cbm.factory import Shapes, make_environment, make_run_agent
from cbm.logs import Stopwatch
from cbm.rollout import Rollout
from cbm.seeds import seed_for
from cbm.types import Agent, begin_episode

_RGB = 3
_PATIENCE = 5.0  # seconds that the process has to end its last step when the run ends


class Begun(NamedTuple):
    """An episode that begins: its number, its first frame and what it shows."""

    episode: int
    frame: np.ndarray
    background: str


class Step(NamedTuple):
    """One agent step."""

    action: np.ndarray
    reward: float
    frame: np.ndarray  # the newest of the observation that it led to
    terminated: bool
    truncated: bool
    ended: dict[str, Any] | None  # the episode that it ended, as metrics.jsonl has it
    begun: Begun | None  # and the one that follows
    mark: dict[str, Any]  # random state and memory of whoever acts, after it
    seconds: tuple[float, float]  # of acting, and of the environment


class Stepper:
    """An environment, the episode under way, and who acts in it: the agent that learns, or a copy of it."""

    def __init__(self, config: RunConfig, copy: bool) -> None:
        self._config = config
        self._env = make_environment(config.env, "train")
        self._rollout = Rollout(self._env, config.seed)
        self._random_actions = np.random.default_rng(seed_for(config.seed, "explore"))
        self.shapes = Shapes.of(self._env)
        self._copy = copy
        self.agent: Any = None
        if copy:
            self.agent = make_run_agent(config, self.shapes)
            self.agent.generator.manual_seed(seed_for(config.seed, "act"))

    def begin(self, episode: int) -> Begun:
        obs = self._rollout.begin(episode)
        begin_episode(self.agent)
        return Begun(episode, _newest(obs), self._rollout.background)

    def take(self, env_step: int) -> Step:
        rollout, start = self._rollout, time.perf_counter()
        if env_step < self._config.training.seed_steps:
            action = self._random_actions.uniform(-1.0, 1.0, self.shapes.action).astype(np.float32)
        else:
            action = self.agent.act(rollout.obs, env_step, explore=True)
        acted, ended, begun = time.perf_counter(), None, None
        obs, reward, terminated, truncated, _ = rollout.step(action)
        frame = _newest(obs)
        if terminated or truncated:
            ended, begun = rollout.summary(), self.begin(rollout.index + 1)
        seconds = (acted - start, time.perf_counter() - acted)
        return Step(action, reward, frame, terminated, truncated, ended, begun, self.mark(), seconds)

    def follow(self, weights: Sequence[np.ndarray]) -> None:
        """Act with these weights from now on."""
        with torch.no_grad():
            torch._foreach_copy_(acting_tensors(self.agent), [torch.from_numpy(each) for each in weights])

    def mark(self) -> dict[str, Any]:
        """What `restore` needs besides the episode so far. Of the agent that learns, a checkpoint has the rest."""
        mark: dict[str, Any] = {"random_actions": self._random_actions.bit_generator.state}
        if self._copy:
            mark["generator"] = self.agent.generator.get_state().numpy()
            memory = getattr(self.agent, "memory", None)
            mark["memory"] = None if memory is None else {name: x.numpy() for name, x in memory.items()}
        return mark

    def restore(self, mark: dict[str, Any], episode: int, actions: np.ndarray, newest_frame: np.ndarray) -> None:
        """Back to where `mark` was made, within an episode with these actions so far."""
        self._rollout.replay(episode, actions, newest_frame)
        self._random_actions.bit_generator.state = mark["random_actions"]
        if self._copy:
            self.agent.generator.set_state(torch.from_numpy(mark["generator"]))
            if mark["memory"] is not None:
                self.agent.memory = {name: torch.from_numpy(x) for name, x in mark["memory"].items()}

    def close(self) -> None:
        self._env.close()


def acting_tensors(agent: Any) -> list[torch.Tensor]:
    """All that `act` reads and `update` changes."""
    return [tensor for name in agent.acting for tensor in getattr(agent, name).state_dict().values()]


def _newest(obs: np.ndarray) -> np.ndarray:
    return np.array(obs[-_RGB:])  # a copy: the environment may write the next one over it


def can_act_apart(agent_name: str) -> bool:
    """Whether a copy of the agent can act while it learns (`types.ActsApart`)."""
    return hasattr(AGENTS[split_name(agent_name)[0]].build, "acting")


class Collector:
    """Takes the steps of a run, here or in a process of its own. `close()` it."""

    def __init__(self, config: RunConfig, clock: Stopwatch | None = None) -> None:
        self._clock, self._repeat = Stopwatch() if clock is None else clock, config.env.action_repeat or 1
        self.overlaps = config.training.overlap and can_act_apart(config.agent_name)
        self._stepper: Stepper | _Remote = _Remote(config) if self.overlaps else Stepper(config, copy=False)
        self.ahead = 0  # steps that were asked for and not yet taken
        self._learner: Any = None
        self._weights: list[np.ndarray] = []  # that the copy acts with
        self._mark: dict[str, Any] = {}

    @property
    def shapes(self) -> Shapes:
        return self._stepper.shapes

    def act_for(self, learner: Agent) -> None:
        """Act as `learner`: by a copy if the run overlaps, else by itself."""
        self._learner = learner
        if isinstance(self._stepper, Stepper):
            self._stepper.agent = learner
        else:
            self._follow()
        self._mark = self._stepper.mark()

    def begin(self, episode: int) -> Begun:
        return self._stepper.begin(episode)

    def take(self, env_step: int) -> Step:
        """The next agent step, at `env_step`: the first of those taken ahead, or one that is taken now."""
        if self.ahead:
            assert isinstance(self._stepper, _Remote)
            with self._clock("wait"):
                step = self._stepper.answer()
            self.ahead -= 1
        else:
            step = self._stepper.take(env_step)
        self._mark = step.mark
        for part, seconds in zip(("act", "environment"), step.seconds, strict=True):
            self._clock.add(part, seconds)
        return step

    def go_ahead(self, env_step: int, count: int) -> None:
        """Before an update: from now on act with the weights of this moment, and take `count` steps meanwhile."""
        if isinstance(self._stepper, _Remote):
            assert not self.ahead, "steps are still under way with older weights"
            self._follow()
            self._stepper.ask("take_all", [env_step + index * self._repeat for index in range(count)])
            self.ahead = count

    def _follow(self) -> None:
        self._weights = [tensor.detach().cpu().numpy().copy() for tensor in acting_tensors(self._learner)]
        self._stepper.follow(self._weights)

    def state(self) -> dict[str, Any]:
        """What a checkpoint must hold of the steps that `take` has returned, besides what is in replay."""
        return {**self._mark, "weights": self._weights}

    def restore(self, state: dict[str, Any], episode: int, actions: np.ndarray, newest_frame: np.ndarray) -> None:
        """Back to where `state` was taken, within an episode with these actions so far."""
        self._mark = {key: value for key, value in state.items() if key != "weights"}
        self._stepper.restore(self._mark, episode, actions, newest_frame)
        if self.overlaps:
            self._weights = state["weights"]
            self._stepper.follow(self._weights)

    def close(self) -> None:
        self._stepper.close()


class _Remote:
    """A `Stepper` in another process, at the other end of a socket. Answers come in the order of the questions."""

    def __init__(self, config: RunConfig) -> None:
        self._process, self._link = child.start("cbm.collect")
        self._shapes: Shapes | None = None
        self._link.send(to_json(config))

    @property
    def shapes(self) -> Shapes:
        if self._shapes is None:  # its first answer; until it is needed, the process comes up beside this one
            try:
                self._shapes = self.answer()
            except BaseException:
                self.close()
                raise
        return self._shapes

    def ask(self, what: str, *args: Any) -> None:
        try:
            self._link.send((what, args))
        except OSError as error:
            raise self._died() from error

    def answer(self) -> Any:
        try:
            done, result = self._link.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        if done:
            return result
        failure, story = result
        if failure is None:
            raise CBMError(f"the process that collects failed:\n{story}")
        failure.add_note(f"In the process that collects:\n{story}")
        raise failure

    def _died(self) -> CBMError:
        code = self._process.poll()
        return CBMError(f"the process that collects died (exit code {code}). Is the machine out of memory?")

    def _call(self, what: str, *args: Any) -> Any:
        self.ask(what, *args)
        return self.answer()

    def begin(self, episode: int) -> Begun:
        return self._call("begin", episode)

    def take(self, env_step: int) -> Step:
        return self._call("take", env_step)

    def mark(self) -> dict[str, Any]:
        return self._call("mark")

    def restore(self, *args: Any) -> None:
        self._call("restore", *args)

    def follow(self, weights: list[np.ndarray]) -> None:
        self.ask("follow", weights)

    def close(self) -> None:
        self._link.close()
        child.end(self._process, _PATIENCE)


def serve(handle: int) -> None:
    """The other process. It ends when its parent does, however that ends."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a scheduler sends it to every process of a job; the parent decides
    torch.set_num_threads(1)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError), Connection(handle) as link:
        stepper = None
        try:
            config = from_json(link.recv())
            stepper = Stepper(config, copy=True)
            link.send((True, stepper.shapes))
            while True:
                what, args = link.recv()
                if what == "take_all":
                    for env_step in args[0]:
                        link.send((True, stepper.take(env_step)))
                elif what == "follow":  # has no answer
                    stepper.follow(*args)
                else:
                    link.send((True, getattr(stepper, what)(*args)))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            pass
        except Exception as error:
            link.send((False, (_portable(error), traceback.format_exc())))
        finally:
            if stepper is not None:
                stepper.close()


def _portable(error: Exception) -> Exception | None:
    """The error, if it survives the way to another process."""
    try:
        return error if isinstance(pickle.loads(pickle.dumps(error)), type(error)) else None
    except Exception:
        return None
