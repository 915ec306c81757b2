"""Threads for kernels: they leave the interpreter lock alone, so parts of a batch run side by side.

`threads()` is how many to use: CALADAN_THREADS, else the cores that this process may run on.
`in_parts` does the same to each part of something; an exception of one is raised once all are over,
and so is an interrupt, which calls `stop` first.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_NAME: Final = "caladan-part"

T = TypeVar("T")
R = TypeVar("R")


def threads() -> int:
    """How many threads to use."""
    asked = os.environ.get("CALADAN_THREADS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_parts(
    work: Callable[[T], R], parts: Iterable[T], stop: Callable[[], None] | None = None
) -> list[R]:
    """The results of some work on each part, in their order.

    A thread of the pool does its parts by itself: all others may be waiting for it.
    """
    if threading.current_thread().name.startswith(_NAME):
        return [work(part) for part in parts]
    from concurrent.futures import wait  # small programs have no parts

    pool = _pool(os.getpid(), threads())
    futures: list[Future[R]] = []
    try:
        futures.extend(pool.submit(work, part) for part in parts)
        wait(futures)
    except KeyboardInterrupt:
        if stop is not None:
            stop()
        wait(futures)
        raise
    return [future.result() for future in futures]


@cache
def _pool(process: int, size: int) -> ThreadPoolExecutor:
    """The threads of a process: a child that was forked has none of its parent's."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(size, f"{_NAME}-{process}")
