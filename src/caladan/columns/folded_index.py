"""A folded relation by some of its columns: rows of the matrix, columns of it, or single places.

Lookup keys and what is found are pairs of numbers, first << 32 | second. Which matches there are
depends on the sides that have bound columns:

    RowMatches      the first side: whole rows, listed by the matrix
    ColumnMatches   the second side: whole columns, some classes at a time
    ListedMatches   both, or none: places are tested, or all facts are given
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from caladan.columns.index import Matches, RunIndex, RunMatches
from caladan.columns.interner import ABSENT, pairs
from caladan.columns.layout import Counts, Keys, Mask, Words
from caladan.program import thresholds
from caladan.rules.body import Version

if TYPE_CHECKING:
    from caladan.columns.folded import Fold
    from caladan.columns.folded_relation import FoldedRelation
    from caladan.columns.matrices import Matrix  # its kernels load numba

NONE: Final = np.uint32(ABSENT)  # the class of a word that has none
_HALF: Final = np.uint64(32)


class FoldedIndex:
    """A folded relation by some columns; lookup keys are first << 32 | second."""

    is_exact = True

    def __init__(self, relation: FoldedRelation, bound: Sequence[int]) -> None:
        self._relation = relation
        self._first = tuple(c for c in relation.first.columns if c in bound)
        self._second = tuple(c for c in relation.second.columns if c in bound)

    def key(self, words: Mapping[int, Words | int], rows: int) -> tuple[Keys, int]:
        sides = ((self._relation.first, self._first), (self._relation.second, self._second))
        first, second = (
            side.keys(bound, words, rows) if bound else np.zeros(rows, np.uint32)
            for side, bound in sides
        )
        return pairs(first, second), 0

    def find(self, keys: Keys, lead: int) -> Matches:
        if not (self._first or self._second):
            return ListedMatches(len(keys), *self._everything(len(keys)))
        if self._first and self._second:
            return ListedMatches(len(keys), *self._places(keys))
        if self._first:
            rows, numbers = self._relation.first.members(self._first, first_of(keys))
            return RowMatches(self._relation, len(keys), rows, numbers)
        rows, numbers = self._relation.second.members(self._second, second_of(keys))
        return ColumnMatches(self._relation, len(keys), rows, numbers)

    def present(self, keys: Keys, lead: int) -> Mask:
        relation = self._relation
        if self._first and self._second and self._is_whole:
            known = (first_of(keys) != NONE) & (second_of(keys) != NONE)
            return known & relation.matrix.contains((first_of(keys), second_of(keys)))
        return self.find(keys, lead).counts() > 0

    def column(self, hits: Keys, column: int) -> Words:
        return self._relation.column(first_of(hits), second_of(hits), column)

    def alive(self, hits: Keys) -> Mask | None:
        return None

    @property
    def _is_whole(self) -> bool:
        relation = self._relation
        return relation.first.is_whole(self._first) and relation.second.is_whole(self._second)

    def _places(self, keys: Keys) -> tuple[Words, Keys]:
        """Rows and facts where both sides are bound: every place is tested."""
        relation = self._relation
        rows, first = relation.first.members(self._first, first_of(keys))
        again, second = relation.second.members(self._second, second_of(keys)[rows])
        rows, first = rows[again], first[again]
        found = relation.matrix.contains((first, second))
        return rows[found].astype(np.uint32), pairs(first[found], second[found])

    def _everything(self, rows: int) -> tuple[Words, Keys]:
        facts = np.concatenate([np.empty(0, np.uint64), *self._relation.scan(Version.FULL)])
        return np.repeat(np.arange(rows, dtype=np.uint32), len(facts)), np.tile(facts, rows)


class ListedMatches:
    """Matches that were found one by one."""

    def __init__(self, size: int, rows: Words, hits: Keys) -> None:
        self._size = size
        self._rows = rows
        self._hits = hits
        self.total = len(rows)

    def counts(self) -> Counts:
        return np.bincount(self._rows, minlength=self._size).astype(np.int64)

    def chunks(self, room: int) -> Iterator[tuple[Words, Keys]]:
        for at in range(0, self.total, room):
            yield self._rows[at : at + room], self._hits[at : at + room]


class _MatrixMatches:
    """Places in the batch, each with a number of a side; `fold` has the classes of the numbers.

    Numbers that have a class are `_folded`; to each of them goes what stands beside the matrix.
    """

    def __init__(
        self, matrix: Matrix, size: int, rows: Counts, numbers: Words, fold: Fold, beside: RunIndex
    ) -> None:
        self._matrix = matrix
        self._size = size
        self._rows = rows
        self._numbers = numbers
        classes = class_of(fold.class_of, numbers)
        self._folded = np.flatnonzero(classes != NONE)
        self._classes = classes[self._folded]
        self._beside = RunMatches(beside, numbers.astype(np.uint64), 0)
        self._each = self._beside.counts()

    def _weigh(self, weights: Counts) -> None:
        """Count the facts of the matrix too: so many for each folded number."""
        self._each[self._folded] += weights
        self.total = int(self._each.sum())

    def counts(self) -> Counts:
        total = np.zeros(self._size, np.int64)
        np.add.at(total, self._rows, self._each)
        return total


class RowMatches(_MatrixMatches):
    """Whole rows of the matrix, for numbers of the first side."""

    def __init__(self, relation: FoldedRelation, size: int, rows: Counts, numbers: Words) -> None:
        matrix = relation.matrix
        super().__init__(matrix, size, rows, numbers, matrix.rows, relation.beside[0])
        self._weigh(relation.row_weights[self._classes])

    def chunks(self, room: int) -> Iterator[tuple[Words, Keys]]:
        cursor = np.zeros(3, np.int64)
        words = np.arange(len(self._folded), dtype=np.uint32)
        room = max(1, min(room, self.total))
        while cursor[0] < len(words):
            first = np.empty(room, np.uint32)
            second = np.empty(room, np.uint32)
            count = self._matrix.emit(words, self._classes, cursor, first, second)
            if count:
                at = self._folded[first[:count]]
                yield self._rows[at].astype(np.uint32), pairs(self._numbers[at], second[:count])
        for at, hits in self._beside.chunks(room):
            yield self._rows[at].astype(np.uint32), hits


class ColumnMatches(_MatrixMatches):
    """Whole columns of the matrix, for numbers of the second side."""

    def __init__(self, relation: FoldedRelation, size: int, rows: Counts, numbers: Words) -> None:
        matrix = relation.matrix
        super().__init__(matrix, size, rows, numbers, matrix.columns, relation.beside[1])
        self._wanted, self._place = np.unique(self._classes, return_inverse=True)
        self._weights = matrix.column_weights(self._wanted, matrix.rows.sizes)
        self._weigh(self._weights[self._place])

    def chunks(self, room: int) -> Iterator[tuple[Words, Keys]]:
        ends = np.cumsum(self._weights)
        first = 0
        by_place = np.argsort(self._place, kind="stable")
        ordered = self._place[by_place]
        while first < len(self._wanted):
            before = ends[first - 1] if first else 0
            last = max(
                first + 1, int(np.searchsorted(ends, before + thresholds.now.folded_block, "right"))
            )
            bounds, members = self._listed(first, last)
            begin, end = np.searchsorted(ordered, [first, last])
            part = by_place[begin:end]
            yield from self._spread(part, self._place[part] - first, bounds, members, room)
            first = last
        for at, hits in self._beside.chunks(room):
            turned = (hits << _HALF) | (hits >> _HALF)
            yield self._rows[at].astype(np.uint32), turned

    def _listed(self, first: int, last: int) -> tuple[Counts, Words]:
        """For some of the wanted classes the numbers of the first side, by class."""
        matrix, wanted = self._matrix, self._wanted[first:last]
        rows = matrix.column_weights(wanted, np.ones(matrix.rows.count, np.int64))
        row_bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows)])
        found = np.empty(int(row_bounds[-1]), np.uint32)
        matrix.list_columns(wanted, row_bounds[:-1].copy(), found)
        members = matrix.rows.members[
            stretches(matrix.rows.bounds[found], matrix.rows.bounds[found + np.uint32(1)])
        ]
        weights = self._weights[first:last]
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(weights)]), members

    def _spread(
        self, part: Counts, place: Counts, bounds: Counts, members: Words, room: int
    ) -> Iterator[tuple[Words, Keys]]:
        counts = bounds[place + 1] - bounds[place]
        ends = np.cumsum(counts)
        at = 0
        while at < len(part):
            before = ends[at - 1] if at else 0
            stop = max(at + 1, int(np.searchsorted(ends, before + room, "right")))
            begin, end = bounds[place[at:stop]], bounds[place[at:stop] + 1]
            found = members[stretches(begin, end)]
            each = np.repeat(self._folded[part[at:stop]], counts[at:stop])
            yield self._rows[each].astype(np.uint32), pairs(found, self._numbers[each])
            at = stop


def stretches(begin: Counts, end: Counts) -> Counts:
    """The numbers of all stretches, one behind the other."""
    counts = end - begin
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(begin - (ends - counts), counts)


def class_of(classes: Words, numbers: Words) -> Words:
    """The class of each number, NONE for those past the end."""
    padded = np.append(classes, NONE)
    return padded[np.minimum(numbers, np.uint32(len(classes)))]


def first_of(keys: Keys) -> Words:
    """The first word of each pair."""
    return (keys >> _HALF).astype(np.uint32)


def second_of(keys: Keys) -> Words:
    """The second word of each pair."""
    return keys.astype(np.uint32)
