"""A relation of a clique as one task has it: its part of every copy.

The head of the owner copy decides what is new. Rules write candidates into outboxes; after the
round they go to their owners. An owner that finds facts to be new hands them to the other copies
with the next round's messages. `PlainMember` is a set of facts; with aggregates see groups.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from caladan.columns.domains import Domain
from caladan.columns.invariants import CHECKED, check_owned
from caladan.columns.layout import Words
from caladan.columns.packed import Orders, PackedRelation
from caladan.columns.relation import StoredRelation
from caladan.engines.spark.mesh import snapshot
from caladan.engines.spark.mesh.placement import Copy
from caladan.engines.spark.mesh.repartition import Arrivals, PlainArrivals
from caladan.engines.spark.mesh.shuffle import (
    AsIs,
    Route,
    RowBatch,
    Slot,
    Slots,
    codec,
    field_copy,
    key_copy,
)
from caladan.engines.spark.mesh.snapshot import SnapshotSection
from caladan.fixpoint.heads import PlainHead, RelationHead
from caladan.join.plan import RulePlan
from caladan.join.walk import SolutionSink
from caladan.rules.body import Version
from caladan.rules.program import DeltaRule


class CopyOf(Protocol):
    """A copy that owners tell of what is new."""

    relation: StoredRelation

    def take(self, batch: RowBatch) -> None:
        """What came from owners; `flip` puts it in."""
        ...

    def flip(self) -> int:
        """Make what came the delta."""
        ...


class Outbox(Protocol):
    """What rules derive in a round, until it is sent."""

    @property
    def pending_bytes(self) -> int:
        """How much there is."""
        ...

    def leave(self) -> RowBatch | None:
        """All there is, None if nothing; then it is empty."""
        ...


@dataclass(frozen=True, slots=True)
class MemberPlace:
    """Where the facts of a relation are: its copies, and which task this is, of how many.

    `heavy` has the values that are split in a copy.
    """

    domains: tuple[Domain, ...]
    owner: Copy
    others: Sequence[Copy]
    slots: Slots
    heavy: Callable[[Copy], Words | None]
    me: int
    tasks: int


class Member:
    """What all kinds of relations have in common."""

    def __init__(
        self, head: RelationHead, place: MemberPlace, others: Mapping[Copy, tuple[CopyOf, Slot]]
    ) -> None:
        self.head = head
        self._owner, self._others = place.owner, others
        self._me, self._tasks = place.me, place.tasks
        self._outboxes: list[tuple[Slot, Outbox]] = []

    @property
    def relation(self) -> StoredRelation:
        """What this task owns."""
        return self.head.relation

    @property
    def copies(self) -> dict[str, StoredRelation]:
        """The other copies, by name."""
        return {copy.name: each.relation for copy, (each, _) in self._others.items()}

    @property
    def pending_bytes(self) -> int:
        """What is derived, and not sent yet."""
        return sum(outbox.pending_bytes for _, outbox in self._outboxes)

    @property
    def pending_rows(self) -> int:
        """None that a task could count: who owns a fact finds out whether it is new."""
        return 0

    def count_pending(self) -> int:
        """None, see `pending_rows`; facts are counted between rounds, for all tasks."""
        return 0

    def reading(self, copy: Copy) -> StoredRelation:
        """A copy, for rules to read."""
        return self.relation if copy == self._owner else self._others[copy][0].relation

    def give(self, columns: Sequence[Words], rows: int) -> None:
        """Facts that are there from the start, the same in every task; it keeps what it owns."""
        given = StoredRelation(self.relation.domains)
        given.add(columns, rows)
        if given.flip():
            mine = self.owning.split(self.news(given), self._tasks)[self._me]
            if mine is not None and mine.rows:
                self.own(mine)

    @property
    def owning(self) -> Route:
        """Where facts are owned."""
        raise NotImplementedError

    def own(self, batch: RowBatch) -> None:
        """Facts that are this task's from the start."""
        raise NotImplementedError

    def news(self, relation: StoredRelation) -> RowBatch:
        """The facts of a copy that are new, as they travel."""
        return RowBatch(relation.delta_count(), delta_columns(relation))

    def leaving(self) -> Iterator[tuple[Slot, RowBatch]]:
        """What the rules derived in this round, and what the last one found to be new."""
        for slot, outbox in self._outboxes:
            batch = outbox.leave()
            if batch is not None:
                yield slot, batch
        if self._others and self.relation.delta_count():
            news = self.news(self.relation)
            for _, slot in self._others.values():
                yield slot, news

    def commit(self) -> None:
        """Let the deltas of all copies become old."""
        self.relation.commit()
        for each, _ in self._others.values():
            each.relation.commit()

    def flip(self) -> int:
        """Make what was taken in the delta; how many facts of the owner's are new."""
        for each, _ in self._others.values():
            each.flip()
        return self.head.flip()

    def finished(self, orders: Orders) -> StoredRelation:
        """What this task owns, once nothing changes any more."""
        return self.head.finished(orders)

    def sink(self, rule: DeltaRule, plan: RulePlan, keys: Sequence[Domain]) -> SolutionSink:
        """Where the solutions of a rule go."""
        raise NotImplementedError

    def shelves(self) -> Iterator[SnapshotSection]:
        """What there is to be saved between two rounds, in the order in which it is put back."""
        raise NotImplementedError

    def contents(self) -> Iterator[tuple[str, RowBatch]]:
        """All there is between two rounds, by its kind, to be placed anew."""
        raise NotImplementedError

    def arrivals(self, slots: Slots) -> Arrivals:
        """What takes in contents of this relation, while there is nothing here yet."""
        raise NotImplementedError


