"""The head of a relation with aggregates: groups, and what their columns add up to.

Every solution gives its amounts to its group, through an accumulator for each aggregate column.
After a round, the groups whose values changed are the delta; within the round nobody sees them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from caladan.analysis.core import RelationInfo
from caladan.columns.domains import Domain
from caladan.columns.interner import Tuples
from caladan.columns.layout import Counts, Mask, Words
from caladan.columns.ranks import Kind, rank_floats
from caladan.columns.relation import StoredRelation
from caladan.columns.rows import GroupRelation
from caladan.delta.program import DeltaRule
from caladan.engines.embedded.accumulators import TOTALS, accumulator
from caladan.engines.embedded.expressions import Evaluator, Values
from caladan.engines.embedded.frontier import Frontier
from caladan.engines.embedded.plans import RulePlan
from caladan.engines.embedded.walk import Sink
from caladan.program import Aggregate, Expression


class AggregateHead:
    """A relation with aggregates."""

    def __init__(self, info: RelationInfo, domains: Sequence[Domain]) -> None:
        self._info = info
        self._domains = tuple(domains)
        self._group = info.group
        self._tuples = Tuples(len(info.group))
        self._groups: list[list[Words]] = [[] for _ in info.group]  # of groups new in this round
        self._new = 0
        self._touched: list[Counts] = []
        self._columns = {
            i: accumulator(function, domains[i].kind)
            for i, function in enumerate(info.aggregates)
            if function is not None
        }
        self.relation = StoredRelation.of_groups(domains, info.group)

    def give(self, columns: Sequence[Words], rows: int) -> None:
        """Facts that are there from the start; their values count as amounts."""
        groups = self._numbers([columns[i] for i in self._group], rows)
        for i, column in self._columns.items():
            domain = self._domains[i]
            ranks = domain.ranks(columns[i])
            data = rank_floats(ranks) if domain.kind is Kind.FLOAT else ranks
            column.add(groups, Values(domain.kind, data))

    def sink(self, rule: DeltaRule, plan: RulePlan, keys: Sequence[Domain]) -> Sink:
        """Where the solutions of a rule go."""
        body, evaluator = plan.body, plan.evaluator
        places = {each.column: each for each in rule.contributors}

        def take(frontier: Frontier) -> None:
            group = [
                evaluator.words(body.columns[i], frontier, self._domains[i]) for i in self._group
            ]
            numbers = self._numbers(group, frontier.rows)
            for i, column in self._columns.items():
                amounts = self._amounts(evaluator, body.columns[i], frontier, i)
                if (where := places.get(i)) is not None:
                    key = [
                        evaluator.words(body.keys[k], frontier, keys[k])
                        for k in range(where.start, where.end)
                    ]
                    column.place(numbers, amounts, where.place, tuple(key))
                elif rule.seed is not None and not isinstance(rule.rule.arguments[i], Aggregate):
                    # A plain amount inside recursion is derived again and again; it counts once.
                    word = evaluator.words(body.columns[i], frontier, self._domains[i])
                    column.place(numbers, amounts, f"{i}: amounts", (word,))
                else:
                    column.add(numbers, amounts)

        return Sink(take)

    def flip(self) -> int:
        """Give the groups that changed their new values, and make them the delta."""
        body = self.relation.body
        assert isinstance(body, GroupRelation)
        before = body.count()
        self._add_empty(before)
        if self._new:
            words = [np.concatenate(parts) for parts in self._groups]
            body.extend(words, self._new)
            self._groups = [[] for _ in self._group]
            self._new = 0
        if not self._touched:
            return 0
        touched: Counts = np.unique(np.concatenate(self._touched))
        self._touched = []
        changed: Mask = touched >= before
        values: dict[int, Words] = {}
        for i, column in self._columns.items():
            values[i] = self._domains[i].words(column.ranks(touched))
            changed |= values[i] != body.words(i, touched.astype(np.uint32))
        body.change(touched[changed], {i: words[changed] for i, words in values.items()})
        return body.flip()

    def finished(self) -> StoredRelation:
        """The relation with its final values, packed like any other."""
        relation = StoredRelation(self._domains)
        for block in self.relation.blocks():
            relation.add(block, len(block[0]) if block else 1)
        relation.flip()
        relation.commit()
        return relation

    def _numbers(self, group: Sequence[Words], rows: int) -> Counts:
        """The numbers of groups; room is made for new ones."""
        ids, fresh = self._tuples.ids(group, rows)
        if len(fresh):
            for parts, words in zip(self._groups, group, strict=True):
                parts.append(words[fresh])
            self._new += len(fresh)
            for column in self._columns.values():
                column.grow(len(self._tuples))
        numbers = ids.astype(np.int64)
        self._touched.append(np.unique(numbers))
        return numbers

    def _amounts(
        self, evaluator: Evaluator, expression: Expression, frontier: Frontier, column: int
    ) -> Values:
        domain = self._domains[column]
        text = domain if domain.kind is Kind.STRING else None
        values = evaluator.values(expression, frontier, text)
        return values if self._info.aggregates[column] == "avg" else values.widened(domain.kind)

    def _add_empty(self, before: int) -> None:
        """A count or sum over nothing that has no group columns is 0."""
        if before or self._new or self._group:
            return
        if all(function in TOTALS for function in self._info.aggregates):
            self._numbers([], 1)
