"""Modules never come from the current folder. This one runs first, so it imports only what Python has loaded already.

`python -c` and `python -m` put the current folder first on the path. In a run that somebody else made, a file called
numpy.py would then be run.
"""

import os
import sys


def leave_current_folder() -> None:
    """Where this process is the program `cbm`: take no modules from the current folder, nor may what it starts."""
    program = os.path.basename(sys.argv[0]) if sys.argv else ""
    modules = {word.removeprefix("-m").split(".")[0] for word in sys.orig_argv}
    if program == "cbm" or (program == "-m" and "cbm" in modules):
        sys.path[:] = without_current_folder(sys.path)
        os.environ["PYTHONSAFEPATH"] = "1"
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while modules load ends it without a traceback


def without_current_folder(path: list[str]) -> list[str]:
    """`path` without the current folder, unless the user named that in PYTHONPATH, or runs a script that lies in it."""
    here = os.getcwd()
    named = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script is not None:
        named.append(os.path.dirname(os.path.abspath(script)))
    if any(_same(entry, here) for entry in named):
        return [entry for entry in path if entry]
    return [entry for entry in path if entry and not _same(entry, here)]


def _same(entry: str, folder: str) -> bool:
    return os.path.realpath(entry) == os.path.realpath(folder)
