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
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch

T = TypeVar("T")


class _Wave(Generic[T]):
    """Pieces of work that are waited for together. Whoever comes takes the next piece that nobody has taken."""

    def __init__(self, pieces: Sequence[Callable[[], T]]) -> None:
        self.results: dict[int, T] = {}
        self.error: BaseException | None = None
        self._pieces, self._next = pieces, itertools.count()

    def work(self) -> None:
        """Until no piece is left. After an error nothing more is begun."""
        while self.error is None and (index := next(self._next)) < len(self._pieces):
            try:
                self.results[index] = self._pieces[index]()
            except BaseException as error:
                self.error = error


_pool: ThreadPoolExecutor | None = None
_helpers = 0  # its threads, which help the calling one
_busy = threading.Lock()


@contextmanager
def use(count: int) -> Iterator[None]:
    """Inside, `run` has `count` threads, including the caller's, and PyTorch starts none."""
    global _pool, _helpers
    if _pool is not None:
        raise RuntimeError("this process has its threads already")
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # PyTorch keeps this number for each thread
    with ThreadPoolExecutor(max(1, count - 1), "cbm", torch.set_num_threads, (1,)) as _pool:
        _helpers = count - 1
        try:
            yield
        finally:
            _pool, _helpers = None, 0
            torch.set_num_threads(before)


def run(pieces: Sequence[Callable[[], T]]) -> list[T]:
    """What each piece returns. An error in one of them is raised here, when all that had begun have ended.

    Without `use` the caller does all the work itself; so does a piece of work that calls `run`, and a second thread
    while the first has the pool.
    """
    wave, pool, helpers = _Wave(pieces), _pool, min(_helpers, len(pieces) - 1)
    if pool is not None and helpers > 0 and _busy.acquire(blocking=False):
        try:
            others = [pool.submit(wave.work) for _ in range(helpers)]
            wave.work()
            wait(others)
        finally:
            _busy.release()
    else:
        wave.work()
    if wave.error is not None:
        raise wave.error
    return [wave.results[index] for index in range(len(pieces))]


def _forget() -> None:
    """A forked process has no thread but its own."""
    global _pool, _helpers, _busy
    _pool, _helpers, _busy = None, 0, threading.Lock()


os.register_at_fork(after_in_child=_forget)