class PlainCopy:
    """Facts that their owners tell of."""

    def __init__(self, relation: StoredRelation, *, keyed: bool) -> None:
        self.relation = relation
        self._keyed = keyed

    def take(self, batch: RowBatch) -> None:
        """Facts that are perhaps new."""
        snapshot.add(self.relation, batch, keyed=self._keyed)

    def flip(self) -> int:
        """Make what came the delta."""
        return self.relation.flip()


class PlainMember(Member):
    """A relation without aggregates."""

    def __init__(self, place: MemberPlace) -> None:
        domains, slots = place.domains, place.slots
        self._domains, self._heavy = domains, place.heavy
        self._outbox = PlainHead(domains)
        head = PlainHead(domains)
        body = head.relation.body
        # Closed domains have the same size in every task, and so do the columns of packed keys.
        self._packing = body.base.packing if isinstance(body, PackedRelation) else None
        self._keyed = self._packing is not None and not any(d.grows for d in domains)
        self._codecs = (AsIs(np.uint64),) if self._keyed else tuple(map(codec, domains))
        candidates = slots.made(self._codecs, self._spread(place.owner), self.own)
        self._told: dict[Copy, tuple[CopyOf, Slot]] = {}
        for copy in place.others:
            each = PlainCopy(StoredRelation(domains), keyed=self._keyed)
            self._told[copy] = (each, slots.made(self._codecs, self._spread(copy), each.take))
        super().__init__(head, place, self._told)
        self._candidates = candidates
        self._outboxes.append((candidates, self))

    def _spread(self, copy: Copy) -> Route:
        heavy = self._heavy(copy)
        if self._keyed and self._packing is not None:
            return key_copy(self._packing, copy.by, copy.heavy, heavy)
        whole = tuple(range(len(self._domains)))
        return field_copy(self._codecs, copy.by, whole, copy.heavy, heavy)

    @property
    def pending_bytes(self) -> int:
        """What is derived, and not sent yet."""
        return self._outbox.pending_bytes

    @property
    def owning(self) -> Route:
        """Where facts are owned."""
        return self._candidates.spread

    def own(self, batch: RowBatch) -> None:
        """Facts that are this task's, if they are new."""
        snapshot.add(self.relation, batch, keyed=self._keyed)

    def sink(self, rule: DeltaRule, plan: RulePlan, keys: Sequence[Domain]) -> SolutionSink:
        """Where the solutions of a rule go."""
        return self._outbox.sink(rule, plan, keys)

    def leave(self) -> RowBatch | None:
        """The candidates of a round, None if there are none."""
        outbox = self._outbox.relation
        if not outbox.flip():
            return None
        batch = self.news(outbox)
        outbox.body = StoredRelation(self._domains).body
        return batch

    def flip(self) -> int:
        """Make what was taken in the delta; how many facts of the owner's are new."""
        new = super().flip()
        if CHECKED and new:
            parts = self.owning.split(self.news(self.relation), self._tasks)
            check_owned([part is not None for part in parts], self._me)
        return new

    def shelves(self) -> Iterator[SnapshotSection]:
        """What there is to be saved: the facts of all copies, old and new."""
        for relation in (self.relation, *self.copies.values()):
            yield from snapshot.facts(relation, self._codecs, keyed=self._keyed)

    def contents(self) -> Iterator[tuple[str, RowBatch]]:
        """All facts: new if they are in some copy, else old."""
        for relation in (self.relation, *self.copies.values()):
            for batch in snapshot.batches(relation, Version.DELTA, keyed=self._keyed):
                yield "new", batch
        for batch in snapshot.batches(self.relation, Version.OLD, keyed=self._keyed):
            yield "old", batch

    def arrivals(self, slots: Slots) -> Arrivals:
        """What takes in facts, while there are none here yet."""
        copies = [(self.relation, self.owning)]
        copies += [(each.relation, slot.spread) for each, slot in self._told.values()]
        return PlainArrivals(self._codecs, copies, slots, keyed=self._keyed)

    def news(self, relation: StoredRelation) -> RowBatch:
        """The facts of a copy that are new, as they travel."""
        body = relation.body
        if self._keyed and isinstance(body, PackedRelation):
            assert body.base.delta is not None
            return RowBatch(relation.delta_count(), (body.base.delta.keys,))
        return super().news(relation)


def delta_columns(relation: StoredRelation) -> tuple[Words, ...]:
    """The columns of the facts that are new."""
    index = relation.index((), Version.DELTA)
    parts = [
        tuple(index.column(hits, c) for c in range(relation.arity))
        for hits in relation.scan(Version.DELTA)
    ]
    if len(parts) == 1:
        return parts[0]
    return tuple(np.concatenate([part[c] for part in parts]) for c in range(relation.arity))
