"""A relation with aggregates, as one task has it: groups whose values change.

Rules send what each solution contributes; the owner of a group adds up, and tells the other copies
the new value. Of the best values only the best of a round travels.

What rules contribute to groups in a round, until it is sent.

Of best values only the best of each group is kept, as they come: a round may find a thousand values
for a group. Amounts that are added up all count, so all are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from caladan.analysis.core import RelationInfo
from caladan.columns.domains import Domain, TextDomain
from caladan.columns.groups import GroupRelation
from caladan.columns.interner import Tuples
from caladan.columns.layout import Words, concatenate
from caladan.columns.ranks import rank_floats
from caladan.columns.relation import StoredRelation
from caladan.engines.spark.mesh import snapshot
from caladan.engines.spark.mesh.members import CopyOf, Member, MemberPlace
from caladan.engines.spark.mesh.placement import Copy
from caladan.engines.spark.mesh.repartition import ContributorArrivals, GroupArrivals
from caladan.engines.spark.mesh.shuffle import (
    AsIs,
    Codec,
    Route,
    RowBatch,
    Slot,
    Slots,
    WireField,
    codec,
    field_copy,
)
from caladan.engines.spark.mesh.snapshot import SnapshotSection
from caladan.fixpoint.aggregates import (
    Accumulator,
    ContributorValues,
    accumulator,
)
from caladan.fixpoint.groups import AggregateHead, Contribution, Contributions
from caladan.join.arithmetic import ValueColumn
from caladan.join.plan import RulePlan
from caladan.join.walk import SolutionSink
from caladan.program.kinds import Kind
from caladan.rules.program import DeltaRule


class GroupOutbox(Protocol):
    """Takes contributions, and gives them away as a batch: groups, amounts, keys."""

    @property
    def pending_bytes(self) -> int:
        """How much there is."""
        ...

    def add(self, contribution: Contribution) -> None:
        """Some more."""
        ...

    def leave(self) -> RowBatch | None:
        """All there is, None if nothing; then it is empty."""
        ...


class BestOutbox:
    """The best values of each group."""

    def __init__(self, info: RelationInfo, domains: Sequence[Domain]) -> None:
        self._info = info
        self._domains = domains
        self._clear()

    @property
    def pending_bytes(self) -> int:
        """A value for each group: too little to matter."""
        return 0

    def add(self, contribution: Contribution) -> None:
        ids, fresh = self._tuples.ids(contribution.group, contribution.rows)
        if len(fresh):
            for parts, words in zip(self._groups, contribution.group, strict=True):
                parts.append(words[fresh])
            for column in self._columns.values():
                column.grow(len(self._tuples))
        numbers = ids.astype(np.int64)
        for i, column in self._columns.items():
            column.add(numbers, contribution.amounts[i])

    def leave(self) -> RowBatch | None:
        rows = len(self._tuples)
        if not rows:
            return None
        everything = np.arange(rows)
        fields: list[WireField] = [np.concatenate(parts) for parts in self._groups]
        for i, column in self._columns.items():
            ranks = column.ranks(everything)
            fields.append(rank_floats(ranks) if self._domains[i].kind is Kind.FLOAT else ranks)
        self._clear()
        return RowBatch(rows, tuple(fields))

    def _clear(self) -> None:
        self._tuples = Tuples(len(self._info.group))
        self._groups: list[list[Words]] = [[] for _ in self._info.group]
        self._columns: dict[int, Accumulator] = {
            i: accumulator(function, self._domains[i], self._info.types[i])
            for i, function in enumerate(self._info.aggregates)
            if function is not None
        }


class WholeOutbox:
    """All contributions."""

    def __init__(self) -> None:
        self._kept: list[Contribution] = []

    @property
    def pending_bytes(self) -> int:
        return sum(field.nbytes for each in self._kept for field in _fields(each))

    def add(self, contribution: Contribution) -> None:
        self._kept.append(contribution)

    def leave(self) -> RowBatch | None:
        kept, self._kept = self._kept, []
        if not kept:
            return None
        columns = zip(*map(_fields, kept), strict=True)
        rows = sum(contribution.rows for contribution in kept)
        return RowBatch(rows, tuple(np.concatenate(parts) for parts in columns))


def _fields(contribution: Contribution) -> list[WireField]:
    keys = [words for columns in contribution.keys.values() for words in columns]
    amounts = [values.data for values in contribution.amounts.values()]
    return [*contribution.group, *amounts, *keys]


class GroupMember(Member):
    """A relation with aggregates."""

    def __init__(self, info: RelationInfo, place: MemberPlace) -> None:
        domains, slots, heavy = place.domains, place.slots, place.heavy
        assert place.owner.by is not None
        self._info, self._domains = info, domains
        self._heavy = heavy(place.owner)
        self._slots = slots
        self._is_best = all(row is None or row.is_improved for row in info.aggregates)
        self._columns = tuple(map(codec, domains))
        self._group = [self._columns[i] for i in info.group]
        self._by = tuple(info.group.index(column) for column in place.owner.by)
        self._places: dict[tuple[int, str], tuple[Codec, ...]] = {}
        self._told: dict[Copy, tuple[GroupCopy, Slot]] = {}
        for copy in place.others:
            values = GroupCopy(info, domains)
            spread = field_copy(self._columns, copy.by, info.group, copy.heavy, heavy(copy))
            self._told[copy] = (values, slots.made(self._columns, spread, values.take))
        told: dict[Copy, tuple[CopyOf, Slot]] = {**self._told}
        super().__init__(AggregateHead(info, domains), place, told)

    @property
    def _groups(self) -> AggregateHead:
        assert isinstance(self.head, AggregateHead)
        return self.head

    def own(self, batch: RowBatch) -> None:
        self._groups.give(batch.fields, batch.rows)

    def sink(self, rule: DeltaRule, plan: RulePlan, keys: Sequence[Domain]) -> SolutionSink:
        contributing = Contributions(self._info, self._domains, rule, plan, keys)
        outbox: GroupOutbox = WholeOutbox()
        if self._is_best:
            outbox = BestOutbox(self._info, self._domains)
        self._outboxes.append((self._contributions(contributing), outbox))
        return SolutionSink(lambda frontier: outbox.add(contributing.of(frontier)))

    def _contributions(self, contributing: Contributions) -> Slot:
        """The slot for what a rule contributes: groups, amounts, and keys where they count."""
        kinds = {i: self._domains[i].kind for i, f in enumerate(self._info.aggregates) if f}
        keys = {} if self._is_best else contributing.key_domains
        codecs: list[Codec] = [*self._group]
        codecs += [_amounts(self._domains[i]) for i in kinds]
        codecs += [codec(domain) for domains in keys.values() for domain in domains]
        places = {} if self._is_best else contributing.places
        self._groups.expect(places, keys)
        for i, place in places.items():
            fields = tuple(map(codec, keys[i]))
            self._places[i, place.place] = fields[: place.width]
            if place.solutions is not None:
                self._places[i, place.solutions] = fields

        def receive(batch: RowBatch) -> None:
            fields = iter(batch.fields)
            group = [next(fields) for _ in self._group]
            amounts = {i: ValueColumn(kind, next(fields)) for i, kind in kinds.items()}
            known = {i: tuple(next(fields) for _ in domains) for i, domains in keys.items()}
            self._groups.take(Contribution(batch.rows, group, amounts, known), places)

        return self._slots.made(codecs, self._spread(codecs), receive)

    @property
    def owning(self) -> Route:
        by, whole = self._owner.by, self._info.group
        return field_copy(self._columns, by, whole, self._owner.heavy, self._heavy)

    def _spread(self, codecs: Sequence[Codec]) -> Route:
        """Where rows go whose first fields are a group."""
        whole = tuple(range(len(self._group)))
        return field_copy(codecs, self._by, whole, self._owner.heavy, self._heavy)

    def shelves(self) -> Iterator[SnapshotSection]:
        head = self._groups
        yield from snapshot.groups(
            self.relation, self._columns, lambda batch: head.restore(batch.fields, batch.rows)
        )
        for column in head.columns.values():
            types = tuple(AsIs(each.dtype) for each in column.columns(0))
            if types:
                yield SnapshotSection(
                    types, partial(self._kept, column), partial(_keep, column.restore)
                )
        for (i, place), keys in self._places.items():
            places = head.columns[i].places
            if places is not None:
                types = (AsIs(np.uint32), *keys, AsIs(places.dtype), AsIs(np.bool_))
                take = partial(_keep, partial(places.restore, place))
                yield SnapshotSection(types, partial(_split_by_place, places, place), take)
        for values, _ in self._told.values():
            yield from snapshot.groups(values.relation, self._columns, values.restore)

    def contents(self) -> Iterator[tuple[str, RowBatch]]:
        head, rows = self._groups, self.relation.count()
        columns = tuple(concatenate(self.relation.blocks(), len(self._domains)))
        if rows:
            kept = [array for column in head.columns.values() for array in column.columns(rows)]
            yield "groups", RowBatch(rows, (*columns, *kept))
            yield "facts", RowBatch(rows, columns)
        for relation in (self.relation, *(values.relation for values, _ in self._told.values())):
            if relation.delta_count():
                yield "changed", self.news(relation)
        for i, place in self._places:
            places = head.columns[i].places
            for batch in _split_by_place(places, place) if places is not None else ():
                number, *rest = batch.fields
                group = [columns[c][number] for c in self._info.group]
                yield f"{i} {place}", RowBatch(batch.rows, (*group, *rest))

    def arrivals(self, slots: Slots) -> GroupArrivals:
        head = self._groups
        kept = [AsIs(a.dtype) for column in head.columns.values() for a in column.columns(0)]
        copies = [(values, slot.spread) for values, slot in self._told.values()]
        found = GroupArrivals(head, self._columns, kept, self.owning, copies, slots)
        for (i, place), keys in self._places.items():
            places = head.columns[i].places
            if places is not None:
                codecs = (*self._group, *keys, AsIs(places.dtype), AsIs(np.bool_))
                restore = partial(places.restore, place)
                spread = self._spread(codecs)
                found.contributors(f"{i} {place}", spread, ContributorArrivals(codecs, restore))
        return found

    def _kept(self, column: Accumulator) -> Iterator[RowBatch]:
        rows = self.relation.count()
        yield RowBatch(rows, tuple(column.columns(rows)))

    def flip(self) -> int:
        # A total over nothing is 0, in the one task that owns it.
        if self._by or self._me == 0:
            return super().flip()
        for values, _ in self._told.values():
            values.flip()
        return 0


def _amounts(domain: Domain) -> Codec:
    """How amounts travel: as they are, but for words of texts that rules make."""
    if isinstance(domain, TextDomain):
        return codec(domain)
    return AsIs(np.float64 if domain.kind is Kind.FLOAT else np.int64)


def _split_by_place(places: ContributorValues, place: str) -> Iterator[RowBatch]:
    columns = places.columns(place)
    if columns:
        yield RowBatch(len(columns[0]), tuple(columns))


def _keep(restore: Callable[[Sequence[WireField]], None], batch: RowBatch) -> None:
    """Restore arrays that change in place: copies, for those of a batch lie in what was read."""
    restore([np.array(field) for field in batch.fields])


class GroupCopy:
    """Groups with the values that their owners tell."""

    def __init__(self, info: RelationInfo, domains: Sequence[Domain]) -> None:
        self._group = info.group
        self._values = [i for i, function in enumerate(info.aggregates) if function]
        self._tuples = Tuples(len(info.group))
        self._pending: list[RowBatch] = []
        self.relation = StoredRelation.of_groups(domains, info.group)

    def take(self, batch: RowBatch) -> None:
        """New values; `flip` puts them in."""
        self._pending.append(batch)

    def restore(self, batch: RowBatch) -> None:
        """Groups with their values, as they once were; none of them is new."""
        self._tuples.ids([batch.fields[i] for i in self._group], batch.rows)
        body = self.relation.body
        assert isinstance(body, GroupRelation)
        body.restore(batch.fields, batch.rows)

    def numbers(self, group: Sequence[WireField], rows: int) -> WireField:
        """The numbers of groups."""
        return self._tuples.ids(group, rows)[0]

    def flip(self) -> int:
        """Make the groups with new values the delta."""
        pending, self._pending = self._pending, []
        body = self.relation.body
        assert isinstance(body, GroupRelation)
        if not pending:
            return 0
        columns = [
            np.concatenate(parts) for parts in zip(*(b.fields for b in pending), strict=True)
        ]
        group = [columns[i] for i in self._group]
        ids, fresh = self._tuples.ids(group, len(columns[0]))
        if len(fresh):
            body.extend([words[fresh] for words in group], len(fresh))
        # A group that was told twice has its last value.
        rows, last = np.unique(ids[::-1], return_index=True)
        values = {i: columns[i][::-1][last] for i in self._values}
        body.change(rows.astype(np.int64), values)
        return body.flip()
