"""What a relation takes in when all that parts hold is placed anew (rules.py).

There is a slot for each kind of thing that a relation is made of and each copy that wants it. Once
everything has come, `settle` makes the copies of it, as they are between two rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from caladan.columns.groups import GroupRelation
from caladan.columns.interner import Tuples
from caladan.columns.layout import Mask
from caladan.columns.packed import PackedRelation
from caladan.columns.relation import StoredRelation
from caladan.engines.spark.mesh import snapshot
from caladan.engines.spark.mesh.shuffle import Codec, Route, RowBatch, Slot, Slots, WireField
from caladan.fixpoint.groups import AggregateHead
from caladan.rules.body import Version


class _BatchList(list[RowBatch]):
    """Batches that have come; their arrays lie in the messages."""

    def fields(self) -> list[WireField]:
        """All of them as one, in arrays of our own; none if nothing has come."""
        return [np.concatenate(parts) for parts in zip(*(b.fields for b in self), strict=True)]


class Arrivals(Protocol):
    """Takes in what is placed anew: slots by the kind of what comes."""

    slots: dict[str, list[Slot]]

    def settle(self) -> None:
        """Make copies of all that has come, as they are between two rounds."""
        ...


class PlainArrivals:
    """For a set of facts: those that are new and those that are old, for every copy."""

    def __init__(
        self,
        codecs: Sequence[Codec],
        copies: Sequence[tuple[StoredRelation, Route]],
        slots: Slots,
        *,
        keyed: bool,
    ) -> None:
        self._keyed = keyed
        self._copies: list[tuple[StoredRelation, _BatchList, _BatchList]] = []
        self.slots: dict[str, list[Slot]] = {"new": [], "old": []}
        for relation, spread in copies:
            new, old = _BatchList(), _BatchList()
            self._copies.append((relation, new, old))
            self.slots["new"].append(slots.made(codecs, spread, new.append))
            self.slots["old"].append(slots.made(codecs, spread, old.append))

    def settle(self) -> None:
        for relation, new, old in self._copies:
            known = StoredRelation(relation.domains)
            for batch in new:
                snapshot.add(known, batch, keyed=self._keyed)
            known.flip()
            for batch in old:
                snapshot.add(relation, self._without(known, batch), keyed=self._keyed)
            relation.flip()
            relation.commit()
            for batch in snapshot.batches(known, Version.DELTA, keyed=self._keyed):
                snapshot.add(relation, batch, keyed=self._keyed)
            relation.flip()

    def _without(self, known: StoredRelation, batch: RowBatch) -> RowBatch:
        """The facts of a batch that are not known."""
        if not known.delta_count():
            return batch
        if self._keyed and isinstance(known.body, PackedRelation):
            (keys,) = batch.fields
            (run,) = known.body.index((), Version.DELTA).runs
            at = np.minimum(np.searchsorted(run.keys, keys), len(run) - 1)
            rest: Mask = run.keys[at] != keys
        else:
            rest = ~known.contains(batch.fields)
        return RowBatch(int(rest.sum()), tuple(field[rest] for field in batch.fields))


class GroupsCopy(Protocol):
    """A copy of a relation with aggregates that its owners tell of."""

    relation: StoredRelation

    def restore(self, batch: RowBatch) -> None:
        """Groups with their values, none of them new."""
        ...

    def numbers(self, group: Sequence[WireField], rows: int) -> WireField:
        """The numbers of groups."""
        ...


@dataclass(frozen=True, slots=True)
class ContributorArrivals:
    """How contributors of a place travel after their groups, and who takes them back."""

    codecs: tuple[Codec, ...]
    restore: Callable[[Sequence[WireField]], None]


class GroupArrivals:
    """For groups: what the owner keeps of them, their values for other copies, which are new."""

    def __init__(
        self,
        head: AggregateHead,
        codecs: Sequence[Codec],
        kept: Sequence[Codec],
        owner: Route,
        copies: Sequence[tuple[GroupsCopy, Route]],
        slots: Slots,
    ) -> None:
        self._head = head
        self._group = head.info.group
        self._slots = slots
        self._whole, self._changed = _BatchList(), _BatchList()
        self._copies: list[tuple[GroupsCopy, _BatchList, _BatchList]] = []
        self._places: list[tuple[ContributorArrivals, _BatchList]] = []
        self.slots: dict[str, list[Slot]] = {
            "groups": [slots.made([*codecs, *kept], owner, self._whole.append)],
            "changed": [slots.made(codecs, owner, self._changed.append)],
            "facts": [],
        }
        for values, spread in copies:
            facts, changed = _BatchList(), _BatchList()
            self._copies.append((values, facts, changed))
            self.slots["facts"].append(slots.made(codecs, spread, facts.append))
            self.slots["changed"].append(slots.made(codecs, spread, changed.append))

    def contributors(self, kind: str, spread: Route, each: ContributorArrivals) -> None:
        """Contributors of one more place."""
        came = _BatchList()
        self._places.append((each, came))
        self.slots[kind] = [self._slots.made(each.codecs, spread, came.append)]

    def settle(self) -> None:
        numbers = Tuples(len(self._group))  # as the head will number them
        if self._whole:
            self._settle_owner(numbers)
        for values, facts, changed in self._copies:
            for batch in facts:
                values.restore(batch)
            if changed:
                fields = changed.fields()
                group = [fields[c] for c in self._group]
                _change(values.relation, values.numbers(group, len(fields[0])))

    def _settle_owner(self, numbers: Tuples) -> None:
        head = self._head
        fields = self._whole.fields()
        rows, arity = len(fields[0]), len(head.domains)
        numbers.ids([fields[c] for c in self._group], rows)
        head.restore(fields[:arity], rows)
        at = arity
        for column in head.columns.values():
            width = len(column.columns(0))
            column.restore(fields[at : at + width])
            at += width
        for contributors, came in self._places:
            if came:
                fields = came.fields()
                groups, rest = fields[: len(self._group)], fields[len(self._group) :]
                contributors.restore([numbers.ids(groups, len(rest[-1]))[0], *rest])
        if self._changed:
            fields = self._changed.fields()
            group = [fields[c] for c in self._group]
            _change(head.relation, numbers.ids(group, len(fields[0]))[0])


def _change(relation: StoredRelation, numbers: WireField) -> None:
    """Make groups the delta."""
    assert isinstance(relation.body, GroupRelation)
    relation.body.change(np.unique(numbers).astype(np.int64), {})
