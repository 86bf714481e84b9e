"""How this package starts Python: with the modules of this process, never with those in the current folder."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import chdir, suppress
from importlib import import_module
from multiprocessing.connection import Connection

from cbm.system.current_folder import without_current_folder

PYTHON = (sys.executable, "-P")  # -P: put no folder on the path by default


def start(module: str) -> tuple[subprocess.Popen[bytes], Connection]:
    """A process that calls `serve(link)` of a module with its end of a socket, and our end of it.

    It is a fresh interpreter. A fork would inherit GL contexts and PyTorch's threads. The spawn of multiprocessing runs
    the caller's script again, but a notebook has none and a script must be written for it. The process has a session of
    its own, so that Ctrl-C reaches only the parent, which decides what happens.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        handle = theirs.fileno()
        command = [*PYTHON, "-c", f"from cbm.system.child import serve; serve({module!r}, {handle})"]
        process = subprocess.Popen(command, pass_fds=[handle], env=environment(), start_new_session=True)
    return process, Connection(ours.detach())


def serve(module: str, handle: int) -> None:
    """The code of such a process. It ends when its parent does, no matter how."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a scheduler sends it to every process of a job; the parent decides
    with suppress(EOFError, BrokenPipeError, ConnectionResetError), Connection(handle) as link:
        import_module(module).serve(link)


def end(process: subprocess.Popen[bytes], patience: float) -> None:
    """Wait for a process whose socket was closed, which ends it if it is idle; after `patience` seconds, kill it."""
    try:
        process.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def environment() -> dict[str, str]:
    """The environment of a child process: it finds the modules that this one finds, and so do its own children."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(without_current_folder(sys.path)), "PYTHONSAFEPATH": "1"}


def outside() -> chdir[str]:
    """Leave the current folder for that of Python's own modules: some libraries look into the current one unasked."""
    return chdir(os.path.dirname(os.__file__))
