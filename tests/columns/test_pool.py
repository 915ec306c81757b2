"""Threads for parts of a batch: order, failures, interrupts."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from caladan.columns import pool, runs


def test_results_come_in_the_order_of_parts() -> None:
    assert pool.in_parts(lambda n: n * n, range(20)) == [n * n for n in range(20)]


def test_a_failure_is_raised_when_all_parts_are_over() -> None:
    done: list[int] = []

    def work(part: int) -> None:
        if part == 0:
            raise ValueError("zero")
        time.sleep(0.01)
        done.append(part)

    with pytest.raises(ValueError, match="zero"):
        pool.in_parts(work, range(4))
    assert sorted(done) == [1, 2, 3]


def test_parts_of_parts_do_not_wait_for_each_other() -> None:
    def work(part: int) -> int:
        return sum(pool.in_parts(lambda n: n + part, range(5)))

    assert pool.in_parts(work, range(30)) == [10 + 5 * part for part in range(30)]


def test_an_interrupt_stops_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALADAN_THREADS", "2")
    stopped, begun = threading.Event(), threading.Barrier(3)
    ended: list[int] = []

    def work(part: int) -> None:
        begun.wait(60)
        stopped.wait(60)
        ended.append(part)

    def interrupt() -> None:
        begun.wait(60)  # however long it takes until both parts are at work
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        threading.Thread(target=interrupt, daemon=True).start()
        pool.in_parts(work, range(2), stopped.set)
    assert sorted(ended) == [0, 1]


def test_an_interrupt_before_all_parts_are_handed_out_stops_those_that_are() -> None:
    stopped, ended = threading.Event(), list[int]()

    def work(part: int) -> None:
        stopped.wait(60)
        ended.append(part)

    def parts() -> Iterator[int]:
        yield 0
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.in_parts(work, parts(), stopped.set)
    assert ended == [0]


@pytest.mark.parametrize(("asked", "wanted"), [("3", 3), ("1", 1), ("0", None), ("x", None)])
def test_threads_can_be_asked_for(
    asked: str, wanted: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALADAN_THREADS", asked)
    assert pool.threads() == (wanted or len(os.sched_getaffinity(0)))


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_sorting_in_parts(
    threads: int, monkeypatch: pytest.MonkeyPatch, tuned: Callable[..., None]
) -> None:
    tuned(sort_in_threads=2)
    monkeypatch.setattr(pool, "threads", lambda: threads)
    keys = np.random.default_rng(threads).integers(0, 500, 1000).astype(np.uint64)
    assert runs.distinct(keys.copy()).tolist() == sorted(set(keys.tolist()))
