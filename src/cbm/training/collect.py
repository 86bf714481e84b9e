"""The agent steps of training, taken one by one, or ahead of time in a separate process.

With `training.overlap`, the environment takes the steps up to the next update while the current update computes. A
copy of the agent acts, with the weights from before the update and with its own random numbers. So the outcome of a
step never depends on which side was faster. A step that was taken ahead counts only when the loop asks for it, so a
checkpoint between two of them need not wait.

It is a process and not a thread because the tasks of dm_control are Python code, which would hold up the threads that
learn. Measured with four steps per update of `laptop`: 73 ms one after the other, 70 with a thread, 62 with a process.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cbm.agents import AGENTS, split_name
from cbm.config import RunConfig
from cbm.config.build import Shapes
from cbm.training.logs import Stopwatch
from cbm.training.remote import RemoteStepper
from cbm.training.stepper import Begun, Step, Stepper, acting_tensors
from cbm.types import ActsApart, Agent


class Collector:
    """Takes the steps of a run, here or in a separate process. Call `close()` at the end."""

    def __init__(self, config: RunConfig, clock: Stopwatch | None = None) -> None:
        self._clock, self._repeat = Stopwatch() if clock is None else clock, config.env.action_repeat or 1
        agent = AGENTS[split_name(config.agent_name)[0]].build
        self.overlaps = config.training.overlap and hasattr(agent, "acting")  # as in `types.ActsApart`
        self._stepper: Stepper | RemoteStepper = RemoteStepper(config) if self.overlaps else Stepper(config, copy=False)
        self.ahead = 0  # steps that were requested and not yet returned by `take`
        self._learner: Agent | None = None
        self._weights: list[np.ndarray] = []  # the copy's
        self._mark: dict[str, Any] = {}

    @property
    def shapes(self) -> Shapes:
        return self._stepper.shapes

    def act_for(self, learner: Agent) -> None:
        """Act as `learner`: through a copy of it if the run overlaps, else directly."""
        self._learner = learner
        if isinstance(self._stepper, Stepper):
            self._stepper.agent = learner
        else:
            self._follow()
        self._mark = self._stepper.mark()

    def begin(self, episode: int) -> Begun:
        return self._stepper.begin(episode)

    def take(self, env_step: int) -> Step:
        """The next agent step, at `env_step`: the first one taken ahead, or else one that is taken now."""
        if self.ahead:
            assert isinstance(self._stepper, RemoteStepper)
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
        """Before an update: from now on act with the current weights, and take `count` steps during the update."""
        if isinstance(self._stepper, RemoteStepper):
            assert not self.ahead, "steps are still under way with older weights"
            self._follow()
            self._stepper.ask("take_all", [env_step + index * self._repeat for index in range(count)])
            self.ahead = count

    def _follow(self) -> None:
        assert isinstance(self._learner, ActsApart)
        self._weights = [tensor.detach().cpu().numpy().copy() for tensor in acting_tensors(self._learner)]
        self._stepper.follow(self._weights)

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs of the steps that `take` has returned, in addition to what is in replay."""
        return {**self._mark, "weights": self._weights}

    def restore(self, state: dict[str, Any], episode: int, actions: np.ndarray, newest_frame: np.ndarray) -> None:
        """Return to where `state` was taken, in an episode with these actions so far."""
        self._mark = {key: value for key, value in state.items() if key != "weights"}
        self._stepper.restore(self._mark, episode, actions, newest_frame)
        if self.overlaps:
            self._weights = state["weights"]
            self._stepper.follow(self._weights)

    def close(self) -> None:
        self._stepper.close()
