"""A relation without aggregates, as one task has it: a set of facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from caladan.columns.domains import Domain
from caladan.columns.invariants import CHECKED, check_owned
from caladan.columns.layout import Words
from caladan.columns.packed import PackedRelation
from caladan.columns.relation import StoredRelation
from caladan.engines.spark.mesh import snapshot
from caladan.engines.spark.mesh.members import Slots, delta_columns
from caladan.engines.spark.mesh.placement import Copy
from caladan.engines.spark.mesh.repartition import PlainArrivals
from caladan.engines.spark.mesh.shuffle import AsIs, Batch, Route, Slot, codec, field_copy, key_copy
from caladan.engines.spark.mesh.snapshot import SnapshotSection
from caladan.fixpoint.heads import PlainHead
from caladan.join.plan import RulePlan
from caladan.join.walk import Sink
from caladan.rules.body import Version
from caladan.rules.program import DeltaRule


class PlainMember:
    """A relation without aggregates."""

    def __init__(
        self,
        domains: Sequence[Domain],
        owner: Copy,
        others: Sequence[Copy],
        slots: Slots,
        heavy: Callable[[Copy], Words | None],
        me: int,
        tasks: int,
    ) -> None:
        self._domains = tuple(domains)
        self._me, self._tasks = me, tasks
        self._owner = owner
        self._heavy = heavy
        self._outbox = PlainHead(domains)
        self.facts = StoredRelation(domains)
        # Closed domains have the same size in every task, and so do the columns of packed keys.
        self._keyed = not any(d.grows for d in domains) and isinstance(
            self.facts.body, PackedRelation
        )
        self._codecs = (AsIs(np.uint64),) if self._keyed else tuple(map(codec, domains))
        self._candidates = slots.made(
            self._codecs, self._spread(owner), lambda batch: self._add(self.facts, batch)
        )
        self._others: dict[Copy, tuple[StoredRelation, Slot]] = {}
        for copy in others:
            relation = StoredRelation(domains)
            self._others[copy] = (relation, self._slot(copy, relation, slots))

    def _slot(self, copy: Copy, relation: StoredRelation, slots: Slots) -> Slot:
        spread = self._spread(copy)
        return slots.made(self._codecs, spread, lambda batch: self._add(relation, batch))

    def _spread(self, copy: Copy) -> Route:
        heavy = self._heavy(copy)
        if not self._keyed:
            whole = tuple(range(len(self._domains)))
            return field_copy(self._codecs, copy.by, whole, copy.heavy, heavy)
        assert isinstance(self.facts.body, PackedRelation)
        return key_copy(self.facts.body.base.packing, copy.by, copy.heavy, heavy)

    def reading(self, copy: Copy) -> StoredRelation:
        return self.facts if copy == self._owner else self._others[copy][0]

    def give(self, columns: Sequence[Words], rows: int) -> None:
        given = StoredRelation(self._domains)
        given.add(columns, rows)
        given.flip()
        if given.delta_count():
            mine = self._candidates.spread.split(self._delta(given), self._tasks)[self._me]
            if mine is not None:
                self._candidates.receive(mine)

    def sink(self, rule: DeltaRule, plan: RulePlan, keys: Sequence[Domain]) -> Sink:
        return self._outbox.sink(rule, plan, keys)

    def leaving(self) -> Iterator[tuple[Slot, Batch]]:
        outbox = self._outbox.relation
        if outbox.flip():
            yield self._candidates, self._delta(outbox)
            outbox.body = StoredRelation(self._domains).body
        if self._others and self.facts.delta_count():
            news = self._delta(self.facts)
            for _, slot in self._others.values():
                yield slot, news

    def commit(self) -> None:
        self.facts.commit()
        for relation, _ in self._others.values():
            relation.commit()

    def flip(self) -> int:
        for relation, _ in self._others.values():
            relation.flip()
        new = self.facts.flip()
        if CHECKED and new:
            parts = self._candidates.spread.split(self._delta(self.facts), self._tasks)
            check_owned([part is not None for part in parts], self._me)
        return new

    def shelves(self) -> Iterator[SnapshotSection]:
        for relation in (self.facts, *(relation for relation, _ in self._others.values())):
            yield from snapshot.facts(relation, self._codecs, keyed=self._keyed)

    def contents(self) -> Iterator[tuple[str, Batch]]:
        for relation in (self.facts, *(relation for relation, _ in self._others.values())):
            for batch in snapshot.batches(relation, Version.DELTA, keyed=self._keyed):
                yield "new", batch
        for batch in snapshot.batches(self.facts, Version.OLD, keyed=self._keyed):
            yield "old", batch

    def arrivals(self, slots: Slots) -> PlainArrivals:
        copies = [(self.facts, self._candidates.spread)]
        copies += [(relation, slot.spread) for relation, slot in self._others.values()]
        return PlainArrivals(self._codecs, copies, slots, keyed=self._keyed)

    def _delta(self, relation: StoredRelation) -> Batch:
        body = relation.body
        if self._keyed and isinstance(body, PackedRelation):
            assert body.base.delta is not None
            return Batch(relation.delta_count(), (body.base.delta.keys,))
        return Batch(relation.delta_count(), delta_columns(relation))

    def _add(self, relation: StoredRelation, batch: Batch) -> None:
        snapshot.add(relation, batch, keyed=self._keyed)
