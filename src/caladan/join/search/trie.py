"""Tries: the facts of one run in one column order, ready to be searched.

A trie of n columns has n levels. The nodes of level j are the distinct prefixes of j + 1 columns,
in sorted order; `values[j]` has their last words, `bounds[j][i]` to `bounds[j][i + 1]` are the
children of node i on level j + 1, `starts[j][i]` is its first sorted fact. So the distinct values
that can follow a prefix are one stretch of one array: its length is an exact estimate, the stretch
itself a proposal without copying, and a binary search in it confirms.

    facts (a, b): (1, 5) (1, 9) (4, 5)      values[0] = 1 4      bounds[0] = 0 2 3
                                            values[1] = 5 9 5

Where the words of the first level are dense enough, `locate` finds a node in one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from caladan.columns.kernels import candidates as kernels, packs, sorted as sorting, tries
from caladan.join.search.constraint import Lists
from caladan.join.search.frontier import Counts, Rows, Words
from caladan.program import thresholds

Keys: TypeAlias = NDArray[np.uint64]
Levels: TypeAlias = tuple[list[Words], list[Words]]  # values and starts of each level


class Trie:
    """A sorted run as a trie; immutable but for what it computes on demand."""

    __slots__ = ("_dense", "_sorted", "bounds", "starts", "values")

    def __init__(self, values: list[Words], starts: list[Words]) -> None:
        self.values = values
        self.starts = starts
        last = len(values) - 2
        self.bounds: list[Words] = [
            upper if level == last else np.searchsorted(starts[level + 1], upper)
            for level, upper in enumerate(starts[:-1])
        ]
        self._dense: Words | None = _dense_index(values[0])
        self._sorted: dict[int, Words] = {}

    @staticmethod
    def of(columns: Sequence[Words]) -> Trie:
        """Sort the facts of some columns (at least one), drop repetitions, build the levels."""
        lows, widths = _extent(columns)
        if sum(widths) <= thresholds.now.trie_bits:
            return Trie(*_packed_levels(sorted_keys(columns, lows, widths), lows, widths))
        return Trie(*_wide_levels(_sort_wide(columns)))

    @staticmethod
    def of_keys(keys: Keys, widths: Sequence[int], *, give: bool = False) -> Trie:
        """From sorted distinct keys that pack columns of these widths, the first one highest.

        With `give` the keys' memory becomes the trie's; else they are copied.
        """
        own = keys if give else keys.copy()
        return Trie(*_packed_levels(own, [0] * len(widths), list(widths)))

    @property
    def count(self) -> int:
        """How many facts."""
        return len(self.values[-1])

    @property
    def nbytes(self) -> int:
        """The bytes of its arrays."""
        arrays = [*self.values, *self.bounds, *self.starts, *self._sorted.values()]
        if self._dense is not None:
            arrays.append(self._dense)
        return sum(a.nbytes for a in {id(a): a for a in arrays}.values())

    def root(self, rows: int) -> Lists:
        """The first level, as the list of each of so many rows."""
        words = self.values[0]
        return Lists(words, np.zeros(rows, np.int64), np.full(rows, len(words), np.int64))

    def locate(self, prefix: Sequence[Words]) -> Rows:
        """The node of each prefix (one array a column, at least one), or -1."""
        nodes = np.empty(len(prefix[0]), np.int64)
        if self._dense is not None:
            kernels.locate_dense(prefix[0], int(self.values[0][0]), self._dense, nodes)
        else:
            kernels.locate_sorted(prefix[0], self.values[0], nodes)
        for level, words in enumerate(prefix[1:], start=1):
            below = np.empty_like(nodes)
            kernels.descend(nodes, self.bounds[level - 1], self.values[level], words, below)
            nodes = below
        return nodes

    def below(self, nodes: Rows, level: int) -> Lists:
        """The lists of nodes of a level."""
        lo = np.empty_like(nodes)
        hi = np.empty_like(nodes)
        kernels.children(nodes, self.bounds[level], lo, hi)
        return Lists(self.values[level + 1], lo, hi)

    def facts(self, nodes: Rows, level: int) -> Counts:
        """How many facts each node of a level stands for; none for no node."""
        if level == len(self.values) - 1:
            return (nodes >= 0).astype(np.int64)
        lo = np.empty_like(nodes)
        hi = np.empty_like(nodes)
        kernels.children(nodes, self.starts[level], lo, hi)
        return hi - lo

    def reach(self, lo: Rows, hi: Rows, level: int, last: int) -> tuple[Rows, Rows]:
        """Stretches of nodes of a level as stretches of their descendants of a later level."""
        for step in range(level, last):
            lo, hi = self.bounds[step][lo], self.bounds[step][hi]
        return lo, hi

    def column(self, level: int, positions: Rows, last: int) -> Words:
        """The words that nodes of level `last` have on an earlier level."""
        if level == last:
            return self.values[level][positions]
        if level not in self._sorted:
            lengths = np.diff(self.starts[level])
            self._sorted[level] = np.repeat(self.values[level], lengths)
        facts = positions if last == len(self.values) - 1 else self.starts[last][positions]
        return self._sorted[level][facts]


def distinct_rows(columns: Sequence[Words]) -> list[Words]:
    """The distinct rows of some columns (at least one), in order."""
    lows, widths = _extent(columns)
    if sum(widths) > thresholds.now.trie_bits:
        return _sort_wide(columns)
    return unpack(sorted_keys(columns, lows, widths), widths, lows)


def unpack(keys: Keys, widths: Sequence[int], lows: Sequence[int] | None = None) -> list[Words]:
    """The columns of keys: so many bits each, the first one highest, counted from `lows`."""
    columns: list[Words] = []
    for low, (shift, mask) in zip(lows or [0] * len(widths), _places(widths), strict=True):
        words = np.empty(len(keys), np.int64)
        tries.read_column(keys, shift, mask, low, words)
        columns.append(words)
    return columns


def sorted_keys(columns: Sequence[Words], lows: list[int], widths: list[int]) -> Keys:
    """Rows packed into one number each, sorted and distinct.

    Sorting numbers is many times faster than sorting rows column by column.
    """
    keys: Keys = np.zeros(len(columns[0]), np.uint64)
    for column, low, width in zip(columns, lows, widths, strict=True):
        if width:
            tries.push_column(keys, column, low, width)
    keys.sort()
    return keys[: sorting.dedup(keys)] if len(keys) else keys


def reordered(keys: Keys, widths: Sequence[int], order: Sequence[int]) -> Keys:
    """The same keys with their columns in another order (places among `widths`), sorted again."""
    places = _places(widths)
    to = _places([widths[c] for c in order])
    moved = np.empty_like(keys)
    packs.repack(
        keys,
        np.array([places[c][0] for c in order]),
        np.array([places[c][1] for c in order], np.uint64),
        np.array([shift for shift, _ in to]),
        moved,
    )
    moved.sort()
    return moved


def _extent(columns: Sequence[Words]) -> tuple[list[int], list[int]]:
    """The lowest word of each column, and the bits that the others need above it."""
    if not len(columns[0]):
        return [0] * len(columns), [0] * len(columns)
    lows = [int(c.min()) for c in columns]
    return lows, [(int(c.max()) - low).bit_length() for c, low in zip(columns, lows, strict=True)]


def _places(widths: Sequence[int]) -> list[tuple[int, int]]:
    """Shift and mask of each column of a key."""
    places: list[tuple[int, int]] = []
    shift = sum(widths)
    for width in widths:
        shift -= width
        places.append((min(shift, 63), (1 << width) - 1))
    return places


def _packed_levels(keys: Keys, lows: list[int], widths: list[int]) -> Levels:
    """Values and starts of packed rows; the keys' memory becomes the last level's."""
    values: list[Words] = []
    starts: list[Words] = []
    *upper, last = _places(widths)
    for level, (shift, mask) in enumerate(upper):
        # Columns that are all one word have no bits at all, and there is one node if any.
        has_bits = any(widths[: level + 1])
        nodes = tries.count_starts(keys, shift) if has_bits else min(len(keys), 1)
        first = np.empty(nodes + 1, np.int64)
        if has_bits:
            tries.list_starts(keys, shift, first)
        else:
            first[:1], first[-1] = 0, len(keys)
        words = np.empty(nodes, np.int64)
        tries.read_column_at(keys, first, shift, mask, lows[level], words)
        values.append(words)
        starts.append(first)
    in_place = keys.view(np.int64)
    tries.read_column(keys, *last, lows[-1], in_place)
    values.append(in_place)
    starts.append(np.empty(0, np.int64))  # on the last level a node is a fact
    return values, starts


def _sort_wide(columns: Sequence[Words]) -> list[Words]:
    """The distinct rows of columns that do not fit into one key."""
    order = np.lexsort(tuple(reversed(columns)))
    ordered = [c[order] for c in columns]
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for column in ordered:
        new[1:] |= column[1:] != column[:-1]
    return [c[new] for c in ordered]


def _wide_levels(columns: list[Words]) -> Levels:
    """Values and starts of distinct sorted rows."""
    count = len(columns[0])
    values: list[Words] = []
    starts: list[Words] = []
    new = np.zeros(count, np.bool_)
    new[:1] = True
    for column in columns[:-1]:
        new[1:] |= column[1:] != column[:-1]
        first = np.flatnonzero(new)
        values.append(column[first])
        starts.append(np.append(first, count))
    values.append(columns[-1])
    starts.append(np.empty(0, np.int64))
    return values, starts


def _dense_index(words: Words) -> Words | None:
    """For each word of their range, how many are smaller; None if the range is too wide."""
    if not len(words):
        return None
    span = int(words[-1]) - int(words[0]) + 1
    if span > thresholds.now.trie_dense * len(words) + 1024:
        return None
    ranks = np.empty(span + 1, np.int64)
    kernels.rank_words(words - words[0], ranks)
    return ranks
