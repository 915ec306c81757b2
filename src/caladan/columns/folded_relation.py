"""A relation whose facts are a matrix over tuples: read like any other, and never listed.

A matrix (folded.py) holds pairs of numbers. Each number stands for the words of some columns of the
relation, its *side*: with one column on a side, the number may be the word itself. So a closure
with three columns that are carried along is a matrix of two.

    count       one sum
    index       by any columns: rows of the matrix, columns of it, or tests of single places
    weighed     for each tuple of a side, how many facts it has: what `count` wants
    best        for each tuple of a side, the least value that goes with it: what `min` wants
    scan        all facts, or some facts for every tuple of a side, if nothing else is read

A fact found is the key first << 32 | second of its two numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from caladan.columns.index import Matches, PackedIndex, RunMatches
from caladan.columns.interner import ABSENT, Tuples, pairs
from caladan.columns.layout import Counts, Keys, Mask, Packing, Words, first_rows
from caladan.columns.runs import Run
from caladan.program import thresholds
from caladan.rules.body import Version

if TYPE_CHECKING:
    from caladan.columns.folded import Matrix  # its kernels load numba

NONE: Final = np.uint32(ABSENT)
_HALF: Final = np.uint64(32)


class FoldedSide:
    """Some columns of a relation, and their words by number; None if numbers are the words."""

    def __init__(self, columns: Sequence[int], words: Sequence[Words] | None = None) -> None:
        self.columns = tuple(columns)
        self.words = None if words is None else tuple(words)
        self._groups: dict[tuple[int, ...], tuple[Tuples, Counts, Words]] = {}

    @property
    def nbytes(self) -> int:
        """The bytes of the words."""
        return 0 if self.words is None else sum(each.nbytes for each in self.words)

    def of(self, numbers: Words, column: int) -> Words:
        """A column of the tuples with some numbers."""
        if self.words is None:
            return numbers
        return self.words[self.columns.index(column)][numbers]

    def is_whole(self, bound: Sequence[int]) -> bool:
        """Whether the bound columns leave at most one tuple."""
        return len(bound) == len(self.columns)

    def keys(self, bound: tuple[int, ...], words: Mapping[int, Words | int], rows: int) -> Words:
        """Numbers of tuples, or of groups that share some columns; NONE where there is none."""
        given = [_column(words[c], rows) for c in bound]
        if self.words is None:
            return given[0]
        return self._grouped(bound)[0].find(given, rows)

    def members(self, bound: tuple[int, ...], keys: Words) -> tuple[Counts, Words]:
        """For keys of some columns: places in the batch, and the numbers that go with them."""
        known = np.flatnonzero(keys != NONE)
        if self.is_whole(bound):
            return known, keys[known]
        _, bounds, members = self._grouped(bound)
        begin, end = bounds[keys[known]], bounds[keys[known] + np.uint32(1)]
        return np.repeat(known, end - begin), members[stretches(begin, end)]

    def _grouped(self, bound: tuple[int, ...]) -> tuple[Tuples, Counts, Words]:
        """The numbers by some of their columns."""
        assert self.words is not None
        if bound not in self._groups:
            tuples = Tuples(len(bound))
            columns = [self.words[self.columns.index(c)] for c in bound]
            ids, _ = tuples.ids(columns, len(columns[0]))
            order = np.argsort(ids, kind="stable").astype(np.uint32)
            counts = np.bincount(ids, minlength=len(tuples))
            bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
            self._groups[bound] = (tuples, bounds, order)
        return self._groups[bound]


@dataclass(frozen=True, slots=True)
class ClosureGraph:
    """What a closure is the closure of: steps between nodes, and where numbers start.

    `exits` are pairs of a number of the first side and a node; the numbers of the second side are
    the nodes `begin` … `end` - 1.
    """

    exits: tuple[Words, Words]
    steps: tuple[Words, Words]
    begin: int
    end: int


class FoldedRelation:
    """Facts as a matrix over the tuples of two sides; a closure may know its `graph`."""

    def __init__(
        self,
        matrix: Matrix,
        first: FoldedSide,
        second: FoldedSide,
        graph: ClosureGraph | None = None,
    ) -> None:
        self.matrix = matrix
        self.first = first
        self.second = second
        self.graph = graph

    @property
    def arity(self) -> int:
        return len(self.first.columns) + len(self.second.columns)

    @property
    def form(self) -> str:
        turned = ", transposed" if min(self.second.columns) == 0 else ""
        return self.matrix.form + turned

    @property
    def nbytes(self) -> int:
        graph = () if self.graph is None else (*self.graph.exits, *self.graph.steps)
        beside = sum({id(each): each.nbytes for each in graph}.values())
        return self.matrix.nbytes + self.first.nbytes + self.second.nbytes + beside

    def count(self) -> int:
        return self.matrix.count()

    def blocks(self, rows: int | None = None) -> Iterator[tuple[Words, ...]]:
        return (self._columns(*block) for block in self.matrix.blocks(rows))

    def head(self, rows: int) -> tuple[Words, ...]:
        size = max(1, min(rows, thresholds.now.block))
        return first_rows(self.blocks(size), self.arity, rows)

    def contains(self, columns: tuple[Words, ...]) -> Mask:
        index = self.index(range(self.arity), Version.FULL)
        return index.present(*index.key(dict(enumerate(columns)), len(columns[0])))

    def select(
        self, bound: Mapping[int, int], rows: int | None = None
    ) -> Iterator[tuple[Words, ...]]:
        size = rows or thresholds.now.block
        if not bound:
            yield from self.blocks(size)
            return
        if any(not 0 <= word < int(NONE) for word in bound.values()):
            return
        index = self.index(tuple(bound), Version.FULL)
        for _, hits in index.find(*index.key(bound, 1)).chunks(size):
            yield tuple(index.column(hits, c) for c in range(self.arity))

    def _columns(self, first: Words, second: Words) -> tuple[Words, ...]:
        return tuple(self.column(first, second, c) for c in range(self.arity))

    def column(self, first: Words, second: Words, column: int) -> Words:
        """A column of the facts with some numbers."""
        if column in self.first.columns:
            return self.first.of(first, column)
        return self.second.of(second, column)

    # ── What a stored relation is asked, and a finished one has nothing to say to ────────────────

    arrangements: Final[list[tuple[int, ...]]] = []
    spilled = 0
    pending_bytes = 0

    def delta_count(self) -> int:
        """Nothing is new."""
        return 0

    def add(self, columns: Sequence[Words], rows: int) -> None:
        """Nothing can be added."""
        raise TypeError("a folded relation is finished")

    def flip(self) -> int:
        """Nothing becomes new."""
        return 0

    def commit(self) -> None:
        """Nothing was new."""

    def has_order(self, bound: Sequence[int]) -> bool:
        """It is looked up by whatever columns."""
        return True

    # ── What joins ask for ───────────────────────────────────────────────────────────────────────

    def index(self, bound: Sequence[int], version: Version) -> FoldedIndex:
        """The relation by some columns; it is finished, so all its versions are one."""
        assert version in (Version.FULL, Version.NEW, Version.OLD)
        return FoldedIndex(self, bound)

    def scan(
        self,
        version: Version,
        rows: int | None = None,
        needed: frozenset[int] | None = None,
    ) -> Iterator[Keys]:
        """All facts as keys; if only some columns are needed, perhaps one for each of their tuples.

        Duplicates in the needed columns may be left out, whole tuples of them may not.
        """
        size = rows or thresholds.now.block
        for side, numbers in ((self.first, self._first), (self.second, self._second)):
            if needed is not None and needed <= frozenset(side.columns):
                found, _ = numbers
                zeros = np.zeros(len(found), np.uint32)
                both = (found, zeros) if side is self.first else (zeros, found)
                keys = pairs(*both)
                yield from (keys[at : at + size] for at in range(0, len(keys), size))
                return
        yield from (pairs(*block) for block in self.matrix.blocks(size))

    def best(self, values: Counts) -> tuple[Words, Counts]:
        """The numbers of the first side, and the least value that goes with each.

        Values are those of the second side's numbers.
        """
        fold = self.matrix.columns
        least = np.full(fold.count, np.iinfo(np.int64).max, np.int64)
        np.minimum.at(least, fold.class_of[fold.members], values[fold.members])
        by_row = self.matrix.best(least)
        numbers, _ = self._first
        found = np.full(len(numbers), np.iinfo(np.int64).max, np.int64)
        row_of = class_of(self.matrix.rows.class_of, numbers)
        folded = row_of != NONE
        found[folded] = by_row[row_of[folded]]
        if len(self.matrix.extra):
            at = np.searchsorted(numbers, (self.matrix.extra >> _HALF).astype(np.uint32))
            np.minimum.at(found, at, values[self.matrix.extra.astype(np.uint32)])
        return numbers, found

    def weighed(self, *, first: bool) -> tuple[Words, Counts]:
        """The numbers of a side that have facts, and how many each has."""
        return self._first if first else self._second

    @cached_property
    def row_weights(self) -> Counts:
        """How many numbers of the second side go with each class of the first."""
        return self.matrix.row_weights()

    @cached_property
    def _first(self) -> tuple[Words, Counts]:
        """The numbers of the first side that have facts, and how many."""
        matrix = self.matrix
        extra = np.bincount((matrix.extra >> _HALF).astype(np.int64)).astype(np.int64)
        total = np.zeros(max(len(matrix.rows.class_of), len(extra)), np.int64)
        words = matrix.rows.words
        total[words] = self.row_weights[matrix.rows.class_of[words]]
        total[: len(extra)] += extra
        numbers = np.flatnonzero(total)
        return numbers.astype(np.uint32), total[numbers]

    @cached_property
    def _second(self) -> tuple[Words, Counts]:
        """The numbers of the second side that have facts, and how many."""
        matrix = self.matrix
        extra = np.bincount(matrix.extra.astype(np.uint32)).astype(np.int64)
        total = np.zeros(max(len(matrix.columns.class_of), len(extra)), np.int64)
        words = matrix.columns.words
        total[words] = self.column_weights[matrix.columns.class_of[words]]
        total[: len(extra)] += extra
        numbers = np.flatnonzero(total)
        return numbers.astype(np.uint32), total[numbers]

    @cached_property
    def column_weights(self) -> Counts:
        """How many numbers of the first side go with each class of the second."""
        every = np.arange(self.matrix.columns.count, dtype=np.uint32)
        return self.matrix.column_weights(every, self.matrix.rows.sizes)

    @cached_property
    def beside(self) -> tuple[PackedIndex, PackedIndex]:
        """The facts beside the matrix, by either side."""
        straight, turned = Packing((32, 32), (0, 1)), Packing((32, 32), (1, 0))
        extra = self.matrix.extra
        swapped = (extra << _HALF) | (extra >> _HALF)
        swapped.sort()
        return (
            PackedIndex(straight, [Run(extra, straight)] if len(extra) else [], 1),
            PackedIndex(turned, [Run(swapped, turned)] if len(extra) else [], 1),
        )


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
            rows, numbers = self._relation.first.members(self._first, _first_of(keys))
            return RowMatches(self._relation, len(keys), rows, numbers)
        rows, numbers = self._relation.second.members(self._second, _second_of(keys))
        return ColumnMatches(self._relation, len(keys), rows, numbers)

    def present(self, keys: Keys, lead: int) -> Mask:
        relation = self._relation
        if self._first and self._second and self._is_whole:
            known = (_first_of(keys) != NONE) & (_second_of(keys) != NONE)
            return known & relation.matrix.contains((_first_of(keys), _second_of(keys)))
        return self.find(keys, lead).counts() > 0

    def column(self, hits: Keys, column: int) -> Words:
        return self._relation.column(_first_of(hits), _second_of(hits), column)

    def alive(self, hits: Keys) -> Mask | None:
        return None

    @property
    def _is_whole(self) -> bool:
        relation = self._relation
        return relation.first.is_whole(self._first) and relation.second.is_whole(self._second)

    def _places(self, keys: Keys) -> tuple[Words, Keys]:
        """Rows and facts where both sides are bound: every place is tested."""
        relation = self._relation
        rows, first = relation.first.members(self._first, _first_of(keys))
        again, second = relation.second.members(self._second, _second_of(keys)[rows])
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


class RowMatches:
    """Whole rows of the matrix: for places in the batch, numbers of the first side."""

    def __init__(self, relation: FoldedRelation, size: int, rows: Counts, numbers: Words) -> None:
        self._matrix = relation.matrix
        self._size = size
        self._rows = rows
        self._numbers = numbers
        row_of = class_of(self._matrix.rows.class_of, numbers)
        self._folded = np.flatnonzero(row_of != NONE)
        self._row_of = row_of[self._folded]
        self._beside = RunMatches(relation.beside[0], numbers.astype(np.uint64), 0)
        self._each = self._beside.counts()
        self._each[self._folded] += relation.row_weights[self._row_of]
        self.total = int(self._each.sum())

    def counts(self) -> Counts:
        return _summed(self._rows, self._each, self._size)

    def chunks(self, room: int) -> Iterator[tuple[Words, Keys]]:
        cursor = np.zeros(3, np.int64)
        words = np.arange(len(self._folded), dtype=np.uint32)
        room = max(1, min(room, self.total))
        while cursor[0] < len(words):
            first = np.empty(room, np.uint32)
            second = np.empty(room, np.uint32)
            count = self._matrix.emit(words, self._row_of, cursor, first, second)
            if count:
                at = self._folded[first[:count]]
                yield self._rows[at].astype(np.uint32), pairs(self._numbers[at], second[:count])
        for at, hits in self._beside.chunks(room):
            yield self._rows[at].astype(np.uint32), hits


class ColumnMatches:
    """Whole columns of the matrix: for places in the batch, numbers of the second side."""

    def __init__(self, relation: FoldedRelation, size: int, rows: Counts, numbers: Words) -> None:
        self._matrix = relation.matrix
        self._size = size
        self._rows = rows
        self._numbers = numbers
        column_of = class_of(self._matrix.columns.class_of, numbers)
        self._folded = np.flatnonzero(column_of != NONE)
        self._wanted, self._place = np.unique(column_of[self._folded], return_inverse=True)
        weights = self._matrix.rows.sizes
        self._weights = self._matrix.column_weights(self._wanted, weights)
        self._beside = RunMatches(relation.beside[1], numbers.astype(np.uint64), 0)
        self._each = self._beside.counts()
        self._each[self._folded] += self._weights[self._place]
        self.total = int(self._each.sum())

    def counts(self) -> Counts:
        return _summed(self._rows, self._each, self._size)

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


def _summed(rows: Counts, each: Counts, size: int) -> Counts:
    total = np.zeros(size, np.int64)
    np.add.at(total, rows, each)
    return total


def class_of(classes: Words, numbers: Words) -> Words:
    """The class of each number, NONE for those past the end."""
    padded = np.append(classes, NONE)
    return padded[np.minimum(numbers, np.uint32(len(classes)))]


def _first_of(keys: Keys) -> Words:
    return (keys >> _HALF).astype(np.uint32)


def _second_of(keys: Keys) -> Words:
    return keys.astype(np.uint32)


def _column(words: Words | int, rows: int) -> Words:
    return words if isinstance(words, np.ndarray) else np.full(rows, words, np.uint32)
