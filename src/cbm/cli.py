"""The command `cbm`: a table of verbs, each a thin function in a module that loads only when it is asked for."""

from __future__ import annotations

import atexit
import gc
import signal
import sys
import tempfile
import threading
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
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
    "doctor": Verb("cbm.commands.suite", "doctor", "what this machine has, and how to mend what is wrong"),
    "preview": Verb("cbm.commands.suite", "preview", "a contact sheet or film of what the agent will see"),
    "videos": Verb("cbm.commands.suite", "videos", "list, look at and download background videos"),
    "train": Verb("cbm.commands.train", "train", "train an agent, or go on with a run", "expand_overrides"),
    "eval": Verb("cbm.commands.train", "evaluate", "play episodes with a trained agent"),
    "record": Verb("cbm.commands.train", "record", "film a trained agent"),
    "robustness": Verb("cbm.commands.robustness", "robustness", "returns over a grid of conditions, as a matrix"),
    "export": Verb("cbm.commands.export", "export", "a trained policy as one file: ONNX or PyTorch"),
    "analyze": Verb("cbm.commands.analyze", "analyze", "see what agents have learned: figures of their latents"),
    "bisimulation": Verb("cbm.commands.analyze", "bisimulation", "CBM's distance against the exact metric"),
    "plot": Verb("cbm.commands.plot", "plot", "draw learning curves and scores of runs"),
    "report": Verb("cbm.commands.report", "report", "one self-contained page about runs"),
    "watch": Verb("cbm.commands.report", "watch", "the same page, live while training goes on"),
    "zoo": Verb("cbm.commands.zoo", "zoo", "trained agents: list, show, add, push, pull"),
    "study": Verb("cbm.commands.study", "study", "the paper's experiments, on one machine or many", "expand_overrides"),
    "bench": Verb("cbm.commands.bench", "bench", "speed on this machine against the plain reference"),
}


_NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")  # as PyTorch says it
_SMALLER = "Smaller are --agent.batch_size, --agent.hidden_dim, --env.size and --preset laptop."


def main(argv: list[str] | None = None) -> int:
    """Run one verb; exit status 2 for a mistake on the command line, 1 for anything else that a person can mend."""
    argv = sys.argv[1:] if argv is None else argv
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
    verb = VERBS[name]
    atexit.register(gc.freeze)  # the collection at Python's end then skips all that is loaded: 0.8 s after training
    try:
        import tyro

        module = import_module(verb.module)
        words = rest if verb.rewrite is None else getattr(module, verb.rewrite)(rest)
        status = tyro.cli(getattr(module, verb.function), args=words, prog=f"cbm {name}", description=verb.help)
    except CBMError as error:
        print(f"cbm {name}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"cbm {name}: {where}{error.strerror or error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("cbm"):
            raise
        print(f"cbm {name} needs {error.name}: {TRAIN_HINT}", file=sys.stderr)
        return 1
    except MemoryError:
        print(f"cbm {name}: there is not enough memory for this. {_SMALLER}", file=sys.stderr)
        return 1
    except RuntimeError as error:
        if not any(words in str(error) for words in _NO_MEMORY):
            raise
        print(f"cbm {name}: there is not enough memory for this. {_SMALLER}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends now, however often it is asked
        print("stopped", file=sys.stderr)
        return 130
    return int(status or 0)


def _print_completion(words: list[str]) -> int:
    """A script with which a shell completes verbs and options. tyro makes it from the verbs' own signatures."""
    if len(words) != 1 or words[0] not in SHELLS:
        print(f"cbm: type `cbm --print-completion` and one of: {', '.join(SHELLS)}.", file=sys.stderr)
        return 2
    import tyro

    functions = {name: getattr(import_module(verb.module), verb.function) for name, verb in VERBS.items()}
    with tempfile.NamedTemporaryFile("r", suffix=f".{words[0]}") as script:
        with suppress(SystemExit):  # it leaves when it has written
            arguments = ["--tyro-write-completion", words[0], script.name]
            tyro.extras.subcommand_cli_from_dict(functions, prog="cbm", args=arguments)
        print(Path(script.name).read_text())
    return 0


def _usage() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  cbm {name:<{width}}  {verb.help}" for name, verb in VERBS.items())
    return f"cbm-rl {__version__}: reinforcement learning from pixels under visual distraction\n\n{verbs}\n\n" + (
        "`cbm VERB --help` tells the rest; `cbm --version`; `cbm --print-completion bash` for Tab in your shell."
    )


if __name__ == "__main__":
    sys.exit(main())
