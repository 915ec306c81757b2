"""Relations as the search reads them: runs of facts, each with tries in the orders asked for.

A relation is a sum of runs. Runs hold distinct facts of their own and are never changed; a trie is
built when an order is first needed, and shared by every constraint that reads the relation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from caladan.join.search.frontier import Mask, Words, as_words
from caladan.join.search.trie import Keys, Trie, reordered, unpack


class TrieRun:
    """A batch of facts: one array a column, or sorted keys that the columns are packed in."""

    __slots__ = ("_columns", "_keys", "_order", "_tries", "_widths", "count")

    def __init__(self, columns: Sequence[ArrayLike], count: int | None = None) -> None:
        self._columns: tuple[Words, ...] | None = tuple(as_words(c) for c in columns)
        lengths = {len(c) for c in self._columns}
        if len(lengths) > 1:
            raise ValueError(f"columns of a relation differ in length: {sorted(lengths)}")
        self.count = lengths.pop() if lengths else (count or 0)
        self._tries: dict[tuple[int, ...], Trie] = {}
        self._keys: Keys = np.empty(0, np.uint64)
        self._order: tuple[int, ...] = ()
        self._widths: tuple[int, ...] = ()

    @staticmethod
    def of_keys(keys: Keys, order: Sequence[int], widths: Sequence[int]) -> TrieRun:
        """From sorted distinct keys; `order` and `widths` are of their columns, high first."""
        run = TrieRun((), len(keys))
        run._columns = None
        run._keys, run._order, run._widths = keys, tuple(order), tuple(widths)
        return run

    @property
    def columns(self) -> tuple[Words, ...]:
        """The columns, unpacked when somebody asks."""
        if self._columns is None:
            unpacked = unpack(self._keys, self._widths)
            by_column = dict(zip(self._order, unpacked, strict=True))
            self._columns = tuple(by_column[c] for c in range(len(unpacked)))
        return self._columns

    @property
    def orders(self) -> list[tuple[int, ...]]:
        """The orders there are tries for."""
        return list(self._tries)

    def trie(self, order: tuple[int, ...]) -> Trie:
        """The facts in a column order."""
        if order not in self._tries:
            self._tries[order] = self._built(order)
        return self._tries[order]

    def _built(self, order: tuple[int, ...]) -> Trie:
        if not self._order:
            return Trie.of([self.columns[c] for c in order])
        if order == self._order:
            return Trie.of_keys(self._keys, self._widths)
        places = [self._order.index(c) for c in order]
        keys = reordered(self._keys, self._widths, places)
        return Trie.of_keys(keys, [self._widths[p] for p in places], give=True)


class SearchRelation:
    """A relation of some arity as a few runs; no columns and a count of 1 is the true fact."""

    __slots__ = ("arity", "orders", "runs")

    def __init__(self, arity: int, runs: Sequence[TrieRun]) -> None:
        self.arity = arity
        self.runs = tuple(run for run in runs if run.count)
        # The orders asked for so far, by others who read the same runs too.
        self.orders: list[tuple[int, ...]] = self.runs[0].orders if self.runs else []

    @staticmethod
    def of(columns: Sequence[ArrayLike]) -> SearchRelation:
        """A relation with one run; repeated facts count once."""
        return SearchRelation(len(columns), [TrieRun(columns)])

    @staticmethod
    def of_rows(columns: Sequence[ArrayLike], count: int) -> SearchRelation:
        """The same, where there may be no columns."""
        return SearchRelation(len(columns), [TrieRun(columns, count)])

    @property
    def count(self) -> int:
        """How many facts, repetitions between and within runs included."""
        return sum(run.count for run in self.runs)

    def tries(self, order: tuple[int, ...]) -> tuple[Trie, ...]:
        """A trie for each run that has facts."""
        if order not in self.orders:
            self.orders.append(order)
        return tuple(run.trie(order) for run in self.runs)

    def order_for(
        self, prefix: frozenset[int], then: frozenset[int] = frozenset()
    ) -> tuple[int, ...] | None:
        """An order asked for before that starts with `prefix` and goes on with `then`.

        Within each of the two, columns may come in any order.
        """
        middle = len(prefix)
        end = middle + len(then)
        for order in self.orders:
            if frozenset(order[:middle]) == prefix and frozenset(order[middle:end]) == then:
                return order
        return None

    def where(self, mask_of: Sequence[Mask]) -> SearchRelation:
        """The facts that a mask for each run lets through."""
        return SearchRelation(
            self.arity,
            [
                TrieRun([c[mask] for c in run.columns], int(np.count_nonzero(mask)))
                for run, mask in zip(self.runs, mask_of, strict=True)
            ],
        )

    def project(self, columns: Sequence[int]) -> SearchRelation:
        """Some columns of the facts."""
        return SearchRelation(
            len(columns),
            [TrieRun([run.columns[c] for c in columns], run.count) for run in self.runs],
        )
