"""The pool: what runs where, what happens to errors, what is left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
import torch

from cbm.learning import threads


def own_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("cbm_")}


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_results_are_in_order_and_every_thread_works(count: int) -> None:
    def piece(i: int) -> tuple[int, int, int]:
        if i < count:
            everybody.wait(timeout=60)
        return i, threading.get_ident(), torch.get_num_threads()

    everybody, before = threading.Barrier(count), torch.get_num_threads()
    torch.set_num_threads(4)
    with threads.use(count):
        results = threads.run([lambda i=i: piece(i) for i in range(20)])  # type: ignore[misc]
        assert len(own_threads()) == count - 1
    assert [i for i, _, _ in results] == list(range(20))
    assert len({who for _, who, _ in results}) == count
    assert {inner for _, _, inner in results} == {1}  # PyTorch does not cut operations up besides
    assert torch.get_num_threads() == 4
    assert not own_threads()
    torch.set_num_threads(before)


def test_an_error_comes_out_when_all_that_began_have_ended() -> None:
    ended, begun = [], []

    def fails() -> None:
        while not begun:  # until the other thread is at work
            time.sleep(0.001)
        raise ZeroDivisionError("in a piece")

    def slow() -> None:
        begun.append(True)
        time.sleep(0.05)
        ended.append(True)

    with threads.use(2):
        with pytest.raises(ZeroDivisionError, match="in a piece"):
            threads.run([fails, slow, *[fails] * 100])
        assert ended == [True]
        assert threads.run([lambda: 1, lambda: 2]) == [1, 2]  # the pool still works
    with pytest.raises(ZeroDivisionError), threads.use(3):
        threads.run([fails, fails])
    assert not own_threads()


def test_within_a_piece_and_beside_a_wave_the_caller_works_alone() -> None:
    def nested() -> list[bool]:
        me = threading.get_ident()
        return threads.run([lambda: threading.get_ident() == me] * 5)

    with threads.use(2):
        assert threads.run([nested] * 4) == [[True] * 5] * 4
        found: list[list[bool]] = []
        started, over = threading.Event(), threading.Event()
        other = threading.Thread(target=lambda: (started.wait(), found.append(nested()), over.set()))
        other.start()
        threads.run([started.set, lambda: over.wait(timeout=60)])  # while both threads of the pool are taken
        other.join()
        assert found == [[True] * 5]
        with pytest.raises(RuntimeError, match="already"), threads.use(2):
            pass


def child(_: int) -> list[int]:
    return threads.run([lambda i=i: i for i in range(3)])  # type: ignore[misc]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_start_beside_the_pool(method: str) -> None:
    with (
        threads.use(2),
        ProcessPoolExecutor(1, mp_context=get_context(method)) as processes,
    ):
        assert list(processes.map(child, [0])) == [[0, 1, 2]]
        assert threads.run([lambda: 1, lambda: 2]) == [1, 2]


def test_a_process_ends_though_its_pool_was_never_closed() -> None:
    script = """
from cbm.learning import threads
threads.use(3).__enter__()
assert threads.run([lambda: 1] * 9) == [1] * 9
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0
