"""A relation kept by rows: for facts wider than 64 bits.

A fact is a row, numbered as it appears. `Tuples` over the key columns tells whether a fact is
there already. An index numbers the distinct prefixes of the bound columns, and is an arrangement of
(prefix number, row number) keys; columns are read through the row number.

In a `RowRelation` all columns are key columns, and rows are never changed. Those of groups.py have
values that change in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from caladan.columns.index import RunMatches, present
from caladan.columns.interner import ABSENT, Tuples
from caladan.columns.invariants import CHECKED, check_rows
from caladan.columns.kernels import packs
from caladan.columns.layout import Counts, Keys, Mask, Packing, Words, column_of, grown, head_of
from caladan.columns.membership import stamps
from caladan.columns.runs import Arrangement, Run, in_order
from caladan.program import thresholds
from caladan.rules.body import Version

_PAIR = Packing((32, 32), (0, 1))
_LEAVING, _GONE = 1, 2  # rows that the change under way has taken away, or one before it


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
        is_part = self._version in (Version.OLD, Version.DELTA)
        return not is_part and not self._relation.is_hiding

    def key(self, words: Mapping[int, Words | int], rows: int) -> tuple[Keys, int]:
        columns = [column_of(words[c], rows) for c in self._bound]
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
    """Facts by rows, of any width; what it is asked for `StoredRelation` says (relation.py)."""

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
        self._recorded = False
        self._stamped: Words | None = None  # by row, when it was derived
        self._began = 0  # rows from here on are of the change under way
        # From the first deletion on: whether a row is a fact, is leaving, or is gone, and the row
        # of each tuple. A fact that comes back is a new row, and so part of a delta.
        self._gone: Any = None
        self._row_of: Any = None
        self._hidden = 0
        self._leaving: list[Counts] = []
        self._again: list[Counts] = []

    @property
    def arrangements(self) -> list[tuple[int, ...]]:
        """The columns by which rows were indexed."""
        return [columns for columns in self._indexes if columns]

    @property
    def nbytes(self) -> int:
        columns = sum(column.nbytes for column in self._columns)
        indexes = sum(t.nbytes + a.nbytes for t, a in self._indexes.values())
        kept = (self._stamped, self._gone, self._row_of)
        followed = sum(each.nbytes for each in kept if each is not None)
        return columns + self._tuples.nbytes + indexes + followed

    @property
    def spilled(self) -> int:
        """The bytes on disk: rows are looked up one by one, and stay in memory."""
        return 0

    @property
    def pending_bytes(self) -> int:
        return 4 * self.arity * sum(self._pending_rows)

    @property
    def pending_rows(self) -> int:
        return sum(self._pending_rows)

    def count_pending(self) -> int:
        rows = self.pending_rows
        keys = (
            [np.concatenate([part[c] for part in self._pending]) for c in self._key] if rows else []
        )
        new = self._tuples.find(keys, rows) == ABSENT if rows else np.empty(0, np.bool_)
        return len(Tuples(len(self._key)).ids([each[new] for each in keys], int(new.sum()))[1])

    def count(self) -> int:
        return self._rows - self._hidden

    def delta_count(self) -> int:
        return self._rows - self._old

    def can_bind(self, column: int) -> bool:
        return column in self._key

    # ── Writing ──────────────────────────────────────────────────────────────────────────────────

    def add(self, columns: Sequence[Words], rows: int) -> None:
        if rows:
            self._pending.append(tuple(columns))
            self._pending_rows.append(rows)

    def flip(self) -> int:
        pending, rows = self._pending, sum(self._pending_rows)
        self._pending, self._pending_rows = [], []
        if rows:
            columns = [np.concatenate([part[c] for part in pending]) for c in range(self.arity)]
            before = len(self._tuples)
            ids, fresh = self._tuples.ids([columns[c] for c in self._key], rows)
            if self._gone is not None:
                fresh = self._placed(ids, before)
            self._append([column[fresh] for column in columns], len(fresh))
        return self.delta_count()

    def commit(self) -> None:
        self._old = self._rows

    def _append(self, columns: Sequence[Words], rows: int) -> None:
        if CHECKED and self._gone is None:
            check_rows(self._checked, [columns[c] for c in self._key], rows)
        end = self._rows + rows
        for c, column in enumerate(columns):
            held = self._columns[c] = grown(self._columns[c], end)
            held[self._rows : end] = column
        if self._stamped is not None and rows:
            stamped = self._stamped = grown(self._stamped, end)
            stamped[self._rows : end] = stamps.take()
        if self._gone is not None:
            self._gone = grown(self._gone, end)
            self._gone[self._rows : end] = 0
        self._rows = end

    # ── Deleting ─────────────────────────────────────────────────────────────────────────────────

    @property
    def is_hiding(self) -> bool:
        """Whether there are rows that are no facts."""
        return self._hidden > 0

    def record(self) -> None:
        self._recorded = True
        self._began = self._rows

    def rank(self) -> None:
        if self._stamped is None:
            self._stamped = np.zeros(max(self._rows, 16), np.uint32)

    def restamp(self, stamp: int | Words, start: int = 0) -> None:
        """When facts were derived: all at once, or each by itself."""
        if self._stamped is not None:
            self._stamped[start : self._rows] = stamp

    def discard(self, columns: Sequence[Words], rows: int) -> int:
        if self._gone is None:
            self._gone = np.zeros(max(self._rows, 16), np.uint8)
            self._row_of = np.arange(len(self._tuples), dtype=np.int64)
        ids = self._tuples.find([columns[c] for c in self._key], rows)
        found = self._row_of[np.unique(ids[ids != ABSENT])]
        found = found[self._gone[found] == 0]
        self._gone[found] = _LEAVING
        self._leaving.append(found)
        self._hidden += len(found)
        return len(found)

    def changes(self) -> tuple[Keys, Keys]:
        """The rows that were added and taken away since the last `settle`."""
        added = np.arange(self._began, self._rows)
        if self._again:
            added = added[~np.isin(added, np.concatenate(self._again))]
        removed = np.concatenate([np.empty(0, np.int64), *self._leaving])
        if self._gone is not None:
            removed = removed[self._gone[removed] == _LEAVING]
        return added.astype(np.uint64), removed.astype(np.uint64)

    def settle(self) -> None:
        """A change is done: what it took away is nobody's business any more."""
        self._began = self._rows
        if self._gone is None:
            return
        for rows in self._leaving:
            self._gone[rows] = _GONE
        self._leaving, self._again = [], []
        if self._hidden * thresholds.now.purge > self._rows:
            self._purge()

    def forget_pending(self) -> None:
        """What was added since the last flip was not meant."""
        self._pending, self._pending_rows = [], []

    def clear(self) -> None:
        ranked = self._stamped is not None
        recorded = self._recorded
        self.__init__(self.arity, self._key)
        if recorded:
            self.record()
        if ranked:
            self.rank()

    def ranks(self, columns: Sequence[Words], rows: int) -> Words:
        """When facts were derived; 0 where nobody knows."""
        ranks: Words = np.zeros(rows, np.uint32)
        if self._stamped is not None:
            ids = self._tuples.find([columns[c] for c in self._key], rows)
            known = ids != ABSENT
            at = ids[known] if self._row_of is None else self._row_of[ids[known]]
            ranks[known] = self._stamped[at]
        return ranks

    def _placed(self, ids: Words, before: int) -> Counts:
        """Where in a batch the facts are that get a row: new ones, and those that come back."""
        distinct, first = np.unique(ids, return_index=True)
        known = distinct[distinct < before]
        back: Mask = np.ones(len(distinct), np.bool_)
        back[: len(known)] = self._gone[self._row_of[known]] > 0
        known = known[back[: len(known)]]
        old = self._row_of[known]
        rows = self._rows + np.arange(np.count_nonzero(back))
        self._again.append(rows[: len(known)][self._gone[old] == _LEAVING])
        self._gone[old] = _GONE
        self._row_of = grown(self._row_of, len(self._tuples))
        self._row_of[distinct[back]] = rows
        return first[back]

    def _purge(self) -> None:
        """Begin again with the rows that are facts."""
        alive = np.flatnonzero(self._gone[: self._rows] == 0)
        columns = [column[alive] for column in self._columns]
        stamped = self._stamped
        self.clear()
        self.add(columns, len(alive))
        RowRelation.flip(self)
        self.commit()
        self._began = self._rows
        if stamped is not None and self._stamped is not None:
            self._stamped[: len(alive)] = stamped[alive]

    # ── Reading ──────────────────────────────────────────────────────────────────────────────────

    def words(self, column: int, rows: Words) -> Words:
        out: Words = np.empty(len(rows), np.uint32)
        packs.gather(self._columns[column], rows, out)
        return out

    def alive(self, rows: Words, version: Version) -> Mask | None:
        """Which rows belong to a version; None if all that an index finds do."""
        if version is Version.DELTA:
            return rows >= self._old
        among = rows < self._old if version is Version.OLD else None
        if not self._hidden:
            return among
        shown: Mask = self._gone[rows] < (_GONE if version is Version.EITHER else _LEAVING)
        return shown if among is None else among & shown

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
            arrangement.push(Run(in_order(keys), _PAIR))
            self._indexed[columns] = self._rows
        return RowIndex(self, columns, prefixes, list(arrangement.runs), version)

    def scan(self, version: Version, rows: int | None = None) -> Iterator[Keys]:
        """The rows of a version as keys that `index((), version)` takes columns out of."""
        size = rows or thresholds.now.block
        first = self._old if version is Version.DELTA else 0
        end = self._old if version is Version.OLD else self._rows
        for start in range(first, end, size):
            keys = np.arange(start, min(start + size, end), dtype=np.uint64)
            shown = self.alive(keys.astype(np.uint32), version) if self._hidden else None
            yield keys if shown is None else keys[shown]

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
            block = tuple(column[start:end] for column in self._columns)
            if self._hidden:
                shown = self._gone[start:end] == 0
                block = tuple(column[shown] for column in block)
            yield block

    def head(self, rows: int) -> tuple[Words, ...]:
        return head_of(self.blocks, self.arity, rows)
