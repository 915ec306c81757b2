"""Running long kernels so that they can be stopped.

Python delivers Ctrl-C to the main thread between two instructions, and a kernel is one instruction.
So kernels that may take long run in a thread of their own and look at a flag; the caller waits, and
raises the flag on Ctrl-C or when the time is over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from caladan.columns.layout import Counts

T = TypeVar("T")

_GLANCE: Final = 0.1  # seconds between two looks at the clock


def run_stoppable(work: Callable[[], T], stop: Counts, deadline: float | None) -> T:
    """The result of some work; past the deadline the flag is raised, and the work should end."""
    results: list[T] = []
    failures: list[BaseException] = []
    done = threading.Event()  # a thread whose `join` was interrupted may say it ended, and has not

    def target() -> None:
        try:
            results.append(work())
        except BaseException as failure:
            failures.append(failure)
        finally:
            done.set()

    threading.Thread(target=target, daemon=True).start()
    try:
        while not done.wait(_GLANCE):
            if deadline is not None and time.monotonic() > deadline:
                stop[0] = 1
    except KeyboardInterrupt:
        stop[0] = 1
        done.wait()
        raise
    if failures:
        raise failures[0]
    return results[0]
