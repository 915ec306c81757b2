"""A seed: the few facts that a variant of a rule starts from, as a relation that is only scanned.

Nothing is sorted or packed: facts are columns of words, handed in before a rule is run and dropped
when the next ones come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from caladan.columns.layout import Keys, Mask, Words
from caladan.columns.relation import Batch
from caladan.columns.runs import Run
from caladan.program import thresholds
from caladan.rules.body import Version


class Seed:
    """Facts to start from; to the join, a relation with nothing but a delta."""

    body = None
    folded = None
    runs: Sequence[Run] = ()
    shift = 0
    is_exact = True

    def __init__(self, arity: int) -> None:
        self.arity = arity
        self._columns: tuple[Words, ...] = ()
        self._rows = 0

    def put(self, batch: Batch) -> None:
        """The facts from now on."""
        self._columns, self._rows = batch

    def count(self) -> int:
        """How many facts."""
        return self._rows

    def delta_count(self) -> int:
        """As many: all of them are new."""
        return self._rows

    def can_bind(self, column: int) -> bool:
        """No: it is scanned."""
        del column
        return False

    def index(self, bound: Sequence[int], version: Version) -> Seed:
        """What takes columns out of keys."""
        del bound, version
        return self

    def scan(
        self,
        version: Version,
        rows: int | None = None,
        needed: frozenset[int] | None = None,
    ) -> Iterator[Keys]:
        """The places of the facts, in blocks."""
        del version, needed
        size = rows or thresholds.now.block
        for start in range(0, self._rows, size):
            yield np.arange(start, min(start + size, self._rows), dtype=np.uint64)

    def column(self, hits: Keys, column: int) -> Words:
        """A column at some places."""
        return self._columns[column][hits]

    def key(self, words: Mapping[int, Words | int], rows: int) -> tuple[Keys, int]:
        """Nobody looks anything up."""
        raise AssertionError("a seed is only scanned")

    def alive(self, hits: Keys) -> Mask | None:
        """All of them."""
        del hits
        return None
