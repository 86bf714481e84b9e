"""The assault on the program: `make assault`. Prints how many tries of each attack were held, and why others were not.

python tests/assault/run.py [--kills N] [--damages N] [--words N] [--hostile N] [--requests N] [--few_files N]
                            [--first N]

Kills and damages are drawn by their numbers: --first 1000 tries others than those of last time.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "helpers")]

from attempt import Process, attempt

from toy import tiny_options

FIRST = 0
Try = tuple[int, str | None]  # how many tries it counts for, and what went wrong


def kills(folder: Path, count: int) -> Iterator[Try]:
    from kills import AGENTS, Victims

    victims, done, number = Victims(folder, AGENTS if count > 4 else AGENTS[:1]), 0, FIRST
    while done < count:
        hit, wrong = victims.kill(number, min(4, count - done))
        done, number = done + hit, number + 1
        yield hit, wrong


def damages(folder: Path, count: int) -> Iterator[Try]:
    from damages import Range

    ground = Range(folder)
    for number in range(FIRST, FIRST + count):
        what, wrong = ground.damage(number)
        yield 1, wrong and f"{what}: {wrong}"


def words(folder: Path, count: int) -> Iterator[Try]:
    from words import held, wrong_lines

    run = folder / "run"
    outcome = attempt(["train", *tiny_options(training__total_steps=120, training__film="false"), "--out", run], folder)
    assert outcome.status == 0, outcome.text
    for _, line in zip(range(count), wrong_lines(run, folder), strict=False):
        outcome = attempt(line, folder, 120)
        wrong = held(outcome)
        yield 1, wrong and f"cbm {' '.join(line)!r}: {wrong}: {outcome.text.strip()[-300:]}"


def few_files(folder: Path, count: int) -> Iterator[Try]:
    """Training before moving videos with 256 open files at the most."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    sizes = [word for name, value in _SMALL.items() for word in (f"--{name}", str(value))]
    for number in range(count):
        line = [
            "train",
            "--task",
            "cartpole-swingup",
            "--distraction",
            "hard",
            *sizes,
            "--out",
            folder / f"few-{number}",
        ]
        outcome = Process(line, folder, limit).wait(600)
        yield 1, None if outcome.status == 0 else outcome.text


def hostile(folder: Path, count: int) -> Iterator[Try]:
    from hostile import Host

    host = Host(folder)
    for number in range(FIRST, FIRST + count):
        yield 1, host.attack(number)


def requests(folder: Path, count: int) -> Iterator[Try]:
    """So many readers of `cbm watch` at once."""
    import threading
    import urllib.request
    from concurrent.futures import ThreadPoolExecutor

    from cbm.report.server import LiveData, Server

    outcome = attempt(["train", *tiny_options(training__total_steps=40), "--out", folder / "seen"], folder)
    assert outcome.status == 0, outcome.text
    with Server(LiveData([folder / "seen"], "title"), 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def ask(number: int) -> str | None:
            start = time.monotonic()
            try:
                with urllib.request.urlopen(f"{server.url}{'data.json' if number % 2 else ''}", timeout=30) as answer:
                    answer.read()
            except OSError as error:
                return f"no answer: {error}"
            took = time.monotonic() - start
            return None if took < 20 else f"an answer after {took:.0f} s"

        with ThreadPoolExecutor(count) as readers:
            for wrong in readers.map(ask, range(count)):
                yield 1, wrong
        server.shutdown()


_SMALL = {
    "training.total_steps": 4_000,
    "training.seed_steps": 4_000,
    "training.eval_every": 4_000,
    "training.eval_episodes": 1,
    "training.eval_workers": 0,
    "training.analyze_every": 0,
    "training.film": "false",
    "env.size": 24,
    "agent.hidden_dim": 16,
    "agent.conv_channels": 4,
}
ATTACKS: dict[str, tuple[Callable[[Path, int], Iterator[Try]], int, str]] = {
    "kills": (kills, 100, "kill -9 at a random moment, resumed: the same bits"),
    "damages": (damages, 500, "a damaged file: works, falls back, or one clear error"),
    "words": (words, 500, "a wrong command line: one clear error"),
    "hostile": (hostile, 100, "a hostile run on the page and in cbm watch: no script, no foreign file"),
    "requests": (requests, 200, "readers of cbm watch at once: all answered within seconds"),
    "few_files": (few_files, 1, "training before videos with 256 open files at most"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, (_, default, what) in ATTACKS.items():
        parser.add_argument(f"--{name}", type=int, default=None, metavar="N", help=f"{what} ({default})")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the number of the first kill and damage")
    asked = vars(parser.parse_args())
    global FIRST
    FIRST = asked.pop("first")
    chosen = {name: count for name, count in asked.items() if count is not None}
    chosen = chosen or {name: default for name, (_, default, _) in ATTACKS.items()}
    _load_everything()
    rows, failures = [], []
    for name, count in chosen.items():
        attack, _, what = ATTACKS[name]
        start, tries, held = time.monotonic(), 0, 0
        with tempfile.TemporaryDirectory(prefix=f"assault-{name}-") as folder:
            for weight, wrong in attack(Path(folder), count):
                tries += weight
                held += weight if wrong is None else 0
                if wrong is not None:
                    failures.append(f"{name}: {wrong}")
                    print(f"NOT HELD {failures[-1]}", flush=True)
                if sys.stderr.isatty():
                    left = (time.monotonic() - start) / max(tries, 1) * (count - tries)
                    print(
                        f"\r{what}: {held} of {tries}, {left / 60:.0f} min left   ", end="", file=sys.stderr, flush=True
                    )
        rows.append(f"| {what} | {tries} | {held} | {(time.monotonic() - start) / 60:.1f} |")
    print("\n| attack | tries | held | minutes |\n|---|---|---|---|", *rows, sep="\n")
    return 1 if failures else 0


def _load_everything() -> None:
    """What the forked processes would each import by themselves."""
    import matplotlib.pyplot  # noqa: F401
    import sklearn.linear_model  # noqa: F401
    import torch.utils.tensorboard  # noqa: F401
    import tyro  # noqa: F401

    import cbm.analysis.analyze
    import cbm.analysis.figures.curves
    import cbm.cli.train
    import cbm.report.page
    import cbm.training.loop  # noqa: F401


if __name__ == "__main__":
    sys.exit(main())
