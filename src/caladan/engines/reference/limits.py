"""Where a run must stop: rounds, facts and seconds, looked at between small pieces of work."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from caladan.program.clock import deadline
from caladan.program.options import Options
from caladan.rules.failures import LimitName, LimitReached, limit

T = TypeVar("T")

_GLANCE: Final = 1024  # solutions between two looks at the clock


class NaiveLimits:
    """Watches over a run; its methods raise `LimitReached`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._deadline = deadline(options.timeout)
        self._relations: Sequence[str] = ()

    def enter(self, relations: Sequence[str]) -> None:
        """Relations that are derived from now on, to be named if a limit is reached."""
        self._relations = relations

    def watch(self, items: Iterator[T]) -> Iterator[T]:
        """The same items, with a look at the clock now and then."""
        for number, item in enumerate(items):
            if number % _GLANCE == 0:
                self.seconds()
            yield item

    def seconds(self) -> None:
        """Stop if the time is over."""
        if self._deadline is not None and time.monotonic() > self._deadline:
            self._stop("timeout", self._options.timeout or 0)

    def facts(self, derived: int) -> None:
        """Stop if more facts were derived than allowed."""
        most = self._options.max_facts
        if most is not None and derived > most:
            self._stop("max_facts", most)

    def rounds(self, done: int) -> None:
        """Stop if another round is needed and none is left."""
        most = self._options.max_rounds
        if most is not None and done >= most:
            self._stop("max_rounds", most)

    def _stop(self, name: LimitName, bound: float) -> None:
        raise LimitReached(limit(name, bound, self._relations))
