"""What a part asks of a relation of its clique, whatever kind it is.

A task has its part of every copy of the relation. Rules write candidates into an outbox; after the
round they go to their owners. An owner that finds facts to be new hands them to the other copies
with the next round's messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from caladan.columns.domains import Domain
from caladan.columns.layout import Words
from caladan.columns.relation import StoredRelation
from caladan.engines.spark.mesh.placement import Copy
from caladan.engines.spark.mesh.shuffle import Batch, Codec, Route, Slot
from caladan.engines.spark.mesh.snapshot import SnapshotSection
from caladan.join.plan import RulePlan
from caladan.join.walk import Sink
from caladan.rules.body import Version
from caladan.rules.program import DeltaRule


class Slots(list[Slot]):
    """The slots of a clique, numbered in the order in which they are made."""

    def made(
        self, codecs: Sequence[Codec], spread: Route, receive: Callable[[Batch], None]
    ) -> Slot:
        """One more slot."""
        self.append(Slot(len(self), tuple(codecs), spread, receive))
        return self[-1]


class Arrivals(Protocol):
    """Takes in what is placed anew: slots by the kind of what comes."""

    slots: dict[str, list[Slot]]

    def settle(self) -> None:
        """Make copies of all that has come, as they are between two rounds."""
        ...


class Member(Protocol):
    """What a part asks of a relation."""

    def reading(self, copy: Copy) -> StoredRelation:
        """A copy, for rules to read."""
        ...

    def give(self, columns: Sequence[Words], rows: int) -> None:
        """Facts that are there from the start, the same in every task; it keeps what it owns."""
        ...

    def sink(self, rule: DeltaRule, plan: RulePlan, keys: Sequence[Domain]) -> Sink:
        """Where the solutions of a rule go."""
        ...

    def leaving(self) -> Iterator[tuple[Slot, Batch]]:
        """What the rules derived in this round, and what the last one found to be new."""
        ...

    def commit(self) -> None:
        """Let the deltas of all copies become old."""
        ...

    def flip(self) -> int:
        """Make what was taken in the delta; how many facts of the owner's are new."""
        ...

    @property
    def facts(self) -> StoredRelation:
        """What this task owns."""
        ...

    def shelves(self) -> Iterator[SnapshotSection]:
        """What there is to be saved between two rounds, in the order in which it is put back."""
        ...

    def contents(self) -> Iterator[tuple[str, Batch]]:
        """All there is between two rounds, by its kind, to be placed anew."""
        ...

    def arrivals(self, slots: Slots) -> Arrivals:
        """What takes in contents of this relation, while there is nothing here yet."""
        ...


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
