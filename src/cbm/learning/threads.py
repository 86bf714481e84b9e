"""A small pool of threads on which one process computes: a few large pieces of work at a time, and one wait for all.

PyTorch's own threads split every single operation, and wait for each other hundreds of times per update. When another
process pushes one of them aside, all wait. Here each piece of work has one thread from its beginning to its end.

    with threads.use(2):
        first, second = threads.run([lambda: ..., lambda: ...])
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import torch

Piece = Callable[[], Any]


class _Wave:
    """Pieces of work that are waited for together. Whoever comes takes the next piece that nobody has taken."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.results: list[Any] = [None] * len(pieces)
        self.error: BaseException | None = None
        self._pieces, self._next = pieces, itertools.count()

    def work(self) -> None:
        """Until no piece is left. After an error nothing more is begun."""
        while self.error is None and (index := next(self._next)) < len(self._pieces):
            try:
                self.results[index] = self._pieces[index]()
            except BaseException as error:
                self.error = error


class _Pool:
    """`count` threads, in addition to the calling one."""

    def __init__(self, count: int) -> None:
        self._waves: SimpleQueue[_Wave | None] = SimpleQueue()
        self._done: SimpleQueue[None] = SimpleQueue()
        self.busy = threading.Lock()
        self._threads = [threading.Thread(target=self._serve, name=f"cbm-{i + 1}", daemon=True) for i in range(count)]
        for thread in self._threads:
            thread.start()

    def _serve(self) -> None:
        torch.set_num_threads(1)  # PyTorch keeps this number for each thread
        while (wave := self._waves.get()) is not None:
            wave.work()
            del wave  # its results are the caller's alone
            self._done.put(None)

    def run(self, wave: _Wave) -> None:
        helpers = self._threads[: len(wave.results) - 1]
        for _ in helpers:
            self._waves.put(wave)
        wave.work()
        for _ in helpers:
            self._done.get()

    def close(self) -> None:
        for _ in self._threads:
            self._waves.put(None)
        for thread in self._threads:
            thread.join()


_pool: _Pool | None = None


@contextmanager
def use(count: int) -> Iterator[None]:
    """Inside, `run` has `count` threads, including the caller's, and PyTorch starts none."""
    global _pool
    if _pool is not None:
        raise RuntimeError("this process has its threads already")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    _pool = _Pool(count - 1)
    try:
        yield
    finally:
        pool, _pool = _pool, None
        pool.close()
        torch.set_num_threads(before)


def run(pieces: Sequence[Piece]) -> list[Any]:
    """What each piece returns. An error in one of them is raised here, when all that had begun have ended.

    Without `use` the caller does all the work itself; so does a piece of work that calls `run`, and a second thread
    while the first has the pool.
    """
    wave, pool = _Wave(pieces), _pool
    if pool is not None and len(pieces) > 1 and pool.busy.acquire(blocking=False):
        try:
            pool.run(wave)
        finally:
            pool.busy.release()
    else:
        wave.work()
    if wave.error is not None:
        raise wave.error
    return wave.results


def _forget() -> None:
    """A forked process has no thread but its own."""
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_forget)
