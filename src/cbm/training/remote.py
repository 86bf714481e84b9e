"""A `Stepper` in a process of its own, and the code of that process."""

from __future__ import annotations

import pickle
import traceback
from contextlib import closing
from functools import cached_property, partialmethod
from multiprocessing.connection import Connection
from typing import Any

import torch

from cbm.config import RunConfig, from_json, to_json
from cbm.config.build import Shapes
from cbm.errors import CBMError
from cbm.system import child
from cbm.training.stepper import Stepper

_PATIENCE = 5.0  # seconds that the process has to finish its last step when the run ends


class RemoteStepper:
    """A `Stepper` in another process, at the other end of a socket. Answers come in the order of the questions."""

    def __init__(self, config: RunConfig) -> None:
        self._process, self._link = child.start("cbm.training.remote")
        self._link.send(to_json(config))

    @cached_property
    def shapes(self) -> Shapes:
        return self.answer()  # the first one; until it is needed, the process starts up in parallel

    def ask(self, what: str, *args: object) -> None:
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
            raise CBMError(f"the collecting process failed:\n{story}")
        failure.add_note(f"In the process that collects:\n{story}")
        raise failure

    def _died(self) -> CBMError:
        code = self._process.poll()
        return CBMError(f"the collecting process died (exit code {code}). Is the machine out of memory?")

    def _call(self, what: str, *args: object) -> Any:
        self.ask(what, *args)
        return self.answer()

    begin = partialmethod(_call, "begin")
    take = partialmethod(_call, "take")
    mark = partialmethod(_call, "mark")
    restore = partialmethod(_call, "restore")
    follow = partialmethod(ask, "follow")

    def close(self) -> None:
        self._link.close()
        child.end(self._process, _PATIENCE)


def serve(link: Connection) -> None:
    """The code of the other process."""
    torch.set_num_threads(1)
    try:
        with closing(Stepper(from_json(link.recv()), copy=True)) as stepper:
            link.send((True, stepper.shapes))
            while True:
                what, args = link.recv()
                if what == "take_all":
                    for env_step in args[0]:
                        link.send((True, stepper.take(env_step)))
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
