"""Binary relations whose facts are never listed: matrices over classes of words.

Words that stand in the same facts are folded into one class: the nodes of a strongly connected
component, siblings of one generation. A relation is then a matrix over classes (matrices.py), and
two `Fold`s that lead from words to classes and back. A few facts that do not fit the folding may
stand beside it (`extra`). `Distinct` is a relation of one column: its words.

All are layouts (columns/layout.py): they count, list blocks, test and select.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from caladan.columns.folded_index import NONE
from caladan.columns.interner import pairs
from caladan.columns.kernels.graph import adjacency
from caladan.columns.layout import Counts, Keys, Mask, Words, head_of
from caladan.columns.membership import among
from caladan.program import thresholds


@dataclass(frozen=True, slots=True)
class Fold:
    """Words in classes 0 … count - 1: `class_of` by word, `members[bounds[c]:…]` by class."""

    class_of: Words
    bounds: Counts
    members: Words

    @classmethod
    def of(cls, class_of: Words, count: int) -> Fold:
        """The fold that puts each word into the class given for it, `NONE` for no class."""
        words = np.flatnonzero(class_of != NONE).astype(np.uint32)
        bounds = np.zeros(count + 1, np.int64)
        members = np.empty(len(words), np.uint32)
        adjacency(class_of[words], words, bounds, members)
        return cls(class_of, bounds, members)

    @property
    def count(self) -> int:
        return len(self.bounds) - 1

    @property
    def sizes(self) -> Counts:
        return np.diff(self.bounds)

    @property
    def words(self) -> Words:
        """The words that have a class, ascending."""
        return np.flatnonzero(self.class_of != NONE).astype(np.uint32)

    @property
    def nbytes(self) -> int:
        return self.class_of.nbytes + self.bounds.nbytes + self.members.nbytes

    def part(self, begin: int, end: int) -> Fold:
        """The same classes for the words from `begin` to `end`, which are counted from 0."""
        return Fold.of(self.class_of[begin:end].copy(), self.count)

    def of_word(self, word: int) -> int | None:
        """The class of a word, if it has one."""
        if word >= len(self.class_of) or self.class_of[word] == NONE:
            return None
        return int(self.class_of[word])


_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)


@dataclass(frozen=True, slots=True)
class FoldedMatrix(ABC):
    """What bit rows and ranges have in common: the folds and the facts beside them."""

    rows: Fold
    columns: Fold
    extra: Keys  # facts as first << 32 | second, ascending; none of them is in the matrix
    total: int

    arity = 2

    def count(self) -> int:
        return self.total

    @abstractmethod
    def emit(self, words: Words, row_of: Words, cursor: Counts, first: Words, second: Words) -> int:
        """List the matrix for some words with these classes, from a cursor on; how many facts."""

    @abstractmethod
    def row_weights(self) -> Counts:
        """How many words of the second column go with each class of the first."""

    @abstractmethod
    def column_weights(self, wanted: Words, weights: Counts) -> Counts:
        """For some classes of the second column, ascending, the weight of the rows they are in."""

    @abstractmethod
    def list_columns(self, wanted: Words, cursor: Counts, out: Words) -> None:
        """The rows that some classes of the second column are in, each from its cursor on."""

    @abstractmethod
    def best(self, values: Counts) -> Counts:
        """For each row the least of its columns' values; the largest number if it has none."""

    @abstractmethod
    def sums(self, prefix: Counts) -> Counts:
        """For each row the sum of its columns' values; prefix[c] is that of all before class c."""

    @abstractmethod
    def fill(self, rows: Words, places: Words, out: NDArray[np.uint64]) -> None:
        """For some rows, set the bits at their places, which ascend, for every column they have."""

    @abstractmethod
    def fill_columns(self, columns: Words, places: Words, out: NDArray[np.uint64]) -> None:
        """For some columns, set the bits at their places for every row they are in."""

    @abstractmethod
    def with_folds(self, rows: Fold, columns: Fold) -> Self:
        """The same matrix for other words; facts beside it are left out."""

    def with_extra(self, first: Words, second: Words) -> Self:
        """The same with facts beside the matrix, none of which is in it."""
        extra = pairs(first, second)
        extra.sort()
        return replace(self, extra=extra, total=self.total + len(extra))

    @abstractmethod
    def _probe(self, first: Words, second: Words, out: Mask) -> None: ...

    @abstractmethod
    def _rows_with(self, column: int) -> Mask: ...

    def _beside(self) -> int:
        """The bytes of folds and extra facts; a fold that serves both columns is there once."""
        again = 0 if self.columns is self.rows else self.columns.nbytes
        return self.rows.nbytes + again + self.extra.nbytes

    def listed(self, words: Words, rows: int) -> Iterator[tuple[Words, ...]]:
        """The facts of the matrix for some words of the first column, in their order."""
        cursor = np.zeros(3, np.int64)
        rows = max(1, min(rows, self.total))
        while cursor[0] < len(words):
            first = np.empty(rows, np.uint32)
            second = np.empty(rows, np.uint32)
            count = self.emit(words, self.rows.class_of, cursor, first, second)
            if count:
                yield first[:count], second[:count]

    def blocks(self, rows: int | None = None) -> Iterator[tuple[Words, ...]]:
        size = rows or thresholds.now.block
        yield from self.listed(self.rows.words, size)
        yield from _unpack(self.extra, size)

    def head(self, rows: int) -> tuple[Words, ...]:
        return head_of(self.blocks, self.arity, rows)

    def contains(self, columns: tuple[Words, ...]) -> Mask:
        first, second = (np.ascontiguousarray(c, np.uint32) for c in columns)
        out = np.empty(len(first), np.bool_)
        self._probe(first, second, out)
        if len(self.extra):
            out |= among(pairs(first, second), self.extra)
        return out

    def select(
        self, bound: Mapping[int, int], rows: int | None = None
    ) -> Iterator[tuple[Words, ...]]:
        size = rows or thresholds.now.block
        if not bound:
            yield from self.blocks(size)
            return
        if any(not 0 <= word < int(NONE) for word in bound.values()):
            return
        if 0 in bound and 1 in bound:
            fact = (np.array([bound[0]], np.uint32), np.array([bound[1]], np.uint32))
            if self.contains(fact)[0]:
                yield fact
            return
        if 0 in bound:
            if self.rows.of_word(bound[0]) is not None:
                yield from self.listed(np.array([bound[0]], np.uint32), size)
            low, high = np.searchsorted(
                self.extra, np.array([bound[0], bound[0] + 1], np.uint64) << _HALF
            )
            yield from _unpack(self.extra[low:high], size)
            return
        column = self.columns.of_word(bound[1])
        if column is not None:
            has: Mask = np.append(self._rows_with(column), False)  # NONE looks at the last
            row_of = np.minimum(self.rows.class_of, len(has) - 1)
            words = np.flatnonzero(has[row_of]).astype(np.uint32)
            for at in range(0, len(words), size):
                part = words[at : at + size]
                yield part, np.full(len(part), bound[1], np.uint32)
        yield from _unpack(self.extra[(self.extra & _LOW) == np.uint64(bound[1])], size)


