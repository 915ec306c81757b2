"""What every layout of a relation offers its readers, and how facts are packed into keys.

Sorted runs, rows, bit rows: some layouts hold billions of facts and never list them. Whoever reads
a relation asks for its count, for blocks of bounded size, for membership of a batch, or for the
facts that agree with given words; nothing else.

A `Packing` puts the words of a fact into one 64-bit key, in one column order. The first column of
the order takes the highest bits, so sorting keys sorts facts by that order, and the facts that
share their first columns are neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from caladan.columns.kernels import packs
from caladan.program import thresholds

Words: TypeAlias = NDArray[np.uint32]
Keys: TypeAlias = NDArray[np.uint64]
Counts: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


class Layout(Protocol):
    """A relation as its readers see it; columns are arrays of words, all of one length.

    The tuples below have one array for each column. A relation without columns has at most one
    fact, and its blocks are empty tuples: ask `count`.
    """

    @property
    def arity(self) -> int:
        """How many columns."""
        ...

    @property
    def form(self) -> str:
        """What it is, in a word or two, for stats and explain."""
        ...

    @property
    def nbytes(self) -> int:
        """The bytes its arrays take."""
        ...

    def count(self) -> int:
        """How many facts; they are distinct."""
        ...

    def blocks(self, rows: int | None = None) -> Iterator[tuple[Words, ...]]:
        """All facts, at most `rows` at a time; without it, as many as stay in cache."""
        ...

    def head(self, rows: int) -> tuple[Words, ...]:
        """Some facts: `rows` of them, or all if there are fewer."""
        ...

    def contains(self, columns: tuple[Words, ...]) -> Mask:
        """Which facts of a batch are in the relation."""
        ...

    def select(
        self, bound: Mapping[int, int], rows: int | None = None
    ) -> Iterator[tuple[Words, ...]]:
        """The facts that have the given words at the given columns, as whole facts."""
        ...


def concatenate(blocks: Iterator[tuple[Words, ...]], arity: int) -> tuple[Words, ...]:
    """Blocks as one: a tuple with one array for each column."""
    parts: list[tuple[Words, ...]] = list(blocks)
    if not parts:
        return tuple(np.empty(0, np.uint32) for _ in range(arity))
    return tuple(np.concatenate([part[c] for part in parts]) for c in range(arity))


def gather(blocks: Iterator[tuple[Words, ...]], rows: int) -> Iterator[tuple[Words, ...]]:
    """Blocks of at least so many rows each, but for the last."""
    parts: list[tuple[Words, ...]] = []
    count = 0
    for block in blocks:
        parts.append(block)
        count += len(block[0])
        if count >= rows:
            yield concatenate(iter(parts), len(block))
            parts, count = [], 0
    if parts:
        yield concatenate(iter(parts), len(parts[0]))


def first_rows(blocks: Iterator[tuple[Words, ...]], arity: int, rows: int) -> tuple[Words, ...]:
    """The first rows of a stream of blocks."""
    parts: list[tuple[Any, ...]] = []
    left = rows
    for block in blocks:
        if left <= 0 or not block:
            break
        part = tuple(column[:left] for column in block)
        parts.append(part)
        left -= len(part[0])
    return concatenate(iter(parts), arity)


def head_of(
    blocks: Callable[[int], Iterator[tuple[Words, ...]]], arity: int, rows: int
) -> tuple[Words, ...]:
    """The first rows of what comes in blocks of a size that one may choose."""
    return first_rows(blocks(max(1, min(rows, thresholds.now.block))), arity, rows)


def grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """An array with room for so many entries, twice as many if it has to grow; new ones are 0."""
    if size <= len(array):
        return array
    larger = np.zeros(max(size, 2 * len(array), 16), array.dtype)
    larger[: len(array)] = array
    return larger


def column_of(words: Words | int, rows: int) -> Words:
    """A column of so many rows, given as such or by the one word that it has in all of them."""
    return words if isinstance(words, np.ndarray) else np.full(rows, words, np.uint32)


def width_of(size: int) -> int:
    """The bits that hold the words 0 to size - 1."""
    return max(int(size) - 1, 1).bit_length()


@dataclass(frozen=True)
class Packing:
    """Where the columns of a fact stand: `widths` by column, `order` from the highest bits."""

    widths: tuple[int, ...]
    order: tuple[int, ...]
    shifts: tuple[int, ...] = field(init=False, repr=False)  # by column

    def __post_init__(self) -> None:
        shifts = [0] * len(self.widths)
        at = 0
        for column in reversed(self.order):
            shifts[column] = at
            at += self.widths[column]
        assert at <= 64, f"{at} bits do not fit into a key"
        object.__setattr__(self, "shifts", tuple(shifts))

    @property
    def arity(self) -> int:
        return len(self.widths)

    @cached_property
    def masks(self) -> tuple[int, ...]:
        return tuple((1 << width) - 1 for width in self.widths)

    @cached_property
    def leading_shift(self) -> int:
        """Where the first column of the order stands."""
        return self.shifts[self.order[0]] if self.order else 0

    def keys(self, columns: Sequence[Words], rows: int) -> Keys:
        """Facts as keys; every word must fit its width."""
        return pack(columns, self.shifts, rows)

    def column(self, keys: Keys, column: int) -> Words:
        out: Words = np.empty(len(keys), np.uint32)
        packs.unpack(keys, self.shifts[column], self.masks[column], out)
        return out

    def moved(self, keys: Keys, to: Packing) -> Keys:
        """The same facts in another packing; the keys are not sorted any more."""
        out: Keys = np.empty_like(keys)
        packs.repack(keys, self._shifts, self._masks, to._shifts, out)
        return out

    def prefix_shift(self, columns: int) -> int:
        """By how much to shift keys right so that only the first columns of the order remain."""
        return self.shifts[self.order[columns - 1]] if columns else 0

    def prefix_key(self, words: Sequence[Words | int], rows: int) -> tuple[Keys, int]:
        """A lookup key from the first columns of the order, and the first one's place in it."""
        shift = self.prefix_shift(len(words))
        shifts = [self.shifts[c] - shift for c in self.order[: len(words)]]
        return pack(words, shifts, rows), shifts[0] if shifts else 0

    @cached_property
    def _shifts(self) -> Any:
        return np.array(self.shifts, np.int64)

    @cached_property
    def _masks(self) -> Any:
        return np.array(self.masks, np.uint64)


def pack(columns: Sequence[Words | int], shifts: Sequence[int], rows: int) -> Keys:
    """Columns, or words that are the same in every row, side by side in keys."""
    constant = 0
    keys: Keys | None = None
    for words, shift in zip(columns, shifts, strict=True):
        if isinstance(words, np.ndarray):
            if keys is None:
                keys = np.empty(rows, np.uint64)
                packs.pack(keys, words, shift)
            else:
                packs.pack_into(keys, words, shift)
        else:
            constant |= int(words) << shift
    if keys is None:
        return np.full(rows, constant, np.uint64)
    if constant:
        keys |= np.uint64(constant)
    return keys
