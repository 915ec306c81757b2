"""The matrices of folded relations: a row for each class of the first column.

BitRows     a bit for each class of the second column: rows × columns / 8 bytes, whatever the
            facts; membership is one probe
RangeRows   8 bytes for each range of neighbouring classes in a row; a binary search
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from caladan.columns.folded import Fold, FoldedMatrix
from caladan.columns.kernels import (
    bits as bit_kernels,
    blocks as block_kernels,
    ranges as range_kernels,
)
from caladan.columns.layout import Counts, Keys, Mask, Words
from caladan.columns.membership import NO_KEYS
from caladan.columns.ranks import nothing_yet


@dataclass(frozen=True, slots=True)
class BitRows(FoldedMatrix):
    """A bit for each pair of classes."""

    bits: NDArray[np.uint64]

    form = "bit rows"

    @classmethod
    def of(cls, rows: Fold, columns: Fold, bits: NDArray[np.uint64]) -> Self:
        """Bit rows, counted."""
        return cls(rows, columns, NO_KEYS, int(_weighed_bits(bits, columns) @ rows.sizes), bits)

    def with_folds(self, rows: Fold, columns: Fold) -> Self:
        return self.of(rows, columns, self.bits)

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
        out = np.full(len(self.bits), nothing_yet(smallest=True), np.int64)
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
class RangeRows(FoldedMatrix):
    """For each class of rows the ranges of its columns' classes, first << 32 | last, ascending."""

    bounds: Counts
    ranges: Keys

    form = "ranges"

    @classmethod
    def of(cls, rows: Fold, columns: Fold, bounds: Counts, ranges: Keys) -> Self:
        """Ranges, counted."""
        per_row = _weighed_ranges(bounds, ranges, columns)
        return cls(rows, columns, NO_KEYS, int(per_row @ rows.sizes), bounds, ranges)

    def with_folds(self, rows: Fold, columns: Fold) -> Self:
        return self.of(rows, columns, self.bounds, self.ranges)

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
        out = np.full(len(self.bounds) - 1, nothing_yet(smallest=True), np.int64)
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
