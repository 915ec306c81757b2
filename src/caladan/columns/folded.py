"""Binary relations whose facts are never listed: bit rows and ranges over classes of words.

Words that stand in the same facts are folded into one class: the nodes of a strongly connected
component, siblings of one generation. A relation is then a matrix over classes, kept as bits
(`BitRows`) or as ranges (`RangeRows`), and two `Fold`s that lead from words to classes and back. A
few facts that do not fit the folding may stand beside it (`extra`).

    BitRows     rows × columns / 8 bytes, whatever the facts; membership is one probe
    RangeRows   8 bytes for each range of neighbouring classes in a row
    Distinct    a relation of one column: its words

All are layouts (columns/layout.py): they count, list blocks, test and select.

A fold: words in classes, from words to classes and back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from caladan.columns.interner import pairs
from caladan.columns.kernels import (
    bits as bit_kernels,
    blocks as block_kernels,
    ranges as range_kernels,
)
from caladan.columns.kernels.graph import adjacency
from caladan.columns.layout import Counts, Keys, Mask, Words, head_of
from caladan.columns.membership import NO_KEYS, among
from caladan.program import thresholds

NONE: Final = np.uint32(0xFFFFFFFF)  # the class of a word that has none


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
        """How many classes."""
        return len(self.bounds) - 1

    @property
    def sizes(self) -> Counts:
        """How many words each class has."""
        return np.diff(self.bounds)

    @property
    def words(self) -> Words:
        """The words that have a class, ascending."""
        return np.flatnonzero(self.class_of != NONE).astype(np.uint32)

    @property
    def nbytes(self) -> int:
        """The bytes its arrays take."""
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
_WORST: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class _FoldedMatrix(ABC):
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
    def with_folds(self, rows: Fold, columns: Fold) -> Matrix:
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

    def _listed(self, words: Words, rows: int) -> Iterator[tuple[Words, ...]]:
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
        yield from self._listed(self.rows.words, size)
        yield from _unpacked(self.extra, size)

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
                yield from self._listed(np.array([bound[0]], np.uint32), size)
            low, high = np.searchsorted(
                self.extra, np.array([bound[0], bound[0] + 1], np.uint64) << _HALF
            )
            yield from _unpacked(self.extra[low:high], size)
            return
        column = self.columns.of_word(bound[1])
        if column is not None:
            has: Mask = np.append(self._rows_with(column), False)  # NONE looks at the last
            row_of = np.minimum(self.rows.class_of, len(has) - 1)
            words = np.flatnonzero(has[row_of]).astype(np.uint32)
            for at in range(0, len(words), size):
                part = words[at : at + size]
                yield part, np.full(len(part), bound[1], np.uint32)
        yield from _unpacked(self.extra[(self.extra & _LOW) == np.uint64(bound[1])], size)


def _unpacked(keys: Keys, rows: int) -> Iterator[tuple[Words, ...]]:
    for at in range(0, len(keys), rows):
        part = keys[at : at + rows]
        yield (part >> _HALF).astype(np.uint32), (part & _LOW).astype(np.uint32)


@dataclass(frozen=True, slots=True)
class BitRows(_FoldedMatrix):
    """A bit for each pair of classes."""

    bits: NDArray[np.uint64]

    form = "bit rows"

    @classmethod
    def of(cls, rows: Fold, columns: Fold, bits: NDArray[np.uint64]) -> BitRows:
        """Bit rows, counted."""
        return cls(rows, columns, NO_KEYS, int(_weighed_bits(bits, columns) @ rows.sizes), bits)

    def with_folds(self, rows: Fold, columns: Fold) -> BitRows:
        return BitRows.of(rows, columns, self.bits)

    @property
    def nbytes(self) -> int:
        return self.bits.nbytes + self._beside()

    def emit(self, words: Words, row_of: Words, cursor: Counts, first: Words, second: Words) -> int:
        columns = self.columns
        return bit_kernels.emit_bits(
            self.bits, words, row_of, columns.bounds, columns.members, cursor, first, second
        )

    def row_weights(self) -> Counts:
        return _weighed_bits(self.bits, self.columns)

    def column_weights(self, wanted: Words, weights: Counts) -> Counts:
        out = np.zeros(len(wanted), np.int64)
        mask, ahead = self._wanted(wanted)
        bit_kernels.weigh_columns_bits(self.bits, mask, ahead, weights, out)
        return out

    def list_columns(self, wanted: Words, cursor: Counts, out: Words) -> None:
        bit_kernels.list_columns_bits(self.bits, *self._wanted(wanted), cursor, out)

    def _wanted(self, wanted: Words) -> tuple[Keys, Counts]:
        mask = np.zeros((1, self.bits.shape[1]), np.uint64)
        bit_kernels.set_bits(mask, np.zeros(len(wanted), np.uint32), wanted)
        return mask[0], _ahead(wanted, self.columns.count)

    def sums(self, prefix: Counts) -> Counts:
        values = np.diff(prefix)
        least = int(values.min(initial=0))
        out = np.empty(len(self.bits), np.int64)
        bit_kernels.weigh_bits(self.bits, _in_binary(values - least, self.bits.shape[1]), out)
        if least:
            ones = np.empty(len(self.bits), np.int64)
            every = _in_binary(np.ones(len(values), np.int64), self.bits.shape[1])
            bit_kernels.weigh_bits(self.bits, every, ones)
            out += least * ones
        return out

    def fill(self, rows: Words, places: Words, out: NDArray[np.uint64]) -> None:
        bit_kernels.fill_bits(self.bits, rows, places, out)

    def fill_columns(self, columns: Words, places: Words, out: NDArray[np.uint64]) -> None:
        wanted, bounds, ordered = _by_class(columns, places)
        bit_kernels.fill_columns_bits(self.bits, *self._wanted(wanted), bounds, ordered, out)

    def best(self, values: Counts) -> Counts:
        out = np.full(len(self.bits), _WORST, np.int64)
        bit_kernels.best_bits(self.bits, values, out)
        return out

    def _probe(self, first: Words, second: Words, out: Mask) -> None:
        bit_kernels.contains_bits(
            self.bits, self.rows.class_of, self.columns.class_of, first, second, out
        )

    def _rows_with(self, column: int) -> Mask:
        out = np.empty(len(self.bits), np.bool_)
        bit_kernels.column_bits(self.bits, column, out)
        return out


def _weighed_bits(bits: NDArray[np.uint64], columns: Fold) -> Counts:
    per_row = np.empty(len(bits), np.int64)
    bit_kernels.weigh_bits(bits, _in_binary(columns.sizes, bits.shape[1]), per_row)
    return per_row


def _by_class(classes: Words, places: Words) -> tuple[Words, Counts, Words]:
    """Distinct classes, ascending, and the places of each: from bounds[k] on."""
    order = np.argsort(classes, kind="stable")
    wanted, first = np.unique(classes[order], return_index=True)
    return wanted, np.append(first, len(classes)).astype(np.int64), places[order]


def _ahead(wanted: Words, count: int) -> Counts:
    """For each of so many classes, and one more, how many of the wanted ones are before it."""
    marks = np.zeros(count + 2, np.int64)
    marks[wanted + np.uint32(1)] = 1
    return np.cumsum(marks)[: count + 1]


def _in_binary(sizes: Counts, words: int) -> NDArray[np.uint64]:
    """Weights as bit rows, one for each binary digit: what `weigh_bits` wants."""
    digits = max(1, int(sizes.max(initial=1)).bit_length())
    weights = np.zeros((digits, max(words, 1)), np.uint64)
    for digit in range(digits):
        columns = np.flatnonzero((sizes >> digit) & 1).astype(np.uint32)
        bit_kernels.set_bits(weights, np.full(len(columns), digit, np.uint32), columns)
    return weights


@dataclass(frozen=True, slots=True)
class RangeRows(_FoldedMatrix):
    """For each class of rows the ranges of its columns' classes, first << 32 | last, ascending."""

    bounds: Counts
    ranges: Keys

    form = "ranges"

    @classmethod
    def of(cls, rows: Fold, columns: Fold, bounds: Counts, ranges: Keys) -> RangeRows:
        """Ranges, counted."""
        per_row = _weighed_ranges(bounds, ranges, columns)
        return cls(rows, columns, NO_KEYS, int(per_row @ rows.sizes), bounds, ranges)

    def with_folds(self, rows: Fold, columns: Fold) -> RangeRows:
        return RangeRows.of(rows, columns, self.bounds, self.ranges)

    @property
    def nbytes(self) -> int:
        return self.bounds.nbytes + self.ranges.nbytes + self._beside()

    def emit(self, words: Words, row_of: Words, cursor: Counts, first: Words, second: Words) -> int:
        columns = self.columns
        return range_kernels.emit_ranges(
            self.bounds, self.ranges, words, row_of, columns.bounds, columns.members,
            cursor, first, second,
        )  # fmt: skip

    def row_weights(self) -> Counts:
        return _weighed_ranges(self.bounds, self.ranges, self.columns)

    def column_weights(self, wanted: Words, weights: Counts) -> Counts:
        out = np.zeros(len(wanted) + 1, np.int64)
        ahead = _ahead(wanted, self.columns.count)
        range_kernels.weigh_columns_ranges(self.bounds, self.ranges, ahead, weights, out)
        return out[:-1]

    def list_columns(self, wanted: Words, cursor: Counts, out: Words) -> None:
        ahead = _ahead(wanted, self.columns.count)
        range_kernels.list_columns_ranges(self.bounds, self.ranges, ahead, cursor, out)

    def sums(self, prefix: Counts) -> Counts:
        out = np.empty(len(self.bounds) - 1, np.int64)
        range_kernels.weigh_ranges(self.bounds, self.ranges, prefix, out)
        return out

    def fill(self, rows: Words, places: Words, out: NDArray[np.uint64]) -> None:
        block_kernels.fill_ranges(self.bounds, self.ranges, rows, places, out)

    def fill_columns(self, columns: Words, places: Words, out: NDArray[np.uint64]) -> None:
        wanted, bounds, ordered = _by_class(columns, places)
        ahead = _ahead(wanted, self.columns.count)
        range_kernels.fill_columns_ranges(self.bounds, self.ranges, ahead, bounds, ordered, out)

    def best(self, values: Counts) -> Counts:
        levels = [values]
        while 2 << (len(levels) - 1) <= len(values):
            half, step = levels[-1], 1 << (len(levels) - 1)
            wider = half.copy()
            wider[:-step] = np.minimum(half[:-step], half[step:])
            levels.append(wider)
        out = np.full(len(self.bounds) - 1, _WORST, np.int64)
        range_kernels.best_ranges(self.bounds, self.ranges, np.stack(levels), out)
        return out

    def _probe(self, first: Words, second: Words, out: Mask) -> None:
        range_kernels.contains_ranges(
            self.bounds, self.ranges, self.rows.class_of, self.columns.class_of, first, second, out
        )

    def _rows_with(self, column: int) -> Mask:
        out = np.empty(len(self.bounds) - 1, np.bool_)
        range_kernels.column_ranges(self.bounds, self.ranges, column, out)
        return out


def _weighed_ranges(bounds: Counts, ranges: Keys, columns: Fold) -> Counts:
    per_row = np.empty(len(bounds) - 1, np.int64)
    range_kernels.weigh_ranges(bounds, ranges, columns.bounds, per_row)
    return per_row


Matrix: TypeAlias = BitRows | RangeRows


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
