"""A relation whose facts are a matrix over tuples: read like any other, and never listed.

A matrix (matrices.py) holds pairs of numbers. Each stands for the words of some columns of the
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

from caladan.columns.folded_index import NONE, FoldedIndex, class_of, first_of, second_of, stretches
from caladan.columns.index import PackedIndex
from caladan.columns.interner import Tuples, pairs
from caladan.columns.invariants import BrokenInvariantError
from caladan.columns.layout import Counts, Keys, Mask, Packing, Words, column_of, head_of
from caladan.columns.ranks import nothing_yet
from caladan.columns.runs import Run
from caladan.program import thresholds
from caladan.rules.body import Version

if TYPE_CHECKING:
    from caladan.columns.folded import Fold
    from caladan.columns.matrices import Matrix  # its kernels load numba

_HALF: Final = np.uint64(32)


class FoldedSide:
    """Some columns of a relation, and their words by number; None if numbers are the words."""

    def __init__(self, columns: Sequence[int], words: Sequence[Words] | None = None) -> None:
        self.columns = tuple(columns)
        self.words = None if words is None else tuple(words)
        self._groups: dict[tuple[int, ...], tuple[Tuples, Counts, Words]] = {}

    @property
    def nbytes(self) -> int:
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
        given = [column_of(words[c], rows) for c in bound]
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
        once = [each for i, each in enumerate(graph) if not any(each is o for o in graph[:i])]
        beside = sum(each.nbytes for each in once)
        return self.matrix.nbytes + self.first.nbytes + self.second.nbytes + beside

    def count(self) -> int:
        return self.matrix.count()

    def blocks(self, rows: int | None = None) -> Iterator[tuple[Words, ...]]:
        return (self._columns(*block) for block in self.matrix.blocks(rows))

    def head(self, rows: int) -> tuple[Words, ...]:
        return head_of(self.blocks, self.arity, rows)

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
        is_first = column in self.first.columns
        side, numbers = (self.first, first) if is_first else (self.second, second)
        if len(numbers) and numbers[0] == NONE:
            raise BrokenInvariantError(f"column {column} is read of a scan that left it out")
        return side.of(numbers, column)

    # ── What a stored relation is asked, and a finished one has nothing to say to ────────────────

    arrangements: Final[list[tuple[int, ...]]] = []
    spilled = 0
    pending_bytes = 0
    pending_rows = 0

    def count_pending(self) -> int:
        return 0

    def delta_count(self) -> int:
        return 0

    def add(self, columns: Sequence[Words], rows: int) -> None:
        """Nothing can be added."""
        raise TypeError("a folded relation is finished")

    def flip(self) -> int:
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
                unread = np.full(len(found), NONE)  # which `column` refuses to read
                both = (found, unread) if side is self.first else (unread, found)
                keys = pairs(*both)
                yield from (keys[at : at + size] for at in range(0, len(keys), size))
                return
        yield from (pairs(*block) for block in self.matrix.blocks(size))

    def best(self, values: Counts) -> tuple[Words, Counts]:
        """The numbers of the first side, and the least value that goes with each.

        Values are those of the second side's numbers.
        """
        fold = self.matrix.columns
        least = np.full(fold.count, nothing_yet(smallest=True), np.int64)
        np.minimum.at(least, fold.class_of[fold.members], values[fold.members])
        by_row = self.matrix.best(least)
        numbers, _ = self._first
        found = np.full(len(numbers), nothing_yet(smallest=True), np.int64)
        row_of = class_of(self.matrix.rows.class_of, numbers)
        folded = row_of != NONE
        found[folded] = by_row[row_of[folded]]
        if len(self.matrix.extra):
            at = np.searchsorted(numbers, first_of(self.matrix.extra))
            np.minimum.at(found, at, values[second_of(self.matrix.extra)])
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
        return _weigh(self.matrix.rows, self.row_weights, first_of(self.matrix.extra))

    @cached_property
    def _second(self) -> tuple[Words, Counts]:
        """The numbers of the second side that have facts, and how many."""
        return _weigh(self.matrix.columns, self.column_weights, second_of(self.matrix.extra))

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


def _weigh(fold: Fold, weights: Counts, extra: Words) -> tuple[Words, Counts]:
    """The numbers that have facts, and how many: by class, and one for each extra number."""
    beside = np.bincount(extra).astype(np.int64)
    total = np.zeros(max(len(fold.class_of), len(beside)), np.int64)
    words = fold.words
    total[words] = weights[fold.class_of[words]]
    total[: len(beside)] += beside
    numbers = np.flatnonzero(total)
    return numbers.astype(np.uint32), total[numbers]
