"""Aggregates over a layout: by its tuples, without its facts.

The solutions of a body are a matrix over tuples (solutions.py). A group that reads one side of them
is counted by rows or by columns; amounts that read the other side are added up class by class, and
the least or largest is looked up for each row. Sums and products are taken apart, so that
`sum<B - A>` is the sum of B less so many times A, `sum<A * B>` is A times the sum of B, and
`min<A + B>` is A and the least B.

    count, sum, avg     of integers: amounts of a tuple that stand for many solutions
    min, max            the best of a row, or what a tuple has itself; of integers that add up, both
    countd              one for each group and each of the terms: rows that are added up
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np

from caladan.columns.domains import TextDomain
from caladan.columns.folded_relation import FoldedRelation, FoldedSide
from caladan.columns.layout import Counts, Words
from caladan.columns.matrices import Matrix
from caladan.columns.ranks import rank_floats
from caladan.fixpoint.groups import AggregateHead, Contribution
from caladan.fixpoint.shapes.conditions import factors, summands
from caladan.fixpoint.shapes.pairs import Declined, ShapeLimits, numbered
from caladan.fixpoint.shapes.solutions import BlockPart, SideTuples, Solutions, blocked
from caladan.join.arithmetic import ValueColumn
from caladan.program import Expression, Variable, thresholds
from caladan.program.kinds import EXACT, Kind
from caladan.rules.program import Contributors, DeltaRule

_FAR: Final = 1 << 62


def weigh(body: Solutions, head: AggregateHead, rule: DeltaRule, limits: ShapeLimits) -> int:
    """Give a rule's amounts to its groups; how many solutions there are.

    Declines where they have to be listed.
    """
    info, columns = head.info, rule.body.columns
    group = [columns[i] for i in info.group]
    try:
        if all(map(body.left.has, group)):
            weighed = _Weights(body, limits, is_first=True)
        elif all(map(body.right.has, group)):
            weighed = _Weights(body, limits, is_first=False)
        else:
            return _count_pairs(body, head, rule, limits)
        words = [
            body.evaluator.words(each, weighed.mine.bindings, head.domains[i])
            for i, each in zip(info.group, group, strict=True)
        ]
        amounts = {
            i: weighed.amounts(i, head, rule, words) for i, f in enumerate(info.aggregates) if f
        }
    except ArithmeticError:
        raise Declined("something in it cannot be computed for all values") from None
    some = np.flatnonzero(weighed.counts)
    if len(some):
        given = {i: replace(each, data=each.data[some]) for i, each in amounts.items()}
        of = [each[some] for each in words]
        head.take(Contribution(len(some), of, given, {}, weighed.counts[some]), {})
    return body.count()


class _Weights:
    """Solutions by the tuples of the side that groups read."""

    def __init__(self, body: Solutions, limits: ShapeLimits, *, is_first: bool) -> None:
        self._body = body
        self._limits = limits
        self._is_first = is_first
        sides = body.left, body.right
        self.mine, self._others = sides if is_first else sides[::-1]
        self.counts: Counts = np.zeros(self.mine.rows, np.int64)
        numbers, weights = body.relation.weighed(first=is_first)
        self.counts[numbers] = weights

    @cached_property
    def _matrix(self) -> Matrix:
        """The solutions, by row."""
        body = self._body
        if self._is_first:
            return body.matrix
        every = (np.arange(side.rows, dtype=np.uint32) for side in (body.left, body.right))
        part = BlockPart(body.matrix, *every, is_turned=True)
        return blocked([part], self.mine.rows, self._others.rows, self._limits)

    def amounts(
        self, column: int, head: AggregateHead, rule: DeltaRule, words: Sequence[Words]
    ) -> ValueColumn:
        """What each tuple adds to a column."""
        function, domain = head.info.aggregates[column], head.domains[column]
        expression = rule.body.columns[column]
        keyed = next((each for each in rule.contributors if each.column == column), None)
        if keyed is not None and function == "countd" and head.is_sole:
            return ValueColumn(Kind.INTEGER, self._distinct(words, keyed, rule))
        if keyed is not None:
            raise Declined("its contributors are told apart")
        if function == "count":
            return ValueColumn(Kind.INTEGER, self.counts)
        if function == "sum" and domain.kind is Kind.INTEGER:
            return ValueColumn(Kind.INTEGER, self._total(expression, _FAR))
        if function == "avg":
            return ValueColumn(Kind.INTEGER, self._total(expression, EXACT))
        text = isinstance(domain, TextDomain)
        if function in ("min", "max") and isinstance(expression, Variable) and not text:
            ranks = self._best(expression.name, smaller=function == "min")
            kind = self._body.evaluator.domain(expression.name).kind
            data = rank_floats(ranks) if kind is Kind.FLOAT else ranks
            return ValueColumn(kind, data).widened(domain.kind)
        if function in ("min", "max") and domain.kind is Kind.INTEGER:
            best = self._best_sum(expression, smaller=function == "min")
            return ValueColumn(Kind.INTEGER, best)
        raise Declined(f"{function} of it needs every solution")

    def _total(self, expression: Expression, below: int) -> Counts:
        """The sum of an expression over the solutions of each tuple."""
        found: Counts = np.zeros(self.mine.rows, np.int64)
        most = 0.0
        for sign, term in summands(expression, 1):
            mine, others = self._factors(term)
            many = self.counts if others is None else self._sums(others)
            if others is None:
                sizes = np.abs(mine.astype(np.float64) * self.counts)
            else:
                sizes = np.abs(mine.astype(np.float64)) * np.abs(others.astype(np.float64)).sum()
            most += float(sizes.max(initial=0))
            if most >= below:
                raise Declined("its sums are too large to be told apart by sides")
            found += sign * mine * many
        return found

    def _factors(self, term: Expression) -> tuple[Counts, Counts | None]:
        """What a product has of a tuple, and what of those that it goes with, if anything."""
        parts: list[list[Expression]] = [[], []]
        for factor in factors(term):
            if not self.mine.has(factor) and not self._others.has(factor):
                raise Declined("an amount is computed from both sides of a layout")
            parts[not self.mine.has(factor)].append(factor)
        mine, others = (
            self._product(part, side)
            for part, side in zip(parts, (self.mine, self._others), strict=True)
        )
        return mine, others if parts[1] else None

    def _product(self, parts: Sequence[Expression], side: SideTuples) -> Counts:
        found: Counts = np.ones(side.rows, np.int64)
        most = 1.0
        for part in parts:
            values = self._integers(part, side)
            most *= max(float(np.abs(values.astype(np.float64)).max(initial=0)), 1.0)
            if most >= _FAR:
                raise Declined("its sums are too large to be told apart by sides")
            found *= values
        return found

    def _integers(self, term: Expression, side: SideTuples) -> Counts:
        values = self._body.evaluator.values(term, side.bindings, None)
        if values.kind is not Kind.INTEGER:
            raise Declined("sums of it depend on the order of their amounts")
        return values.data

    def _sums(self, values: Counts) -> Counts:
        """For each tuple the sum of the values that the others it goes with have."""
        matrix = self._body.matrix
        mine, others = matrix.rows, matrix.columns
        halves = (matrix.extra >> np.uint64(32)).astype(np.uint32), matrix.extra.astype(np.uint32)
        if not self._is_first:
            mine, others, halves = others, mine, halves[::-1]
        members = np.concatenate([np.zeros(1, np.int64), np.cumsum(values[others.members])])
        prefix = members[others.bounds]
        if self._is_first:
            by_class = matrix.sums(prefix)
        else:
            every = np.arange(mine.count, dtype=np.uint32)
            by_class = matrix.column_weights(every, np.diff(prefix))
        padded = np.append(by_class, 0)
        found: Counts = padded[np.minimum(mine.class_of, np.uint32(mine.count))]
        np.add.at(found, halves[0], values[halves[1]])
        return found

    def _best(self, name: str, *, smaller: bool) -> Counts:
        """The least or largest rank of a variable, for tuples that have solutions."""
        domain = self._body.evaluator.domain(name)
        if name in self.mine.columns:
            return domain.ranks(self.mine.columns[name])
        return self._best_of(domain.ranks(self._others.columns[name]), smaller=smaller)

    def _best_of(self, values: Counts, *, smaller: bool) -> Counts:
        """The least or largest of the values that the others have."""
        relation = FoldedRelation(self._matrix, FoldedSide((0,)), FoldedSide((1,)))
        numbers, least = relation.best(values if smaller else ~values)
        found: Counts = np.zeros(self.mine.rows, np.int64)
        found[numbers] = least if smaller else ~least
        return found

    def _best_sum(self, expression: Expression, *, smaller: bool) -> Counts:
        """The least or largest of a sum whose terms are of one side each."""
        sides = self.mine, self._others
        sums: list[Counts] = [np.zeros(side.rows, np.int64) for side in sides]
        most = 0.0
        for sign, term in summands(expression, 1):
            at = 0 if self.mine.has(term) else 1
            if not sides[at].has(term):
                raise Declined("an amount is computed from both sides of a layout")
            values = self._integers(term, sides[at])
            most += float(np.abs(values.astype(np.float64)).max(initial=0))
            if most >= _FAR:
                raise Declined("its sums are too large to be told apart by sides")
            sums[at] += sign * values
        return sums[0] + self._best_of(sums[1], smaller=smaller)

    def _distinct(self, group: Sequence[Words], keyed: Contributors, rule: DeltaRule) -> Counts:
        """How many different terms a group has, said at the first tuple of it."""
        terms = rule.body.keys[keyed.start : keyed.end]
        if not all(isinstance(t, Variable) and t.name in self._others.columns for t in terms):
            raise Declined("it tells terms apart that are not of one side")
        given = tuple(self._others.columns[t.name] for t in terms if isinstance(t, Variable))
        rows, (to,) = numbered([tuple(group)], [self.mine.rows])
        columns, (at,) = numbered([given], [self._others.rows])
        matrix = blocked([BlockPart(self._matrix, to, at)], rows.size, columns.size, self._limits)
        relation = FoldedRelation(matrix, FoldedSide((0,)), FoldedSide((1,)))
        by_group: Counts = np.zeros(rows.size, np.int64)
        numbers, weights = relation.weighed(first=True)
        by_group[numbers] = weights
        found: Counts = np.zeros(self.mine.rows, np.int64)
        some = np.flatnonzero(self.counts)
        _, first = np.unique(to[some], return_index=True)
        found[some[first]] = by_group[to[some[first]]]
        return found


def _count_pairs(body: Solutions, head: AggregateHead, rule: DeltaRule, limits: ShapeLimits) -> int:
    """Count solutions by groups that read both sides: those of the one by those of the other."""
    info, columns = head.info, rule.body.columns
    if any(f not in (None, "count") for f in info.aggregates) or rule.contributors:
        raise Declined("its groups read both sides of a layout")
    words: list[list[Words]] = []
    parts: list[list[int]] = []
    for side, taken in ((body.left, False), (body.right, True)):
        mine = [i for i in info.group if (side.has(columns[i]) and not (taken and i in parts[0]))]
        parts.append(mine)
        words.append(
            [body.evaluator.words(columns[i], side.bindings, head.domains[i]) for i in mine]
        )
    if len(parts[0]) + len(parts[1]) < len(info.group):
        raise Declined("a group is computed from both sides of a layout")
    ids: list[Counts] = []
    firsts: list[Counts] = []
    for mine, side in zip(words, (body.left, body.right), strict=True):
        _, (numbers,) = numbered([tuple(mine)], [side.rows])
        _, first, group = np.unique(numbers, return_index=True, return_inverse=True)
        ids.append(group.astype(np.int64))
        firsts.append(first)
    width = len(firsts[1])
    if len(firsts[0]) * width > thresholds.now.shape_block:
        raise Declined("its groups read both sides of a layout, and are many")
    counts: Counts = np.zeros(len(firsts[0]) * width, np.int64)
    for first, second in body.matrix.blocks():
        limits.check()
        counts += np.bincount(ids[0][first] * width + ids[1][second], minlength=len(counts))
    some = np.flatnonzero(counts)
    picked = firsts[0][some // max(width, 1)], firsts[1][some % max(width, 1)]
    by_column = {
        i: each[at]
        for mine, given, at in zip(parts, words, picked, strict=True)
        for i, each in zip(mine, given, strict=True)
    }
    amounts = {
        i: ValueColumn(Kind.INTEGER, counts[some]) for i, f in enumerate(info.aggregates) if f
    }
    if len(some):
        head.take(Contribution(len(some), [by_column[i] for i in info.group], amounts, {}), {})
    return body.count()
