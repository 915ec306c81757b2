"""The relations of a run so far: finished ones as layouts, those of the current clique as heads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from caladan.columns.folded_relation import FoldedRelation
from caladan.columns.invariants import CHECKED, check_layout
from caladan.columns.layout import Layout, Words
from caladan.columns.packed import Orders
from caladan.columns.relation import StoredRelation, store, stored_blocks
from caladan.fixpoint.heads import PlainHead, RelationHead
from caladan.fixpoint.limits import Limits
from caladan.join.classes import Classes
from caladan.program import thresholds
from caladan.rules.program import DeltaProgram


class State:
    """What is known; `given` has the facts from data and from the program's text, as words.

    `orders` has the column orders that were planned for lookups.
    """

    def __init__(
        self,
        program: DeltaProgram,
        classes: Classes,
        given: Mapping[str, Sequence[tuple[Sequence[Words], int]]],
        limits: Limits,
        orders: Mapping[str, Orders],
    ) -> None:
        self.program = program
        self.orders = orders
        self.classes = classes
        self.given = given
        self.limits = limits
        self.finished: dict[str, Layout] = {}
        self.heads: dict[str, RelationHead] = {}
        self._listed: dict[str, StoredRelation] = {}  # layouts with few facts, for those who join
        self.copies: dict[str, StoredRelation] = {}  # of relations, as peers have them
        self.is_ranked = False  # whether facts remember when they were derived

    def layouts(self) -> dict[str, Layout]:
        """What is known of every relation."""
        unfinished = {name: head.relation for name, head in self.heads.items()}
        return {**self.finished, **unfinished}

    def held(self) -> dict[str, Layout]:
        """All that takes memory."""
        listed = {f"{name}, listed": each for name, each in self._listed.items()}
        return {**self.layouts(), **self.copies, **listed}

    def load(self, name: str) -> None:
        """Store the given facts of a relation that no rule derives."""
        columns, orders = self.classes.columns(name), self.orders.get(name, {})
        self.finished[name] = relation = StoredRelation.of(
            columns, self.given.get(name, ()), orders
        )
        self.limits.memory.add(relation.count(), self.held)

    def start(self, relations: Iterable[str]) -> None:
        """Give the relations of a clique their heads, with what was given for them."""
        for name in relations:
            info = self.program.relations[name]
            domains = self.classes.columns(name)
            if info.has_aggregates:
                from caladan.fixpoint.groups import AggregateHead

                rules = [rule for rule in self.program.rules if rule.rule.head == name]
                is_sole = len(rules) == 1 and name not in self.given
                head: RelationHead = AggregateHead(info, domains, is_sole=is_sole)
            else:
                head = PlainHead(domains, self.orders.get(name, {}))
                if self.is_ranked:
                    head.relation.rank()
            for columns, rows in self.given.get(name, ()):
                head.give(columns, rows)
            self.heads[name] = head

    def finish(self, found: Mapping[str, Layout]) -> None:
        """Keep the relations of a clique as they are now."""
        for name, layout in found.items():
            if CHECKED:
                check_layout(layout)
            self.finished[name] = layout
            del self.heads[name]

    def relation(self, name: str) -> StoredRelation:
        """A relation that can be joined with."""
        if name in self.heads:
            return self.heads[name].relation
        columns = self.classes.columns(name)
        orders = self.orders.get(name, {})
        found = self.finished[name]
        folded = found.folded if isinstance(found, StoredRelation) else found
        if isinstance(folded, FoldedRelation) and folded.count() < thresholds.now.listed:
            # Few facts are looked up in runs sooner than in a layout, by whichever columns.
            if name not in self._listed:
                self._listed[name] = stored_blocks(folded, columns, self.limits.seconds, orders)
            return self._listed[name]
        relation = store(found, columns, self.limits.seconds, orders)
        self.finished[name] = relation
        return relation

    def count(self, name: str) -> int:
        """How many facts a relation has."""
        layout = self.heads[name].relation if name in self.heads else self.finished[name]
        return layout.count()

    def total(self, relations: Iterable[str]) -> int:
        """How many facts some relations have."""
        return sum(map(self.count, relations))

    def derived(self) -> int:
        """How many facts the run has derived."""
        known = self.program.relations
        return self.total(n for n in self.layouts() if n in known and known[n].is_derived)
