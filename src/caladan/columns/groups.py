"""Groups with values that change in place: what recursive aggregates keep.

A group is a row of a relation kept by rows. The key columns are the group, the others hold its
current values; a round's delta is the groups that changed, and its old version those that did not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from caladan.columns.invariants import CHECKED, check_numbers
from caladan.columns.layout import Counts, Keys, Mask, Words, grown
from caladan.columns.rows import RowRelation
from caladan.program import thresholds
from caladan.rules.body import Version


class GroupRelation(RowRelation):
    """Groups with values that change: what recursive aggregates keep."""

    form = "groups"

    def __init__(self, arity: int, group: Sequence[int]) -> None:
        super().__init__(arity, group)
        self._changed: Mask = np.zeros(16, np.bool_)
        self._changed_rows: Counts = np.empty(0, np.int64)

    def delta_count(self) -> int:
        return len(self._changed_rows)

    @property
    def changed(self) -> Mask:
        """By row, whether the group is in the delta."""
        changed: Mask = np.zeros(self._rows, np.bool_)
        changed[self._changed_rows] = True
        return changed

    def extend(self, columns: Sequence[Words], rows: int) -> None:
        """New groups, by their key columns; their values are 0 until they are changed."""
        by_column = dict(zip(self._key, columns, strict=True))
        zero = np.zeros(rows, np.uint32)
        self._append([by_column.get(c, zero) for c in range(self.arity)], rows)

    def restore(self, columns: Sequence[Words], rows: int) -> None:
        """More groups with all their columns, none of them in the delta."""
        self._append(columns, rows)
        self.change(np.empty(0, np.int64), {})

    @property
    def changed_rows(self) -> Counts:
        return self._changed_rows

    def change(self, rows: Counts, values: Mapping[int, Words]) -> None:
        """Give groups new values, each group once; they are the delta of the next round."""
        if CHECKED:
            check_numbers(rows, self._rows)
        for column, words in values.items():
            self._columns[column][rows] = words
        self._changed = grown(self._changed, self._rows)
        self._changed[rows] = True
        self._changed_rows = rows

    def flip(self) -> int:
        return self.delta_count()

    def commit(self) -> None:
        self._changed[self._changed_rows] = False
        self._changed_rows = np.empty(0, np.int64)

    def alive(self, rows: Words, version: Version) -> Mask | None:
        if version is Version.OLD:
            return ~self._changed[rows]
        return self._changed[rows] if version is Version.DELTA else None

    def scan(self, version: Version, rows: int | None = None) -> Iterator[Keys]:
        size = rows or thresholds.now.block
        if version is Version.DELTA:
            for start in range(0, len(self._changed_rows), size):
                yield self._changed_rows[start : start + size].astype(np.uint64)
            return
        for start in range(0, self._rows, size):
            keys = np.arange(start, min(start + size, self._rows), dtype=np.uint64)
            alive = self.alive(keys.astype(np.uint32), version)
            yield keys if alive is None else keys[alive]
