"""The clock of a run: one deadline for all of it, from reading the program to the last fact.

    with running(timeout):          a session starts the clock
        attended(work)              work before evaluation, given up when the time is over
        look()                      what long work calls between two pieces: raises `TimeOver`
        heed()                      what waits for a kernel calls: raises a Ctrl-C that got lost
        deadline(timeout)           when an engine must stop, by the monotonic clock

The clock is a context variable, so that the compiler and the readers of data need not hand it
around. Tasks on Spark are other processes: they get the seconds that are left, and no clock.
"""

from __future__ import annotations

import atexit
import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from types import FrameType
from typing import Final, TypeVar

T = TypeVar("T")

_GLANCE: Final = 0.1  # seconds between two looks at whether work is done


class TimeOver(Exception):
    """The time of a run is over; `seconds` is how much it had."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"{seconds:g} seconds are over")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class _Clock:
    seconds: float
    end: float
    is_over: threading.Event = field(default_factory=threading.Event)


_CLOCK: Final[ContextVar[_Clock | None]] = ContextVar("caladan_clock", default=None)

_CTRL_C: Final = threading.Event()

_LATE: Final[list[threading.Thread]] = []
_PATIENCE: Final = 5.0  # seconds that an exit waits for work that is late


@atexit.register
def _wait_for_late_work() -> None:
    """A thread that comes back from a library while Python is torn down takes the process along."""
    end = time.monotonic() + _PATIENCE
    for thread in _LATE:
        thread.join(max(end - time.monotonic(), 0.0))


@contextmanager
def run_clock(timeout: float | None) -> Generator[None]:
    """Have the clock of a run tick from now on, if it has a timeout."""
    clock = None if timeout is None else _Clock(timeout, time.monotonic() + timeout)
    token = _CLOCK.set(clock)
    try:
        with remember_interrupt():
            yield
    finally:
        _CLOCK.reset(token)


@contextmanager
def remember_interrupt() -> Generator[None]:
    """Remember Ctrl-C: Python raises it once, and a library that was just at work may swallow it.

    A handler of somebody else stays in place, and so does ours where this is nested.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        _CTRL_C.set()
        signal.default_int_handler(number, frame)

    _CTRL_C.clear()
    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is handle:  # else somebody has come in between
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def postpone_interrupt() -> Generator[None]:
    """Have Ctrl-C wait until something is done that is of no use when it is half done."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    came = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: came.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if came.is_set():
        raise KeyboardInterrupt


def heed() -> None:
    """Raise the KeyboardInterrupt that somebody swallowed."""
    if _CTRL_C.is_set():
        _CTRL_C.clear()
        raise KeyboardInterrupt


def deadline(timeout: float | None) -> float | None:
    """When the time is over: that of the run whose clock ticks, else so many seconds from now."""
    if timeout is None:
        return None
    clock = _CLOCK.get()
    return time.monotonic() + timeout if clock is None else clock.end


def look() -> None:
    """Raise TimeOver if the time of the run is over."""
    clock = _CLOCK.get()
    if clock is not None and (clock.is_over.is_set() or time.monotonic() > clock.end):
        raise TimeOver(clock.seconds)


def wait_for(work: Callable[[], T]) -> T:
    """What some work returns or raises; TimeOver as soon as the time is over.

    Work that is late may be inside a library that nobody can interrupt. It goes on, on a thread of
    its own, until it looks at the clock; the caller does not wait for that, but the process does
    when it exits.
    """
    clock = _CLOCK.get()
    if clock is None:
        return work()
    results: list[T] = []
    problems: list[BaseException] = []
    done = threading.Event()

    def target() -> None:
        try:
            results.append(work())
        except BaseException as problem:
            problems.append(problem)
        finally:
            done.set()

    look()
    context = copy_context()
    worker = threading.Thread(target=context.run, args=(target,), name="caladan-work", daemon=True)
    worker.start()
    try:
        while not done.wait(min(max(clock.end - time.monotonic(), 0.001), _GLANCE)):
            heed()
            look()
    except (KeyboardInterrupt, TimeOver):
        clock.is_over.set()
        _LATE[:] = [each for each in _LATE if each.is_alive()] + [worker]
        raise
    if problems:
        raise problems[0]
    return results[0]
