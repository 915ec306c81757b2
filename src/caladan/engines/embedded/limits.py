"""Where a run must stop: rounds, facts, seconds and memory, looked at between pieces of work."""

from __future__ import annotations

import time
from collections.abc import Sequence

from caladan.clock import deadline
from caladan.engines.embedded.memory import Memory
from caladan.engines.problems import LimitName, limit
from caladan.errors import CaladanError
from caladan.options import Options


class LimitReached(CaladanError):
    """A limit of the options was reached; the engine adds what was derived."""


class Limits:
    """Watches over a run; its methods raise `LimitReached`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.deadline = deadline(options.timeout)
        """When the time is over, by the monotonic clock."""
        self._relations: Sequence[str] = ()
        self.memory = Memory(options.memory)

    def enter(self, relations: Sequence[str]) -> None:
        """Relations that are derived from now on, to be named if a limit is reached."""
        self._relations = relations

    @property
    def max_facts(self) -> int | None:
        """How many facts may be derived."""
        return self._options.max_facts

    @property
    def max_rounds(self) -> int | None:
        """How many rounds a clique may take."""
        return self._options.max_rounds

    def seconds(self) -> None:
        """Stop if the time is over."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            self._stop("timeout", self._options.timeout or 0)

    def facts(self, derived: int) -> None:
        """Stop if more facts were derived than allowed."""
        most = self._options.max_facts
        if most is not None and derived > most:
            self._stop("max_facts", most)

    def rounds_left(self, done: int) -> int | None:
        """How many more rounds a clique may take."""
        most = self._options.max_rounds
        return None if most is None else most - done

    def facts_left(self, derived: int) -> int | None:
        """How many more facts are too many."""
        most = self._options.max_facts
        return None if most is None else most - derived + 1

    def rounds(self, done: int) -> None:
        """Stop if another round is needed and none is left."""
        most = self._options.max_rounds
        if most is not None and done >= most:
            self._stop("max_rounds", most)

    def out_of_memory(self) -> LimitReached:
        """The relations do not fit into the memory they may use."""
        return LimitReached(limit("memory", self.memory.most, self._relations))

    def _stop(self, name: LimitName, bound: float) -> None:
        raise LimitReached(limit(name, bound, self._relations))
