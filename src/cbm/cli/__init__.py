"""The command `cbm`: a table of verbs, each a thin function in a module that loads only when it is asked for."""

from __future__ import annotations

import atexit
import gc
import io
import signal
import sys
import threading
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from typing import NamedTuple

from cbm import __version__
from cbm.errors import TRAIN_HINT, CBMError


class Verb(NamedTuple):
    module: str
    function: str
    help: str
    rewrite: str | None = None  # a function of the module that changes the words before they are parsed


SHELLS = ("bash", "zsh")
VERBS: dict[str, Verb] = {
    "doctor": Verb("cbm.cli.doctor", "doctor", "check this machine, and say how to fix what is wrong"),
    "preview": Verb("cbm.cli.suite", "preview", "draw a contact sheet or a film of what the agent will see"),
    "videos": Verb("cbm.cli.suite", "videos", "list, show, measure and download background videos"),
    "train": Verb("cbm.cli.train", "train", "train an agent, or resume a run", "train_words"),
    "eval": Verb("cbm.cli.train", "evaluate", "play episodes with a trained agent"),
    "record": Verb("cbm.cli.train", "record", "film a trained agent"),
    "robustness": Verb("cbm.cli.robustness", "robustness", "measure returns in a grid of conditions"),
    "export": Verb("cbm.cli.train", "export", "write a trained policy to one file: ONNX or PyTorch"),
    "analyze": Verb("cbm.cli.analyze", "analyze", "show what agents have learned: figures of their latents"),
    "bisimulation": Verb("cbm.cli.analyze", "bisimulation", "compare CBM's distance with the exact metric"),
    "plot": Verb("cbm.cli.report", "plot", "draw learning curves and scores of runs"),
    "report": Verb("cbm.cli.report", "report", "write one self-contained page about runs"),
    "watch": Verb("cbm.cli.report", "watch", "serve the same page live during training"),
    "zoo": Verb("cbm.cli.zoo", "zoo", "list, show, add, push and pull trained agents"),
    "study": Verb("cbm.cli.study", "study", "run the paper's experiments on one machine or many", "expand_overrides"),
    "bench": Verb("cbm.cli.bench", "bench", "measure speed on this machine against a plain reference"),
}


_NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")  # as PyTorch says it
_SMALLER = "Try a smaller --agent.batch_size, --agent.hidden_dim or --env.size, or --preset laptop."


def main(argv: list[str] | None = None) -> int:
    """Run one verb; exit status 2 for a mistake on the command line, 1 for anything else that a person can fix."""
    argv = sys.argv[1:] if argv is None else argv
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that is not UTF-8, or a terminal without all characters
        sys.stdout.reconfigure(errors="backslashreplace")  # as Python itself does for stderr
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # see `leave_current_folder`
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0
    if argv[0] in ("-V", "--version"):
        print(f"cbm-rl {__version__}")
        return 0
    if argv[0] == "--print-completion":
        return _print_completion(argv[1:])
    name, rest = argv[0], argv[1:]
    if name not in VERBS:
        near = get_close_matches(name, VERBS, n=1)
        hint = f" Did you mean `cbm {near[0]}`?" if near else ""
        print(f"cbm: there is no verb {name!r}.{hint}\n\n{_usage()}", file=sys.stderr)
        return 2
    for word in rest:
        # How Python keeps a byte that it could not decode.
        if any("\ud800" <= character <= "\udfff" for character in word):
            print(f"cbm {name}: {word!r} is not UTF-8. Choose another name.", file=sys.stderr)
            return 2
    verb = VERBS[name]
    atexit.register(gc.freeze)  # the collection at Python's end then skips all that is loaded: 0.8 s after training
    try:
        import tyro

        module = import_module(verb.module)
        words = rest if verb.rewrite is None else getattr(module, verb.rewrite)(rest)
        status = tyro.cli(getattr(module, verb.function), args=words, prog=f"cbm {name}", description=verb.help)
        if status == 128 + signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # stopped and saved: one more Ctrl-C changes nothing
    except Exception as error:
        told = _explain(error)
        if told is None:
            raise
        print(f"cbm {name}: {told}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends now, however often it is asked
        print("stopped", file=sys.stderr)
        return 130
    return int(status or 0)


def _explain(error: Exception) -> str | None:
    """What a person can do something about, in words; None where only a traceback helps."""
    if isinstance(error, CBMError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror or error}" if error.filename else str(error.strerror or error)
    if isinstance(error, ModuleNotFoundError) and error.name is not None and not error.name.startswith("cbm"):
        return f"it needs {error.name}: {TRAIN_HINT}"
    if isinstance(error, UnicodeEncodeError):  # the folder that it runs in, or one in a file
        return f"a name is not UTF-8: {error.object!r}. Rename that file or folder."
    full = isinstance(error, RuntimeError) and any(words in str(error) for words in _NO_MEMORY)
    if full or isinstance(error, MemoryError):
        return f"there is not enough memory. {_SMALLER}"
    return None


def _print_completion(words: list[str]) -> int:
    """A script with which a shell completes verbs and options. tyro makes it from the verbs' own signatures."""
    if len(words) != 1 or words[0] not in SHELLS:
        print(f"cbm: type `cbm --print-completion` and one of: {', '.join(SHELLS)}.", file=sys.stderr)
        return 2
    import tyro

    functions = {name: getattr(import_module(verb.module), verb.function) for name, verb in VERBS.items()}
    with suppress(SystemExit):  # it leaves when it has printed
        tyro.extras.subcommand_cli_from_dict(functions, prog="cbm", args=["--tyro-write-completion", words[0], "-"])
    return 0


def _usage() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  cbm {name:<{width}}  {verb.help}" for name, verb in VERBS.items())
    return f"cbm-rl {__version__}: reinforcement learning from pixels under visual distraction\n\n{verbs}\n\n" + (
        "`cbm VERB --help` lists the options of a verb. `cbm --print-completion bash` is for Tab completion."
    )
