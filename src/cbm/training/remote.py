"""A `Stepper` in a process of its own, and the code of that process."""

from __future__ import annotations

import pickle
import signal
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from cbm.config import RunConfig, from_json, to_json
from cbm.config.build import Shapes
from cbm.errors import CBMError
from cbm.system import child
from cbm.training.stepper import Begun, Step, Stepper

_PATIENCE = 5.0  # seconds that the process has to finish its last step when the run ends


class RemoteStepper:
    """A `Stepper` in another process, at the other end of a socket. Answers come in the order of the questions."""

    def __init__(self, config: RunConfig) -> None:
        self._process, self._link = child.start("cbm.training.remote")
        self._shapes: Shapes | None = None
        self._link.send(to_json(config))

    @property
    def shapes(self) -> Shapes:
        if self._shapes is None:  # the first answer; until it is needed, the process starts up in parallel
            try:
                self._shapes = self.answer()
            except BaseException:
                self.close()
                raise
        return self._shapes

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

    def begin(self, episode: int) -> Begun:
        return self._call("begin", episode)

    def take(self, env_step: int) -> Step:
        return self._call("take", env_step)

    def mark(self) -> dict[str, Any]:
        return self._call("mark")

    def restore(self, *args: object) -> None:
        self._call("restore", *args)

    def follow(self, weights: list[np.ndarray]) -> None:
        self.ask("follow", weights)

    def close(self) -> None:
        self._link.close()
        child.end(self._process, _PATIENCE)


def serve(handle: int) -> None:
    """The code of the other process. It ends when its parent does, no matter how."""
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
                elif what == "follow":  # no answer is sent
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
    """The error, if it can be sent to another process."""
    try:
        return error if isinstance(pickle.loads(pickle.dumps(error)), type(error)) else None
    except Exception:
        return None
