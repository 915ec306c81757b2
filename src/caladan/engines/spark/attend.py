"""Work that somebody attends to: on a thread of its own, while this one watches the clock.

Python hands Ctrl-C to the main thread. Were it waiting for Spark just then, its connection to the
JVM would be left in the middle of an answer. So the work waits for Spark on another thread, and
this one can cancel its jobs, by their tag, when the user or the clock says so.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from threading import Event
from typing import Any, Final, Generic, TypeVar, cast

from pyspark import InheritableThread, SparkContext

from caladan.engines.spark.failures import quietly

T = TypeVar("T")

_PATIENCE: Final = 0.2  # seconds between two attempts to cancel


class TimeOver(Exception):
    """The deadline passed; the work was cancelled."""


class Cancelled(Exception):
    """Raised within work that is to end."""


class Attended(Generic[T]):
    """A piece of work; `run` returns what it returns, or raises what it raises."""

    def __init__(self, context: SparkContext, work: Callable[[Callable[[], None]], T]) -> None:
        self._context = cast("Any", context)
        self._work = work
        self._tag = f"caladan-{uuid.uuid4().hex}"
        self._ending = Event()
        self._result: list[T] = []
        self._problem: BaseException | None = None

    def run(self, deadline: float | None = None) -> T:
        """Do the work; TimeOver past the deadline, KeyboardInterrupt if the user wants to stop."""
        thread = InheritableThread(target=self._do, daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    self._end(thread)
                    if self._result:
                        break
                    raise TimeOver
                # An endless join would not be interrupted on every platform.
                thread.join(1.0 if left is None else min(left, 1.0))
        except KeyboardInterrupt:
            self._end(thread)
            raise
        if self._problem is not None:
            raise self._problem
        return self._result[0]

    def _do(self) -> None:
        try:
            self._context.addJobTag(self._tag)
            with quietly():
                self._result.append(self._work(self._check))
        except BaseException as problem:
            self._problem = problem

    def _check(self) -> None:
        """What the work calls between jobs."""
        if self._ending.is_set():
            raise Cancelled

    def _end(self, thread: Any) -> None:
        self._ending.set()
        while thread.is_alive():
            self._context.cancelJobsWithTag(self._tag)
            thread.join(_PATIENCE)
