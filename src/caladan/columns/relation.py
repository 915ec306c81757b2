"""A stored relation: packed while its facts fit into 64 bits, by rows from then on.

Widths come from the domains of the columns. Domains that grow get the bits that are left over;
when one grows past its width the relation is packed anew, or goes over to rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeAlias

import numpy as np

from caladan.columns.folded_relation import FoldedRelation
from caladan.columns.groups import GroupRelation
from caladan.columns.index import Index
from caladan.columns.layout import Keys, Layout, Mask, Words, width_of
from caladan.columns.membership import NO_KEYS
from caladan.columns.packed import Orders, PackedRelation
from caladan.columns.rows import RowRelation
from caladan.columns.views import ColumnView, ViewColumns
from caladan.program import thresholds
from caladan.rules.body import Version


class ColumnDomain(Protocol):
    """What a relation needs to know of a domain."""

    @property
    def size(self) -> int:
        """All words are below."""
        ...

    @property
    def grows(self) -> bool:
        """Whether it may take in new values."""
        ...


Storage: TypeAlias = PackedRelation | RowRelation | FoldedRelation
Batch: TypeAlias = tuple[tuple[Words, ...], int]
"""Some facts: a column of words for each column of their relation, and how many they are."""


_NO_WORDS: Words = np.empty(0, np.uint32)


class StoredRelation:
    """The facts of a relation, with their old, delta and new versions.

    `orders` has the column orders planned for lookups by some columns.
    """

    def __init__(
        self, domains: Sequence[ColumnDomain], orders: Orders = MappingProxyType({})
    ) -> None:
        self.domains = tuple(domains)
        self._views: dict[ViewColumns, ColumnView] = {}
        widths = widths_of(self.domains)
        self.body: Storage = (
            RowRelation(self.arity) if widths is None else PackedRelation(widths, orders)
        )

    @classmethod
    def of(
        cls,
        domains: Sequence[ColumnDomain],
        batches: Iterable[tuple[Sequence[Words], int]],
        orders: Orders = MappingProxyType({}),
    ) -> StoredRelation:
        """A relation with some facts, none of which is new."""
        relation = cls(domains, orders)
        relation.extend(batches)
        return relation

    @classmethod
    def of_groups(cls, domains: Sequence[ColumnDomain], group: Sequence[int]) -> StoredRelation:
        """A relation whose facts are groups with values that change."""
        relation = cls(domains)
        relation.body = GroupRelation(len(domains), group)
        return relation

    @classmethod
    def of_folded(cls, domains: Sequence[ColumnDomain], folded: FoldedRelation) -> StoredRelation:
        """A finished relation that is never listed."""
        relation = cls(domains)
        relation.body = folded
        return relation

    @property
    def folded(self) -> FoldedRelation | None:
        """The body, if its facts are not listed."""
        return self.body if isinstance(self.body, FoldedRelation) else None

    @classmethod
    def sharing(cls, domains: Sequence[ColumnDomain], other: StoredRelation) -> StoredRelation:
        """A relation that nobody adds to, with the facts and the orders of another."""
        relation = cls(domains)
        relation.body = other.body
        if isinstance(other.body, PackedRelation):
            other.body.unfollow()  # views are each relation's own
        return relation

    @property
    def arity(self) -> int:
        return len(self.domains)

    @property
    def form(self) -> str:
        return self.body.form

    @property
    def arrangements(self) -> list[tuple[int, ...]]:
        """The column orders that were made."""
        return self.body.arrangements

    def arranged(self, columns: Sequence[str]) -> list[list[str]]:
        """What was made for lookups, in names: column orders, then views with `_` for the rest."""
        orders = [[columns[i] for i in order] for order in self.arrangements]
        return orders + [shown.named(columns) for shown, v in self._views.items() if v.is_made]

    @property
    def nbytes(self) -> int:
        return self.body.nbytes + sum(view.nbytes for view in self._views.values())

    @property
    def spilled(self) -> int:
        """The bytes on disk."""
        return self.body.spilled

    @property
    def pending_bytes(self) -> int:
        """The bytes of what was added since the last flip."""
        return self.body.pending_bytes

    @property
    def pending_rows(self) -> int:
        """How many facts were added since the last flip, known ones and repetitions among them."""
        return self.body.pending_rows

    def count_pending(self) -> int:
        """How many of them are new."""
        return self.body.count_pending()

    def count(self) -> int:
        return self.body.count()

    def delta_count(self) -> int:
        """How many facts the last `flip` found to be new."""
        return self.body.delta_count()

    def add(self, columns: Sequence[Words], rows: int) -> None:
        """Facts that are perhaps new; `flip` decides."""
        self._fit()
        self.body.add(columns, rows)

    def extend(self, batches: Iterable[tuple[Sequence[Words], int]]) -> None:
        """Take facts in at once, as old ones."""
        for columns, rows in batches:
            self.add(columns, rows)
        self.flip()
        self.commit()

    def packed(self) -> PackedRelation | None:
        """The packed body, ready for keys of words known so far; None if facts are kept by rows."""
        self._fit()
        return self.body if isinstance(self.body, PackedRelation) else None

    def flip(self) -> int:
        """Make the facts added since that are new the delta; returns how many they are."""
        return self.body.flip()

    def commit(self) -> None:
        """Let the delta become old."""
        self.body.commit()

    def index(self, bound: Sequence[int], version: Version) -> Index:
        """The relation by some bound columns, wide enough for every word known so far."""
        self._fit()
        return self.body.index(bound, version)

    def view(self, shown: ViewColumns) -> ColumnView:
        """The facts under some of the columns, kept up from now on; of groups, under their keys."""
        if shown not in self._views:
            self._views[shown] = ColumnView(self, shown)
        return self._views[shown]

    def has_order(self, bound: Sequence[int]) -> bool:
        """Whether an index by these columns is there already."""
        return self.body.has_order(bound)

    def can_bind(self, column: int) -> bool:
        """Whether an index may bind the column; the values of groups cannot be."""
        return not isinstance(self.body, GroupRelation) or self.body.can_bind(column)

    # ── Incremental relations ─────────────────────────────────────────────────────────────────────

    def record(self) -> None:
        """From now on remember what changes."""
        self._listed.record()

    def forget_views(self) -> None:
        """Do without views: whoever reads one again gets it made anew."""
        self._views.clear()
        if isinstance(self.body, PackedRelation):
            self.body.unfollow()

    def rank(self) -> None:
        """From now on remember when facts were derived."""
        self._listed.rank()

    def restamp(self, stamp: int) -> None:
        """Take all facts for derived at once."""
        self._listed.restamp(stamp)

    def discard(self, columns: Sequence[Words], rows: int) -> int:
        """Take facts away, as far as they are there; how many were."""
        self._fit()
        return self._listed.discard(columns, rows) if rows else 0

    def changes(self) -> tuple[Batch, Batch]:
        """What was added and what was taken away since the last `settle`."""
        added, removed = self._listed.changes()
        return self._batch(added), self._batch(removed)

    def delta(self) -> Batch:
        """The facts that the last `flip` found to be new."""
        return self._batch(np.concatenate([NO_KEYS, *self._listed.scan(Version.DELTA)]))

    def settle(self) -> None:
        """A change is done."""
        self._listed.settle()

    def clear(self) -> None:
        """No facts at all."""
        self._listed.clear()

    def calm(self) -> None:
        """Nothing is new any more, and what was added since is forgotten."""
        self._listed.forget_pending()
        self._listed.commit()

    def ranks(self, columns: Sequence[Words], rows: int) -> Words:
        """When facts were derived: larger numbers are later, 0 where nobody knows."""
        self._fit()
        body = self._listed
        if isinstance(body, PackedRelation):
            return body.ranks(body.base.packing.keys(columns, rows))
        return body.ranks(columns, rows)

    def _batch(self, keys: Keys) -> Batch:
        if not len(keys):
            return (_NO_WORDS,) * self.arity, 0
        index = self._listed.index((), Version.EITHER)
        return tuple(index.column(keys, c) for c in range(self.arity)), len(keys)

    @property
    def _listed(self) -> PackedRelation | RowRelation:
        """The body, of facts that can come and go: a layout that folds them is listed first."""
        if isinstance(self.body, FoldedRelation):
            self.body = stored_blocks(self.body, self.domains).body
        assert not isinstance(self.body, FoldedRelation)
        return self.body

    def scan(
        self,
        version: Version,
        rows: int | None = None,
        needed: frozenset[int] | None = None,
    ) -> Iterator[Keys]:
        """A version in blocks of keys; `index((), version)` takes columns out of them.

        Facts that agree in the columns that are `needed` may be left out but for one.
        """
        if isinstance(self.body, FoldedRelation):
            return self.body.scan(version, rows, needed)
        return self.body.scan(version, rows)

    def blocks(self, rows: int | None = None) -> Iterator[tuple[Words, ...]]:
        return self.body.blocks(rows)

    def head(self, rows: int) -> tuple[Words, ...]:
        return self.body.head(rows)

    def contains(self, columns: tuple[Words, ...]) -> Mask:
        self._fit()
        return self.body.contains(columns)

    def select(
        self, bound: Mapping[int, int], rows: int | None = None
    ) -> Iterator[tuple[Words, ...]]:
        if any(word >= self.domains[c].size for c, word in bound.items()):
            return
        index = self.body.index(tuple(bound), Version.NEW)
        size = rows or thresholds.now.block
        for _, hits in index.find(*index.key(bound, 1)).chunks(size):
            for start in range(0, len(hits), size):
                part = hits[start : start + size]
                yield tuple(index.column(part, c) for c in range(self.arity))

    def _fit(self) -> None:
        """Make room for domains that have grown."""
        if not isinstance(self.body, PackedRelation):
            return
        if all(d.size <= 1 << w for d, w in zip(self.domains, self.body.widths, strict=True)):
            return
        widths = widths_of(self.domains)
        if widths is not None:
            self.body = self.body.repacked(widths)
        else:
            self.body = _by_rows(self.body)


def store(
    layout: Layout,
    domains: Sequence[ColumnDomain],
    check: Callable[[], None] | None = None,
    orders: Orders = MappingProxyType({}),
) -> StoredRelation:
    """A layout as a stored relation, so that it can be joined with; one that is folded stays so.

    While others are listed, `check` may raise.
    """
    if isinstance(layout, StoredRelation):
        return layout
    if isinstance(layout, FoldedRelation):
        return StoredRelation.of_folded(domains, layout)
    return stored_blocks(layout, domains, check, orders)


def stored_blocks(
    layout: Layout | FoldedRelation,
    domains: Sequence[ColumnDomain],
    check: Callable[[], None] | None = None,
    orders: Orders = MappingProxyType({}),
) -> StoredRelation:
    """The facts of a layout, listed; `check` may raise meanwhile."""

    def batches() -> Iterator[Batch]:
        for block in layout.blocks():
            if check is not None:
                check()
            yield block, len(block[0]) if block else 1
        if not domains and layout.count():
            yield (), 1

    return StoredRelation.of(domains, batches(), orders)


def widths_of(domains: Sequence[ColumnDomain]) -> tuple[int, ...] | None:
    """Bits for each column, None if they are more than a key has."""
    widths = [width_of(domain.size) for domain in domains]
    growing = [i for i, domain in enumerate(domains) if domain.grows]
    left = thresholds.now.key_bits - sum(widths)
    if left < 0:
        return None
    for number, i in enumerate(growing):
        extra = min(32 - widths[i], left // (len(growing) - number))
        widths[i] += extra
        left -= extra
    return tuple(widths)


def _by_rows(packed: PackedRelation) -> RowRelation:
    """The same facts by rows: the old ones old, the delta the delta, the pending ones pending."""
    to = RowRelation(packed.arity)
    if packed.is_recorded:
        to.record()
    if packed.is_ranked:
        to.rank()
    added, leaving = packed.changes()
    whole = list(packed.scan(Version.EITHER)) if len(leaving) else list(packed.scan(Version.OLD))
    delta = list(packed.scan(Version.DELTA))
    if packed.is_recorded and delta:
        whole = [keys[~np.isin(keys, np.concatenate(delta))] for keys in whole]
    if packed.is_recorded:
        early = [keys[~np.isin(keys, added)] for keys in whole]
        _move_keys(packed, to, early)
        to.settle()
        whole = [keys[np.isin(keys, added)] for keys in whole]
    _move_keys(packed, to, whole)
    if len(leaving):
        to.discard(packed.columns_of(leaving), len(leaving))
    start = to.count() + len(leaving)
    for keys in delta:
        to.add(packed.columns_of(keys), len(keys))
    to.flip()
    if packed.is_ranked:
        to.restamp(packed.ranks(np.concatenate([NO_KEYS, *delta])), start)
    for keys in packed.pending:
        to.add(packed.columns_of(keys), len(keys))
    return to


def _move_keys(packed: PackedRelation, to: RowRelation, blocks: Sequence[Keys]) -> None:
    """Put keys into a relation by rows, as old facts."""
    start = to.count()
    for keys in blocks:
        to.add(packed.columns_of(keys), len(keys))
    to.flip()
    to.commit()
    if packed.is_ranked:
        to.restamp(packed.ranks(np.concatenate([NO_KEYS, *blocks])), start)
