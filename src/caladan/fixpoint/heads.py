"""Heads: what becomes of the solutions of the rules that derive a relation.

A `PlainHead` adds rows to a set; an `AggregateHead` (groups.py) gives every solution's amounts to
its group, and after a round the groups whose values changed are the delta. Both offer a sink for
each rule, which takes the rule's solutions, and `flip`, which goes from round to round.

From the last lookup straight into the head: no solutions are listed in between.

Where a head has only variables and constants, a head key is the columns known before the lookup,
packed once for each row, with the columns of the fact found moved into their places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import MappingProxyType
from typing import Protocol

import numpy as np

from caladan.columns.domains import Domain
from caladan.columns.index import PackedIndex, RunMatches
from caladan.columns.layout import Keys, Words, pack
from caladan.columns.packed import Orders, PackedRelation
from caladan.columns.relation import StoredRelation
from caladan.fixpoint.cut import CutRows
from caladan.fixpoint.products import KeyRows, LastLookup, multiply
from caladan.join.constraints.lookup import AtomLookup
from caladan.join.expressions import Evaluator
from caladan.join.frontier import Bindings
from caladan.join.late_materialization import Tests
from caladan.join.plan import RulePlan
from caladan.join.walk import SolutionSink
from caladan.program import Constant, Expression, Variable, thresholds
from caladan.rules.program import DeltaRule


class DirectHead:
    """A head without arithmetic."""

    def __init__(
        self,
        columns: Sequence[Expression],
        domains: Sequence[Domain],
        relation: StoredRelation,
        evaluator: Evaluator,
    ) -> None:
        self._columns = columns
        self._domains = domains
        self._relation = relation
        self._evaluator = evaluator
        self._rows = KeyRows()
        self.forget = self._rows.forget
        self.is_plain = all(
            isinstance(column, Constant)
            or (isinstance(column, Variable) and evaluator.domain(column.name) is domain)
            for column, domain in zip(columns, domains, strict=True)
        )

    def take(
        self, lookup: AtomLookup, frontier: Bindings, check: Callable[[], None], tests: Tests
    ) -> int | None:
        """Emit the head keys of a last lookup; how many, None if it takes another way.

        What is tested behind it is taken as a product or not at all.
        """
        head = self._relation.packed()
        if head is None or not lookup.bound or lookup.checked:
            return None
        tested = self._tested(lookup, tests)
        if tested is None or (tests.reads and frontier.rows < thresholds.now.product_rows):
            return None
        index = lookup.index()
        if not isinstance(index, PackedIndex) or not index.is_exact:
            return None
        found = {name: column for column, name in lookup.new.items()}
        shifts = head.base.packing.shifts
        moves: list[tuple[int, int]] = []  # a column that is found, and where it goes
        known: list[Words | int] = []
        known_shifts: list[int] = []
        for column, shift, domain in zip(self._columns, shifts, self._domains, strict=True):
            if isinstance(column, Variable) and column.name in found:
                moves.append((found[column.name], shift))
            else:
                known.append(self._known(column, frontier, domain))
                known_shifts.append(shift)
        if not moves:
            return None
        bases = pack(known, known_shifts, frontier.rows)
        keys, lead = index.key(lookup.words(frontier), frontier.rows)
        fits = partial(_filter_lookup, lookup, index, tests, tested[0]) if tested[0] else None
        passing = partial(self._passing, head, tests, tested[1]) if tested[1] else None
        size = self._domains[-1].size
        early = [tests.steps[i] for i in tested[0]]
        last = LastLookup(
            head, index, keys, lead, bases, moves, size, self._rows, early, fits, passing
        )
        if tests.reads and not last.is_likely():
            return None
        matches = lookup.find(index, keys, lead)
        assert isinstance(matches, RunMatches)  # of packed keys
        if not multiply(last, matches.total, check):
            if tests.reads:
                return None
            packing = index.packing
            taken = [(packing.shifts[c], packing.masks[c], shift) for c, shift in moves]
            for found_keys in matches.emitted(thresholds.now.room, bases, taken):
                check()
                head.add_keys(found_keys)
        return matches.total

    def _tested(self, lookup: AtomLookup, tests: Tests) -> tuple[list[int], list[int]] | None:
        """The tests of facts looked up, and of facts of the head; None if there are others."""
        there = {each.name for each in self._columns if isinstance(each, Variable)}
        inside = {*lookup.bound.values(), *lookup.new.values()}
        late = [i for i, reads in enumerate(tests.reads) if reads <= there]
        early = [i for i, reads in enumerate(tests.reads) if reads <= inside and i not in late]
        return (early, late) if len(early) + len(late) == len(tests.reads) else None

    def _passing(
        self, head: PackedRelation, tests: Tests, some: Sequence[int], keys: Keys
    ) -> Words:
        """Which facts of the head pass tests of its columns."""
        columns = {
            each.name: head.base.packing.column(keys, c)
            for c, each in enumerate(self._columns)
            if isinstance(each, Variable)
        }
        return tests.passing(Bindings(len(keys), columns), some)

    def _known(self, column: Expression, frontier: Bindings, domain: Domain) -> Words | int:
        if isinstance(column, Variable):
            return frontier.columns[column.name]
        one = Bindings(1, {})
        return int(np.asarray(self._evaluator.words(column, one, domain))[0])


def _filter_lookup(
    lookup: AtomLookup, index: PackedIndex, tests: Tests, some: Sequence[int], keys: Keys
) -> Keys:
    """The facts of a lookup that pass tests of its own columns."""
    named = {**lookup.bound, **lookup.new}.items()
    columns = {each: index.column(keys, c) for c, each in named if isinstance(each, str)}
    return keys[tests.passing(Bindings(len(keys), columns), some)]


class RelationHead(Protocol):
    """What the fixpoint asks of a relation that it derives."""

    @property
    def relation(self) -> StoredRelation:
        """Its facts, as rules read them."""
        ...

    @property
    def pending_bytes(self) -> int:
        """What is derived, and not sorted out yet."""
        ...

    @property
    def pending_rows(self) -> int:
        """How many facts are derived and not sorted out yet, some of them known or repeated."""
        ...

    def count_pending(self) -> int:
        """How many of them are new; takes as long as sorting them."""
        ...

    def give(self, columns: Sequence[Words], rows: int) -> None:
        """Facts that are there from the start."""
        ...

    def sink(self, rule: DeltaRule, plan: RulePlan, keys: Sequence[Domain]) -> SolutionSink:
        """Where the solutions of a rule go."""
        ...

    def flip(self) -> int:
        """Make what is new the delta; how many facts that is."""
        ...

    def finished(self, orders: Orders) -> StoredRelation:
        """The relation, once nothing changes any more; lookups of it have these orders."""
        ...


class PlainHead:
    """A relation without aggregates."""

    def __init__(self, domains: Sequence[Domain], orders: Orders = MappingProxyType({})) -> None:
        self._domains = tuple(domains)
        self.relation = StoredRelation(domains, orders)

    @property
    def pending_bytes(self) -> int:
        """What is derived, and not sorted out yet."""
        return self.relation.pending_bytes

    @property
    def pending_rows(self) -> int:
        """How many facts are derived and not sorted out yet, some of them known or repeated."""
        return self.relation.pending_rows

    def count_pending(self) -> int:
        """How many of them are new."""
        return self.relation.count_pending()

    def give(self, columns: Sequence[Words], rows: int) -> None:
        """Facts that are there from the start."""
        self.relation.add(columns, rows)

    def sink(self, rule: DeltaRule, plan: RulePlan, keys: Sequence[Domain]) -> SolutionSink:
        """Where the solutions of a rule go."""
        body, evaluator = plan.body, plan.evaluator
        if body.cut is not None and body.cut.limit is not None:
            cut = CutRows(body, evaluator, self._domains, self.relation.add)
            return SolutionSink(cut.take, cut.finish, nbytes=cut.nbytes)
        given = body.columns[: len(self._domains)]  # others are there to sort by, when shown

        def take(frontier: Bindings) -> None:
            columns = [
                evaluator.words(expression, frontier, domain)
                for expression, domain in zip(given, self._domains, strict=True)
            ]
            self.relation.add(columns, frontier.rows)

        direct = DirectHead(given, self._domains, self.relation, evaluator)
        if not direct.is_plain:
            return SolutionSink(take)
        return SolutionSink(
            take, direct.forget, direct.take, shared=lambda: self.relation.packed() is not None
        )

    def flip(self) -> int:
        """Make what is new the delta."""
        return self.relation.flip()

    def finished(self, orders: Orders) -> StoredRelation:
        """The relation, once nothing changes any more; it has had its orders all along."""
        del orders
        return self.relation