def _unpack(keys: Keys, rows: int) -> Iterator[tuple[Words, ...]]:
    for at in range(0, len(keys), rows):
        part = keys[at : at + rows]
        yield (part >> _HALF).astype(np.uint32), (part & _LOW).astype(np.uint32)


@dataclass(frozen=True, slots=True)
class Distinct:
    """A unary relation: its words, ascending."""

    words: Words

    arity = 1
    form = "words"

    @property
    def nbytes(self) -> int:
        return self.words.nbytes

    def count(self) -> int:
        return len(self.words)

    def blocks(self, rows: int | None = None) -> Iterator[tuple[Words, ...]]:
        size = rows or thresholds.now.block
        return ((self.words[at : at + size],) for at in range(0, len(self.words), size))

    def head(self, rows: int) -> tuple[Words, ...]:
        return (self.words[:rows],)

    def contains(self, columns: tuple[Words, ...]) -> Mask:
        return among(columns[0], self.words)

    def select(
        self, bound: Mapping[int, int], rows: int | None = None
    ) -> Iterator[tuple[Words, ...]]:
        if not bound:
            yield from self.blocks(rows)
        elif 0 <= bound[0] < int(NONE):
            word = np.array([bound[0]], np.uint32)
            if self.contains((word,))[0]:
                yield (word,)
