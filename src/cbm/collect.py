"""The agent steps of training, taken one by one, or ahead of time on a thread of their own.

With `training.overlap` the environment takes the steps that are due until the next update while this one computes. A
copy of the agent acts, with the weights from before the update and random numbers of its own. So what is done in a
step depends on the step alone, never on which thread was faster; and a step that was taken ahead counts only when the
loop asks for it, so a checkpoint between two of them needs no waiting. All calls of the environment come from that
one thread, because some bind a window or a GL context to the thread that made them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from copy import copy, deepcopy
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from cbm.config import RunConfig
from cbm.factory import Shapes, make_environment
from cbm.logs import Stopwatch
from cbm.rollout import Rollout
from cbm.seeds import seed_for
from cbm.types import ActsApart, Agent, Recurrent, begin_episode

_RGB = 3
_PATIENCE = 10.0  # seconds that an environment has to end its last step when the run ends
T = TypeVar("T")


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
    mark: dict[str, Any] | None  # random state and memory of the copy that acts, after it


class Collector:
    """An environment, the episode under way, and whoever acts in it. `close()` it."""

    def __init__(self, config: RunConfig, clock: Stopwatch | None = None) -> None:
        self._config, self._clock = config, Stopwatch() if clock is None else clock
        self._thread = _Thread() if config.training.overlap else None
        self._ahead: deque[Future[Step]] = deque()
        self._agent: Any = None
        self._learner: Any = None
        self._mark: dict[str, Any] | None = None
        # On a GPU the copy acts in a stream of its own, which does not wait for the update.
        self._stream = torch.cuda.Stream() if config.training.device.startswith("cuda") else None
        self.random_actions = np.random.default_rng(seed_for(config.seed, "explore"))
        try:
            self._env = self._do(lambda: make_environment(config.env, "train"))
        except BaseException:
            self._end_thread()
            raise
        self._rollout = Rollout(self._env, config.seed)
        self.shapes = Shapes.of(self._env)

    def act_for(self, learner: Agent) -> None:
        """Act as `learner`: by a copy if the run overlaps and it can be copied, else by itself."""
        self._learner = self._agent = learner
        if self._thread is not None and can_act_apart(learner):
            self._agent = copy_to_act(learner, seed_for(self._config.seed, "act"))
            self._mark = _mark(self._agent)

    @property
    def overlaps(self) -> bool:
        """Whether steps are taken while the agent learns."""
        return self._agent is not self._learner

    def begin(self, episode: int) -> Begun:
        return self._do(lambda: self._begin(episode))

    def take(self, env_step: int) -> Step:
        """The next agent step, at `env_step`: the first of those taken ahead, or one that is taken now."""
        if self._ahead:
            with self._clock("wait"):
                step = self._ahead.popleft().result()
        else:
            step = self._do(lambda: self._take(env_step))
        self._mark = step.mark
        return step

    def go_ahead(self, env_step: int, count: int) -> None:
        """Before an update: from now on act with the weights of this moment, and take `count` steps meanwhile."""
        if not self.overlaps:
            return
        assert self._thread is not None
        assert not self._ahead, "steps are still under way with older weights"
        _copy_weights(self._learner, self._agent)
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream())  # for these weights
        for index in range(count):
            now = env_step + index * (self._config.env.action_repeat or 1)
            self._ahead.append(self._thread.submit(partial(self._take, now)))

    def state(self) -> dict[str, Any]:
        """What a checkpoint must hold of the steps that `take` has returned, besides what is in replay."""
        state: dict[str, Any] = {"random_actions": self.random_actions.bit_generator.state}
        if self.overlaps:
            weights = {name: dict(getattr(self._agent, name).state_dict()) for name in self._agent.acting}
            state["acting"] = {"weights": weights, **(self._mark or {})}
        return state

    def restore(self, state: dict[str, Any], episode: int, actions: np.ndarray, newest_frame: np.ndarray) -> None:
        """Back to where `state` was taken, within an episode with these actions so far."""
        self._do(lambda: self._rollout.replay(episode, actions, newest_frame))
        self.random_actions.bit_generator.state = state["random_actions"]
        if self.overlaps:
            acting = state["acting"]
            for name, weights in acting["weights"].items():
                getattr(self._agent, name).load_state_dict(weights)
            self._agent.generator.set_state(acting["generator"].cpu())
            if "memory" in acting:
                self._agent.memory = acting["memory"]
            self._mark = _mark(self._agent)

    def close(self) -> None:
        while self._ahead:
            self._ahead.pop().cancel()
        if self._thread is None or self._thread.is_alive:
            self._do(self._env.close)
        self._end_thread()

    def _end_thread(self) -> None:
        if self._thread is not None:
            self._thread.end()

    def _do(self, work: Callable[[], T]) -> T:
        return work() if self._thread is None else self._thread.submit(work).result()

    def _begin(self, episode: int) -> Begun:
        obs = self._rollout.begin(episode)
        if self._agent is not None:
            begin_episode(self._agent)
        return Begun(episode, _newest(obs), self._rollout.background)

    def _take(self, env_step: int) -> Step:
        rollout, random = self._rollout, env_step < self._config.training.seed_steps
        with self._clock("act"):
            if random:
                action = self.random_actions.uniform(-1.0, 1.0, self.shapes.action).astype(np.float32)
            else:
                with torch.cuda.stream(self._stream if self.overlaps else None):
                    action = self._agent.act(rollout.obs, env_step, explore=True)
        ended = begun = None
        with self._clock("environment"):
            obs, reward, terminated, truncated, _ = rollout.step(action)
            if terminated or truncated:
                ended, begun = rollout.summary(), self._begin(rollout.index + 1)
        mark = _mark(self._agent) if self.overlaps else None
        return Step(action, reward, _newest(obs), terminated, truncated, ended, begun, mark)


def can_act_apart(agent: Agent) -> bool:
    """Whether a copy of the agent can act while it learns."""
    remembers = isinstance(agent, Recurrent)
    return isinstance(agent, ActsApart) and (not remembers or hasattr(agent, "memory"))


def copy_to_act(agent: Any, seed: int) -> Any:
    """A copy of `agent` with weights, random numbers and memory of its own, for `act` alone."""
    actor = copy(agent)
    for name in agent.acting:
        setattr(actor, name, deepcopy(getattr(agent, name)))
    actor.generator = torch.Generator(agent.generator.device).manual_seed(seed)
    return actor


def _copy_weights(source: Any, target: Any) -> None:
    for name in source.acting:
        theirs, ours = getattr(source, name).state_dict(), getattr(target, name).state_dict()
        with torch.no_grad():
            torch._foreach_copy_(list(ours.values()), list(theirs.values()))


def _mark(agent: Any) -> dict[str, Any]:
    mark = {"generator": agent.generator.get_state()}
    return mark | {"memory": agent.memory} if hasattr(agent, "memory") else mark


def _newest(obs: np.ndarray) -> np.ndarray:
    return np.array(obs[-_RGB:])  # a copy: the environment may write the next one over it


class _Thread:
    """A thread that does what it is given, one thing after the other. It does not keep a process from ending."""

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="cbm-collect", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        self._work.put((future, work))
        return future

    def end(self) -> None:
        self._work.put(None)
        self._thread.join(_PATIENCE)

    def _serve(self) -> None:
        torch.set_num_threads(1)  # of this thread only: acting is too small to share
        while (item := self._work.get()) is not None:
            future, work = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
            del future, work, item  # what they hold is the caller's alone
