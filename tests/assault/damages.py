"""Damages of the files of a run: a verb works as before, falls back with a warning, or ends with one clear error."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attempt import Outcome, Process, attempt

from same_run import assert_same_run
from toy import tiny_options

Damage = Callable[[Path, random.Random], None]
STEPS = 240  # of the run that is damaged; resumed, it goes on to the end
END = 280


def _flip(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes() or b"\0")
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def _truncate(path: Path, dice: random.Random) -> None:
    os.truncate(path, dice.randrange(path.stat().st_size or 1))


def _zero(path: Path, dice: random.Random) -> None:
    size = path.stat().st_size
    start = dice.randrange(size or 1)
    with path.open("r+b") as file:
        file.seek(start)
        file.write(bytes(min(size - start, dice.randrange(1, 5_000))))


def _empty(path: Path, dice: random.Random) -> None:
    os.truncate(path, 0)


def _delete(path: Path, dice: random.Random) -> None:
    path.unlink()


def _swap(path: Path, dice: random.Random) -> None:
    other = dice.choice([other for other in files_of(_root(path)) if other != path])
    ours, theirs = path.read_bytes(), other.read_bytes()
    path.write_bytes(theirs)
    other.write_bytes(ours)


def _link(path: Path, dice: random.Random) -> None:
    path.unlink()
    path.symlink_to(dice.choice(["/etc/passwd", "/nowhere", "/dev/zero", path.name]))


def _fifo(path: Path, dice: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path, dice: random.Random) -> None:
    path.unlink()
    path.mkdir()


def _rubbish(path: Path, dice: random.Random) -> None:
    path.write_bytes(dice.randbytes(dice.randrange(1, 3_000)))


def _add_odd_names(path: Path, dice: random.Random) -> None:
    for name in ("²", "1e9", "-1", "999999999999999999999", "000000999", "..x", "٣"):
        (path.parent / name).mkdir(exist_ok=True)


HOSTILE = (
    b"[]", b"null", b"3", b"", b"{", b"[" * 100_000, b'{"a":' * 20_000, b'{"env_step": ' + b"9" * 5_000 + b"}",
    b"\xff\xfe\x00", b'{"env_step": 1e999}', b'{"env_step": NaN, "train": {"mean": NaN}}', b'"\\ud800"',
    b'{"env_step": -1}\n' * 3,
)  # fmt: skip


def _hostile_json(path: Path, dice: random.Random) -> None:
    """Something else altogether, or one value of the file replaced by something odd."""
    odd = [None, [], {}, "x", -1, 0, 10**400, 1e308, True, "\ud800", {"a": [1]}, float("inf"), float("nan"), 1.5]
    with contextlib.suppress(ValueError, RecursionError):
        if dice.random() < 0.6:
            tree = json.loads(path.read_bytes().split(b"\n{")[0])
            at: Any = tree
            while isinstance(at, dict) and at:
                key = dice.choice(list(at))
                if not isinstance(at[key], dict) or dice.random() < 0.2:
                    at[key] = dice.choice(odd)
                    break
                at = at[key]
            path.write_text(json.dumps(tree) + "\n")
            return
    path.write_bytes(dice.choice(HOSTILE))


DAMAGES: dict[str, Damage] = {
    "flip a bit": _flip,
    "cut short": _truncate,
    "zero a part": _zero,
    "empty": _empty,
    "delete": _delete,
    "swap two files": _swap,
    "a link": _link,
    "a FIFO": _fifo,
    "a folder": _folder,
    "rubbish": _rubbish,
    "hostile JSON": _hostile_json,
    "odd names beside it": _add_odd_names,
}


class Range:
    """A run to damage, and what the verbs make of it undamaged."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.run = folder, folder / "whole"
        options = tiny_options(training__total_steps=STEPS, training__checkpoint_every=40, training__eval_every=120)
        _well(attempt(["train", *options, "--training.film", "false", "--out", self.run], folder))
        self.resumed = Path(shutil.copytree(self.run, folder / "resumed"))
        _well(attempt(["train", "--resume", self.resumed, "--steps", END, "--trust", "toy"], folder))
        self.returns = json.loads(_well(attempt(self._eval(self.run), folder)).text)["returns"]

    def _eval(self, run: Path) -> list[object]:
        return ["eval", run, "--episodes", 2, "--workers", 0, "--trust", "toy"]

    def damage(self, number: int) -> tuple[str, str | None]:
        """One damage and one verb: what it was, and what is wrong with the outcome, if anything."""
        dice = random.Random(number)
        runs = self.folder / f"runs-{number}"
        run = Path(shutil.copytree(self.run, runs / "damaged"))
        path = dice.choice(files_of(run))
        kind = dice.choice([name for name in DAMAGES if name != "hostile JSON" or path.suffix in (".json", ".jsonl")])
        verb = dice.choice(["resume", "resume", "eval", "report", "plot"])
        what = f"{number}: {kind}, {path.relative_to(run)}, {verb}"
        try:
            DAMAGES[kind](path, dice)
            return what, getattr(self, f"_after_{verb}")(runs, run)
        finally:
            shutil.rmtree(runs, ignore_errors=True)

    def _after_resume(self, runs: Path, run: Path) -> str | None:
        outcome = attempt(["train", "--resume", run, "--steps", END, "--trust", "toy"], self.folder)
        if outcome.complaint is not None or outcome.status:
            return _explained(outcome)
        try:
            assert_same_run(run, self.resumed)
        except AssertionError as error:
            return f"a silent difference: {error}"
        return None

    def _after_eval(self, runs: Path, run: Path) -> str | None:
        outcome = attempt(self._eval(run), self.folder)
        if outcome.complaint is not None or outcome.status:
            return _explained(outcome)
        found, _ = json.JSONDecoder().raw_decode(outcome.text[outcome.text.index("{\n") :])
        same = found["returns"] == self.returns or "is damaged" in outcome.text
        return None if same else "a silent difference in the returns"

    def _after_report(self, runs: Path, run: Path) -> str | None:
        shutil.copytree(self.run, runs / "good", ignore=shutil.ignore_patterns("replay", "checkpoint"))
        outcome = attempt(["report", runs, "-o", runs / "page.html"], self.folder)
        if outcome.complaint is not None or outcome.status:
            return outcome.complaint or f"the good run is not shown: {outcome.text}"
        return None if '"name":"good"' in (runs / "page.html").read_text() else "the good run is not in the page"

    def _after_plot(self, runs: Path, run: Path) -> str | None:
        shutil.copytree(self.run, runs / "good", ignore=shutil.ignore_patterns("replay", "checkpoint"))
        outcome = attempt(["plot", runs, "-o", runs / "curve.png"], self.folder)
        if outcome.complaint is not None or outcome.status:
            return outcome.complaint or f"the good run is not drawn: {outcome.text}"
        return None


def files_of(run: Path) -> list[Path]:
    return sorted(path for path in run.rglob("*") if path.is_file() and not path.is_symlink())


def _root(path: Path) -> Path:
    return next(parent for parent in path.parents if parent.name == "damaged")


def _explained(outcome: Outcome) -> str | None:
    return outcome.complaint


def _well(outcome: Outcome) -> Outcome:
    assert outcome.status == 0, outcome.text
    return outcome


__all__ = ["DAMAGES", "Process", "Range", "files_of"]
