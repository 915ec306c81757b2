"""Work that somebody attends to: on a thread of its own, while this one watches the clock.

Python hands Ctrl-C to the main thread. Were it waiting for Spark just then, its connection to the
JVM would be left in the middle of an answer. So the work waits for Spark on another thread, and
this one can end it when the user or the clock says so: first it asks those tasks that can hand out
what they have derived; jobs that go on regardless are cancelled, by their tag.
"""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import copy_context
from threading import Event, Thread, current_thread, main_thread
from typing import Final, Generic, TypeVar

from pyspark import InheritableThread, SparkContext

from caladan.engines.interface import EngineStopped
from caladan.engines.spark.session.connect import Jobs, group_jobs
from caladan.engines.spark.session.failures import quietly
from caladan.engines.spark.strategy import Stopping
from caladan.program.clock import TimeOver, look

T = TypeVar("T")

_PATIENCE: Final = 0.2  # seconds between two attempts to cancel
_GRACE: Final = 10.0  # seconds for tasks that were asked to stop


class Cancelled(Exception):
    """Raised within work that is to end."""


def new_tag() -> str:
    """A tag for jobs that nobody else's jobs have."""
    return f"caladan-{uuid.uuid4().hex}"


class Attended(Generic[T]):
    """A piece of work; `run` returns what it returns, or raises what it raises."""

    def __init__(
        self,
        jobs: Jobs,
        work: Callable[[Callable[[], None]], T],
        stopping: Stopping | None = None,
        tag: str | None = None,
    ) -> None:
        self._jobs = jobs
        self._work = work
        self._tag = tag or new_tag()
        self._ending = Event()
        self._done = Event()
        self._stopping = stopping or Stopping()
        self._result: list[T] = []
        self._problem: BaseException | None = None

    def run(self, deadline: float | None = None, patience: float | None = None) -> T:
        """Do the work; TimeOver past the deadline, KeyboardInterrupt if the user wants to stop.

        Either waits until the work has ended, for no longer than `patience` seconds if given.
        """
        started = time.monotonic()
        self._thread().start()
        with _interruptible():
            try:
                if not self._watched(deadline):
                    self._end(patience, is_late=True)
                    if not (self._result or isinstance(self._problem, EngineStopped)):
                        look()
                        raise TimeOver((deadline or 0) - started)
            except KeyboardInterrupt:
                self._end(patience, is_late=False)
                if not isinstance(self._problem, EngineStopped):
                    raise
        if self._problem is not None:
            raise self._problem
        return self._result[0]

    def _thread(self) -> Thread:
        """A thread that has what PySpark keeps for this one; Connect keeps nothing but tags."""
        kind = InheritableThread if isinstance(self._jobs, SparkContext) else Thread
        return kind(target=copy_context().run, args=(self._do,), daemon=True)

    def _watched(self, deadline: float | None) -> bool:
        """Wait until the work is done; False if the time is over before that."""
        while not self._done.is_set():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            # An endless wait would not be interrupted on every platform; and a thread whose
            # `join` was interrupted says of itself that it has ended, when it has not.
            self._done.wait(1.0 if left is None else min(left, 1.0))
        return True

    def _do(self) -> None:
        try:
            self._jobs.addJobTag(self._tag)
            group_jobs(self._jobs, self._tag)
            with quietly():
                self._result.append(self._work(self._check))
        except BaseException as problem:
            self._problem = problem
        finally:
            self._done.set()

    def _check(self) -> None:
        """What the work calls between jobs."""
        if self._ending.is_set():
            raise Cancelled

    def _end(self, patience: float | None, *, is_late: bool) -> None:
        self._ending.set()
        latest = None if patience is None else time.monotonic() + patience
        asked = self._stopping.ask is not None
        self._stopping.stop(is_late=is_late)
        if asked:
            self._done.wait(_GRACE)
        while not self._done.is_set():
            self._jobs.cancelJobsWithTag(self._tag)
            self._done.wait(_PATIENCE)
            if latest is not None and time.monotonic() > latest:
                return  # it is inside a library, and ends when it next looks


@contextmanager
def _interruptible() -> Generator[None]:
    """Have Ctrl-C do nothing but interrupt: PySpark's handler would cancel all jobs before that."""
    handler = signal.getsignal(signal.SIGINT)
    is_sparks = str(getattr(handler, "__module__", "")).startswith("pyspark")
    if not is_sparks or current_thread() is not main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
