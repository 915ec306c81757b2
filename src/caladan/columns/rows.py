"""A relation kept by rows: for facts wider than 64 bits, and for those that change in place.

A fact is a row, numbered as it appears. `Tuples` over the key columns tells whether a fact is
there already. An index numbers the distinct prefixes of the bound columns, and is an arrangement of
(prefix number, row number) keys; columns are read through the row number.

In a `RowRelation` all columns are key columns, and rows are never changed. In a `GroupRelation` the
key columns are the group, the others hold the group's current values; a round's delta is the groups
that changed, and its old version the groups that did not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from caladan.columns.index import RunMatches, present
from caladan.columns.interner import Tuples
from caladan.columns.invariants import CHECKED, check_numbers, check_rows
from caladan.columns.kernels import packs
from caladan.columns.layout import Counts, Keys, Mask, Words, first_rows
from caladan.columns.packing import Packing
from caladan.columns.runs import Arrangement, Run
from caladan.program import thresholds
from caladan.rules.body import Version

_PAIR = Packing((32, 32), (0, 1))


class RowIndex:
    """Rows by the number of their prefix."""

    def __init__(
        self,
        relation: RowRelation,
        bound: tuple[int, ...],
        prefixes: Tuples,
        runs: Sequence[Run],
        version: Version,
    ) -> None:
        self._relation = relation
        self._bound = bound
        self._prefixes = prefixes
        self._version = version
        self.runs = runs
        self.shift = 32

    @property
    def is_exact(self) -> bool:
        return self._version not in (Version.OLD, Version.DELTA)

    def key(self, words: Mapping[int, Words | int], rows: int) -> tuple[Keys, int]:
        columns = [_column(words[c], rows) for c in self._bound]
        return self._prefixes.find(columns, rows).astype(np.uint64), 0

    def find(self, keys: Keys, lead: int) -> RunMatches:
        return RunMatches(self, keys, lead)

    def present(self, keys: Keys, lead: int) -> Mask:
        return present(self, keys, lead)

    def column(self, hits: Keys, column: int) -> Words:
        return self._relation.words(column, hits.astype(np.uint32))

    def alive(self, hits: Keys) -> Mask | None:
        return self._relation.alive(hits.astype(np.uint32), self._version)


class RowRelation:
    """Facts by rows, of any width."""

    form = "rows"

    def __init__(self, arity: int, key: Sequence[int] | None = None) -> None:
        self.arity = arity
        self._key = tuple(range(arity)) if key is None else tuple(key)
        self._tuples = Tuples(len(self._key))
        self._columns: list[Words] = [np.empty(16, np.uint32) for _ in range(arity)]
        self._rows = 0
        self._old = 0  # rows below are old, the others are the delta
        self._pending: list[tuple[Words, ...]] = []
        self._pending_rows: list[int] = []
        self._indexes: dict[tuple[int, ...], tuple[Tuples, Arrangement]] = {}
        self._indexed: dict[tuple[int, ...], int] = {}
        self._checked: set[bytes] = set()  # the rows, if somebody looks

    @property
    def arrangements(self) -> list[tuple[int, ...]]:
        """The columns by which rows were indexed."""
        return [columns for columns in self._indexes if columns]

    @property
    def nbytes(self) -> int:
        columns = sum(column.nbytes for column in self._columns)
        indexes = sum(t.nbytes + a.nbytes for t, a in self._indexes.values())
        return columns + self._tuples.nbytes + indexes

    @property
    def spilled(self) -> int:
        """The bytes on disk: rows are looked up one by one, and stay in memory."""
        return 0

    @property
    def pending_bytes(self) -> int:
        """The bytes of what was added since the last flip."""
        return 4 * self.arity * sum(self._pending_rows)

    def count(self) -> int:
        return self._rows

    def delta_count(self) -> int:
        return self._rows - self._old

    def can_bind(self, column: int) -> bool:
        """Whether an index may have the column among its bound ones."""
        return column in self._key

    # ── Writing ──────────────────────────────────────────────────────────────────────────────────

    def add(self, columns: Sequence[Words], rows: int) -> None:
        """Facts that are perhaps new."""
        if rows:
            self._pending.append(tuple(columns))
            self._pending_rows.append(rows)

    def flip(self) -> int:
        """Make the pending facts that are new the delta; returns how many they are."""
        pending, rows = self._pending, sum(self._pending_rows)
        self._pending, self._pending_rows = [], []
        if rows:
            columns = [np.concatenate([part[c] for part in pending]) for c in range(self.arity)]
            _, fresh = self._tuples.ids([columns[c] for c in self._key], rows)
            self._append([column[fresh] for column in columns], len(fresh))
        return self.delta_count()

    def commit(self) -> None:
        """Let the delta become old."""
        self._old = self._rows

    def _append(self, columns: Sequence[Words], rows: int) -> None:
        if CHECKED:
            check_rows(self._checked, [columns[c] for c in self._key], rows)
        for c, column in enumerate(columns):
            held = self._columns[c]
            if self._rows + rows > len(held):
                held = np.empty(max(self._rows + rows, 2 * len(held)), np.uint32)
                held[: self._rows] = self._columns[c][: self._rows]
                self._columns[c] = held
            held[self._rows : self._rows + rows] = column
        self._rows += rows

    # ── Reading ──────────────────────────────────────────────────────────────────────────────────

    def words(self, column: int, rows: Words) -> Words:
        """A column at some rows."""
        out: Words = np.empty(len(rows), np.uint32)
        packs.gather(self._columns[column], rows, out)
        return out

    def alive(self, rows: Words, version: Version) -> Mask | None:
        """Which rows belong to a version; None if all that an index finds do."""
        if version is Version.OLD:
            return rows < self._old
        return rows >= self._old if version is Version.DELTA else None

    def index(self, bound: Sequence[int], version: Version) -> RowIndex:
        """The relation by some of its key columns."""
        columns = tuple(sorted(bound))
        if columns not in self._indexes:
            self._indexes[columns] = (Tuples(len(columns)), Arrangement(_PAIR))
            self._indexed[columns] = 0
        prefixes, arrangement = self._indexes[columns]
        start = self._indexed[columns]
        if start < self._rows and columns:
            ids, _ = prefixes.ids(
                [self._columns[c][start : self._rows] for c in columns], self._rows - start
            )
            keys = ids.astype(np.uint64) << np.uint64(32)
            keys |= np.arange(start, self._rows, dtype=np.uint64)
            keys.sort()
            arrangement.push(Run(keys, _PAIR))
            self._indexed[columns] = self._rows
        return RowIndex(self, columns, prefixes, list(arrangement.runs), version)

    def scan(self, version: Version, rows: int | None = None) -> Iterator[Keys]:
        """The rows of a version as keys that `index((), version)` takes columns out of."""
        size = rows or thresholds.now.block
        first = self._old if version is Version.DELTA else 0
        end = self._old if version is Version.OLD else self._rows
        for start in range(first, end, size):
            yield np.arange(start, min(start + size, end), dtype=np.uint64)

    def has_order(self, bound: Sequence[int]) -> bool:
        return tuple(sorted(bound)) in self._indexes

    def contains(self, columns: tuple[Words, ...]) -> Mask:
        rows = len(columns[0]) if columns else 1
        index = self.index(self._key, Version.NEW)
        return index.present(*index.key(dict(enumerate(columns)), rows))

    def blocks(self, rows: int | None = None) -> Iterator[tuple[Words, ...]]:
        size = rows or thresholds.now.block
        for start in range(0, self._rows, size):
            end = min(start + size, self._rows)
            yield tuple(column[start:end] for column in self._columns)

    def head(self, rows: int) -> tuple[Words, ...]:
        return first_rows(self.blocks(max(1, min(rows, thresholds.now.block))), self.arity, rows)


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
        """The groups in the delta."""
        return self._changed_rows

    def change(self, rows: Counts, values: Mapping[int, Words]) -> None:
        """Give groups new values, each group once; they are the delta of the next round."""
        if CHECKED:
            check_numbers(rows, self._rows)
        for column, words in values.items():
            self._columns[column][rows] = words
        if len(self._changed) < self._rows:
            grown = np.zeros(max(self._rows, 2 * len(self._changed)), np.bool_)
            grown[: len(self._changed)] = self._changed
            self._changed = grown
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


def _column(words: Words | int, rows: int) -> Words:
    return words if isinstance(words, np.ndarray) else np.full(rows, words, np.uint32)
