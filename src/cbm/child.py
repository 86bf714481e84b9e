"""How this package starts Python: with the modules of this process, never with what lies in the current folder.

`python -c` and `python -m` put the current folder first on the path. In a run that somebody else made, a file called
numpy.py would then be run.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

PYTHON = (sys.executable, "-P")  # -P: no folder is put on the path unasked


def leave_current_folder() -> None:
    """Where this process is the program `cbm`: take no modules from the current folder, nor may what it starts."""
    program = os.path.basename(sys.argv[0]) if sys.argv else ""
    modules = {word.removeprefix("-m").split(".")[0] for word in sys.orig_argv}
    if program == "cbm" or (program == "-m" and "cbm" in modules):
        sys.path[:] = without_current_folder(sys.path)
        os.environ["PYTHONSAFEPATH"] = "1"
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while modules load ends it without a traceback


def start(module: str) -> tuple[subprocess.Popen[bytes], Connection]:
    """A process that calls `serve(handle)` of a module with its end of a socket, and our end.

    A fresh interpreter: a fork would inherit GL contexts and PyTorch's threads, and multiprocessing's spawn runs the
    caller's script again, which a notebook does not have and a script must be written for. With a session of its own,
    so that Ctrl-C reaches the parent only, which decides.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        handle = theirs.fileno()
        code = f"import sys; from {module} import serve; serve(int(sys.argv[1]))"
        command = [*PYTHON, "-c", code, str(handle)]
        process = subprocess.Popen(command, pass_fds=[handle], env=environment(), start_new_session=True)
    return process, Connection(ours.detach())


def end(process: subprocess.Popen[bytes], patience: float) -> None:
    """Wait for a process whose socket was closed, which ends it where it is idle; after `patience` seconds, kill it."""
    try:
        process.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def environment() -> dict[str, str]:
    """The environment of a child process: it finds the modules that this one finds, and so do its own children."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(without_current_folder(sys.path)), "PYTHONSAFEPATH": "1"}


def without_current_folder(path: Iterable[str]) -> list[str]:
    """`path` without the current folder, unless the user named that in PYTHONPATH, or runs a script that lies in it."""
    here = os.getcwd()
    named = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script is not None:
        named.append(os.path.dirname(os.path.abspath(script)))
    if any(_same(entry, here) for entry in named):
        return [entry for entry in path if entry]
    return [entry for entry in path if entry and not _same(entry, here)]


@contextmanager
def outside() -> Iterator[None]:
    """Away from the current folder, for libraries that look into it by themselves; in that of Python's own modules."""
    here = os.getcwd()
    os.chdir(os.path.dirname(os.__file__))
    try:
        yield
    finally:
        os.chdir(here)


def _same(entry: str, folder: str) -> bool:
    return os.path.realpath(entry) == os.path.realpath(folder)
