"""Heads: what becomes of the solutions of the rules that derive a relation.

A `PlainHead` adds rows to a set; an `AggregateHead` (groups.py) gives every solution's amounts to
its group, and after a round the groups whose values changed are the delta. Both offer a sink for
each rule, which takes the rule's solutions, and `flip`, which goes from round to round.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Protocol

from caladan.columns.domains import Domain
from caladan.columns.layout import Words
from caladan.columns.packed import Orders
from caladan.columns.relation import StoredRelation
from caladan.delta.program import DeltaRule
from caladan.engines.embedded.cut import CutRows
from caladan.engines.embedded.direct import DirectHead
from caladan.engines.embedded.frontier import Frontier
from caladan.engines.embedded.plans import RulePlan
from caladan.engines.embedded.walk import Sink


class Head(Protocol):
    """What the fixpoint asks of a relation that it derives."""

    relation: StoredRelation

    def give(self, columns: Sequence[Words], rows: int) -> None:
        """Facts that are there from the start."""
        ...

    def sink(self, rule: DeltaRule, plan: RulePlan, keys: Sequence[Domain]) -> Sink:
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

    def give(self, columns: Sequence[Words], rows: int) -> None:
        """Facts that are there from the start."""
        self.relation.add(columns, rows)

    def sink(self, rule: DeltaRule, plan: RulePlan, keys: Sequence[Domain]) -> Sink:
        """Where the solutions of a rule go."""
        body, evaluator = plan.body, plan.evaluator
        if body.cut is not None:
            cut = CutRows(body, evaluator, self._domains, self.relation.add)
            return Sink(cut.take, cut.finish)

        def take(frontier: Frontier) -> None:
            columns = [
                evaluator.words(expression, frontier, domain)
                for expression, domain in zip(body.columns, self._domains, strict=True)
            ]
            self.relation.add(columns, frontier.rows)

        direct = DirectHead(body.columns, self._domains, self.relation, evaluator)
        if not direct.is_plain:
            return Sink(take)
        return Sink(take, direct=direct.take, shared=self.relation.packed() is not None)

    def flip(self) -> int:
        """Make what is new the delta."""
        return self.relation.flip()

    def finished(self, orders: Orders) -> StoredRelation:
        """The relation, once nothing changes any more; it has had its orders all along."""
        del orders
        return self.relation
