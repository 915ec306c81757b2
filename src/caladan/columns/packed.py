"""A relation whose facts fit into 64 bits: sorted runs of packed keys.

The base arrangement has the columns in their own order; it decides what is new. Others are made
when a lookup first wants them, and catch up with the base when they are read again. In a round the
relation has three versions: old (the runs), delta (found in the last round), new (both).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from caladan.columns.index import PackedIndex, present
from caladan.columns.intake import Intake
from caladan.columns.invariants import CHECKED, check_run
from caladan.columns.kernels import probe
from caladan.columns.layout import Counts, Keys, Mask, Packing, Words, head_of
from caladan.columns.membership import NO_KEYS, Deletions, among, stamps
from caladan.columns.runs import Arrangement, Run, Space, distinct, in_order
from caladan.program import thresholds
from caladan.rules.body import Version

Orders: TypeAlias = Mapping[frozenset[int], tuple[int, ...]]


class PackedRelation(Intake):
    """Facts of up to 64 bits; what it is asked for `StoredRelation` says (relation.py).

    `orders` has the column orders that others planned for lookups by some columns; where it has
    none, the columns of a lookup come first, as they stand.
    """

    form = "packed keys"

    def __init__(self, widths: Sequence[int], orders: Orders = MappingProxyType({})) -> None:
        straight = tuple(range(len(widths)))
        self._orders = orders
        super().__init__(Arrangement(Packing(tuple(widths), straight)))
        self._others: dict[tuple[int, ...], Arrangement] = {}
        self._behind: dict[tuple[int, ...], list[Run]] = {}
        self._followed: list[list[Run]] = []
        self._shown: Keys = NO_KEYS  # of the delta, those that had been deleted
        self._journal: list[Keys] | None = None
        self._is_ranked = False

    @property
    def arity(self) -> int:
        return self.base.packing.arity

    @property
    def arrangements(self) -> list[tuple[int, ...]]:
        return [self.base.packing.order, *self._others]

    @property
    def nbytes(self) -> int:
        taken = self.intake_bytes + (0 if self._deletions is None else self._deletions.nbytes)
        return taken + sum(a.nbytes for a in (self.base, *self._others.values()))

    @property
    def spilled(self) -> int:
        return sum(a.spilled for a in (self.base, *self._others.values()))

    def spill(self, space: Space) -> int:
        """Move runs to disk, and do without a set of facts; how many bytes of memory that saves."""
        before = self.nbytes
        self.forgo_set()
        for arrangement in (self.base, *self._others.values()):
            arrangement.spill(space)
        return before - self.nbytes

    def count(self) -> int:
        hidden = 0 if self._deletions is None else len(self._deletions)
        return len(self.base) - len(self._shown) - hidden

    def delta_count(self) -> int:
        return len(self.base.delta) if self.base.delta is not None else 0

    # ── Writing ──────────────────────────────────────────────────────────────────────────────────

    def add(self, columns: Sequence[Words], rows: int) -> None:
        self.add_keys(self.base.packing.keys(columns, rows))

    def flip(self) -> int:
        assert self.base.delta is None, "commit the last delta first"
        new = self._take_pending()
        if self._deletions is not None and len(new):
            self._shown = new[self._deletions.hidden(new)]
            if len(self._shown):
                back = self._deletions.show(self._shown)
                if self._journal is not None:
                    self._journal.append(back)
        if CHECKED and not len(self._shown):
            check_run(new, [run.keys for run in self.base.runs])
        if len(new):
            ranks = np.full(len(new), stamps.take(), np.uint32) if self._is_ranked else None
            self.base.delta = Run(new, self.base.packing, ranks=ranks)
        return len(new)

    def commit(self) -> None:
        delta = self.base.delta
        if delta is None:
            return
        if len(self._shown):
            delta = self._without_shown(delta)
        if self._journal is not None:
            self._journal.append(delta.keys)
        for order, arrangement in self._others.items():
            if arrangement.delta is not None:
                arrangement.commit()
            else:
                self._behind[order].append(delta)
        for runs in self._followed:
            runs.append(delta)
        self.base.commit()

    def follow(self) -> list[Run]:
        """The runs of old facts as they are; what is committed from now on is appended."""
        self._followed.append(list(self.base.runs))
        return self._followed[-1]

    def unfollow(self) -> None:
        """Nobody wants to know any more what is committed."""
        self._followed.clear()

    def absorb(self, old: Keys, delta: Keys, ranks: Words | None = None) -> None:
        """Take over what the tiny-delta machine made of the delta: sorted, old and still new.

        `ranks` has when the old ones, then the new ones were derived, if facts remember that.
        """
        assert not self.is_hiding, "the machine reads runs as they are"
        self.base.delta = None
        for arrangement in self._others.values():
            arrangement.delta = None
        if self._journal is not None:
            self._journal.append(old)
        if self._seen is not None:
            for keys in (old, delta):
                self._seen.unseen(keys.copy())
        old_ranks = None if ranks is None else ranks[: len(old)]
        delta_ranks = None if ranks is None else ranks[len(old) :]
        if len(old):
            run = Run(old, self.base.packing, ranks=old_ranks)
            for behind in (*self._behind.values(), *self._followed):
                behind.append(run)
            self.base.push(run)
        if len(delta):
            self.base.delta = Run(delta, self.base.packing, ranks=delta_ranks)
        if CHECKED:
            check_run(delta, [run.keys for run in self.base.runs])

    # ── Deleting ─────────────────────────────────────────────────────────────────────────────────

    @property
    def is_hiding(self) -> bool:
        """Whether runs hold keys that are no facts, or a delta that runs hold too."""
        return len(self._shown) > 0 or (self._deletions is not None and len(self._deletions) > 0)

    @property
    def is_recorded(self) -> bool:
        return self._journal is not None

    @property
    def is_ranked(self) -> bool:
        return self._is_ranked

    def record(self) -> None:
        self._journal = []

    def rank(self) -> None:
        self._is_ranked = True

    def restamp(self, stamp: int) -> None:
        for run in self.base.runs if self._is_ranked else ():
            run.ranks = np.full(len(run), stamp, np.uint32)

    def discard(self, columns: Sequence[Words], rows: int) -> int:
        keys = distinct(self.base.packing.keys(columns, rows))
        index = self.index(range(self.arity), Version.NEW)
        gone = keys[present(index, keys, self.base.packing.leading_shift)]
        if len(gone):
            if self._deletions is None:
                self._deletions = Deletions()
                self.forgo_set()
            self._deletions.hide(gone)
        return len(gone)

    def changes(self) -> tuple[Keys, Keys]:
        parts = [keys for keys in self._journal or () if len(keys)]
        added = parts[0] if len(parts) == 1 else np.concatenate([NO_KEYS, *parts])
        return added, NO_KEYS if self._deletions is None else self._deletions.leaving

    def settle(self) -> None:
        """A change is done: what it took away is nobody's business any more."""
        if self._journal:
            self._journal = []
        if self._deletions is not None and len(self._deletions):
            self._deletions.settle()
            if len(self._deletions) * thresholds.now.purge > len(self.base):
                self._purge()

    def clear(self) -> None:
        for arrangement in (self.base, *self._others.values()):
            arrangement.runs, arrangement.delta = [], None
        self._behind = {order: [] for order in self._others}
        self._deletions, self._shown = None, NO_KEYS
        self.forget_pending()
        self._seen, self._tried = None, 0
        if self._journal:
            self._journal = []

    def ranks(self, keys: Keys) -> Words:
        """When facts were derived, as keys of the base packing; 0 where nobody knows."""
        found: Words = np.zeros(len(keys), np.uint32)
        lead = self.base.packing.leading_shift
        starts: Counts = np.empty(len(keys), np.int64)
        counts: Counts = np.empty(len(keys), np.int64)
        for run in self.base.all_runs:
            if run.ranks is None:
                continue
            sieve = run.filter(0, len(keys))
            if probe.ranges(
                keys, run.keys, 0, run.bounds, lead, sieve.bits, sieve.log, starts, counts
            ):
                there = np.flatnonzero(counts)
                found[there] = run.ranks[starts[there]]
        return found

    def _hiding(self, packing: Packing, version: Version) -> Callable[[Keys], Mask] | None:
        """What tells hidden keys of a packing, if a version may come across some."""
        deletions = self._deletions
        if deletions is None or not len(deletions) or version is Version.DELTA:
            return None
        either, base = version is Version.EITHER, self.base.packing
        if packing is base:
            return partial(deletions.hidden, either=either)
        return lambda keys: deletions.hidden(packing.moved(keys, base), either=either)

    def _without_shown(self, delta: Run) -> Run:
        """A delta without what runs hold already; all orders take it over from here."""
        again = among(delta.keys, self._shown)
        for run in self.base.runs:
            if run.ranks is not None and delta.ranks is not None:
                at = np.searchsorted(run.keys, self._shown)
                at[at == len(run)] = 0
                run.ranks[at[run.keys[at] == self._shown]] = delta.ranks[0]
        ranks = None if delta.ranks is None else delta.ranks[~again]
        self.base.delta = Run(delta.keys[~again], delta.packing, ranks=ranks)
        for arrangement in self._others.values():
            arrangement.delta = None
        self._shown = NO_KEYS
        return self.base.delta

    def _purge(self) -> None:
        """Rewrite the runs without what earlier changes took away."""
        if self._deletions is None:
            return
        base = self.base.packing
        for arrangement in (self.base, *self._others.values()):
            runs: list[Run] = []
            for run in arrangement.runs:
                hidden = self._deletions.hidden(run.packing.moved(run.keys, base), either=True)
                ranks = None if run.ranks is None else run.ranks[~hidden]
                runs.append(Run(run.keys[~hidden], run.packing, ranks=ranks))
            arrangement.runs = [run for run in runs if len(run)]
        for order, behind in self._behind.items():
            if behind:  # runs of the base as they were
                self._behind[order] = []
                del self._others[order]
        self._behind = {order: self._behind[order] for order in self._others}
        leaving = self._deletions.leaving
        self._deletions = None
        if len(leaving):
            self._deletions = Deletions()
            self._deletions.hide(leaving)

    def columns_of(self, keys: Keys) -> tuple[Words, ...]:
        """The columns of keys of the base packing."""
        return tuple(self.base.packing.column(keys, c) for c in range(self.arity))

    def repacked(self, widths: Sequence[int]) -> PackedRelation:
        """The same facts with wider columns. Lookups in flight go on with the old runs."""
        self._purge()
        to = PackedRelation(widths, self._orders)
        to.base = self.base.repacked(to.base.packing)
        moved = partial(self.base.packing.moved, to=to.base.packing)
        to._shown, to._is_ranked = moved(self._shown), self._is_ranked
        to._journal = None if self._journal is None else list(map(moved, self._journal))
        if self._deletions is not None:
            to._may_see = False
            to._deletions = Deletions()
            to._deletions.hide(moved(self._deletions.leaving))
        to._pending = list(map(moved, self._pending))
        to._pending_keys = self._pending_keys
        to._may_see = self._may_see and self._deletions is None
        return to

    # ── Reading ──────────────────────────────────────────────────────────────────────────────────

    def index(self, bound: Sequence[int], version: Version) -> PackedIndex:
        arrangement = self._arrangement(frozenset(bound), version is not Version.OLD)
        if version is Version.DELTA:
            runs = [] if arrangement.delta is None else [arrangement.delta]
        else:
            runs = arrangement.runs if version is Version.OLD else arrangement.all_runs
        hidden = self._hiding(arrangement.packing, version)
        return PackedIndex(arrangement.packing, list(runs), len(bound), hidden)

    def scan(self, version: Version, rows: int | None = None) -> Iterator[Keys]:
        """The keys of a version, in blocks; `index((), version)` takes columns out of them."""
        size = rows or thresholds.now.block
        index = self.index((), version)
        for run in index.runs:
            for start in range(0, len(run), size):
                keys = run.keys[start : start + size]
                alive = index.alive(keys)
                yield keys if alive is None else keys[alive]

    def has_order(self, bound: Sequence[int]) -> bool:
        return self._order_for(frozenset(bound)) is not None

    def contains(self, columns: tuple[Words, ...]) -> Mask:
        rows = len(columns[0]) if columns else 1
        index = self.index(range(self.arity), Version.NEW)
        return index.present(*index.key(dict(enumerate(columns)), rows))

    def blocks(self, rows: int | None = None) -> Iterator[tuple[Words, ...]]:
        for keys in self.scan(Version.NEW, rows):
            yield self.columns_of(keys)

    def head(self, rows: int) -> tuple[Words, ...]:
        return head_of(self.blocks, self.arity, rows)

    def first(self, rows: int) -> tuple[Words, ...]:
        """The first facts in the order of their words."""
        keys = [NO_KEYS, *(run.keys[:rows] for run in self.base.all_runs)]
        if self.is_hiding:
            keys = [NO_KEYS, *self.scan(Version.NEW)]
        return self.columns_of(np.sort(np.concatenate(keys))[:rows])

    def _order_for(self, bound: frozenset[int]) -> tuple[int, ...] | None:
        orders = (self.base.packing.order, *self._others)
        return next((o for o in orders if frozenset(o[: len(bound)]) == bound), None)

    def _arrangement(self, bound: frozenset[int], with_delta: bool) -> Arrangement:
        straight = self.base.packing.order
        order = self._order_for(bound)
        if order is None:
            order = self._orders.get(bound) or straight_order(bound, self.arity)
            self._others[order] = Arrangement(Packing(self.widths, order))
            self._behind[order] = list(self.base.runs)
        if order == straight:
            return self.base
        arrangement = self._others[order]
        if behind := self._behind[order]:
            self._behind[order] = []
            arrangement.push(_repack_runs(behind, arrangement.packing))
        if with_delta and self.base.delta is not None and arrangement.delta is None:
            arrangement.delta = _repack_runs([self.base.delta], arrangement.packing)
            if CHECKED and not len(self._shown):
                check_run(arrangement.delta.keys, [run.keys for run in arrangement.runs])
        return arrangement


def straight_order(bound: frozenset[int], arity: int) -> tuple[int, ...]:
    """Some columns first, then the others, both as they stand."""
    return (*sorted(bound), *(c for c in range(arity) if c not in bound))


def _repack_runs(runs: Sequence[Run], to: Packing) -> Run:
    """The keys of some runs as one run in another packing."""
    parts = [run.packing.moved(run.keys, to) for run in runs]
    keys = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return Run(in_order(keys, _kept_bits(runs[0].packing, to) if len(runs) == 1 else 0), to)


def _kept_bits(packing: Packing, to: Packing) -> int:
    """The last bits of keys in another packing that stay in order, if no other ones differ."""
    for first in range(to.arity):
        if to.order[first:] == tuple(c for c in packing.order if c not in to.order[:first]):
            return to.prefix_shift(first) if first else sum(to.widths)
    return 0
