"""Never import modules from the current folder. This module runs first, so it imports only what Python has loaded.

`python -c` and `python -m` put the current folder first on the path. If that is a run that somebody else made, a file
in it called numpy.py would be executed.
"""

import os
import sys


def leave_current_folder() -> None:
    """If this process is the program `cbm`, neither it nor its children may import from the current folder."""
    program = os.path.basename(sys.argv[0]) if sys.argv else ""
    modules = {word.removeprefix("-m").split(".")[0] for word in sys.orig_argv}
    if program == "cbm" or (program == "-m" and "cbm" in modules):
        sys.path[:] = without_current_folder(sys.path)
        os.environ["PYTHONSAFEPATH"] = "1"
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback on Ctrl-C while modules load


def without_current_folder(path: list[str]) -> list[str]:
    """`path` without the current folder, unless the user named it in PYTHONPATH or runs a script that is in it."""
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
