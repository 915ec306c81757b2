"""Aggregates over a layout: by its tuples, without its facts.

The solutions of a body are a matrix over tuples (solutions.py). A group that reads one side of them
is counted by rows or by columns; amounts that read the other side are added up class by class, and
the least or largest is looked up for each row. Sums and products are taken apart, so that
`sum<B - A>` is the sum of B less so many times A, `sum<A * B>` is A times the sum of B, and
`min<A + B>` is A and the least B.

    count, sum, avg     of integers: amounts of a tuple that stand for many solutions; of doubles
                        of one side, digit by digit
    min, max            the best of a row, or what a tuple has itself; of integers that add up, both
    countd              one for each group and each of the terms: rows that are added up

Groups that read both sides are told apart by one of them first; those of a sum, such as B - A, are
counted place by place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np

from caladan.columns.domains import TextDomain
from caladan.columns.folded_relation import FoldedRelation, FoldedSide
from caladan.columns.kernels.ranges import tally
from caladan.columns.layout import Counts, Words
from caladan.columns.matrices import Matrix
from caladan.columns.ranks import rank_floats
from caladan.fixpoint.groups import AggregateHead, Contribution
from caladan.fixpoint.shapes.comparisons import factors, summands
from caladan.fixpoint.shapes.digits import Floats, digits
from caladan.fixpoint.shapes.pairs import Declined, ShapeLimits, number_tuples
from caladan.fixpoint.shapes.solutions import BlockPart, SideTuples, Solutions, add_blocks
from caladan.join.arithmetic import ValueColumn
from caladan.program import Arithmetic, Constant, Expression, Variable, thresholds
from caladan.program.kinds import EXACT, Kind
from caladan.rules.program import Contributors, DeltaRule

_FAR: Final = 1 << 62


def weigh(body: Solutions, head: AggregateHead, rule: DeltaRule, limits: ShapeLimits) -> int:
    """Give a rule's amounts to its groups; how many solutions there are.

    Declines where they have to be listed.
    """
    group = {i: rule.body.columns[i] for i in head.info.group}
    on_left = [i for i, each in group.items() if body.left.has(each)]
    others = [i for i in group if i not in on_left]
    try:
        if not others or all(map(body.right.has, group.values())):
            whole = _Weights(body, head, rule, limits, is_first=not others)
            found = [whole.contribution()]
        elif not all(body.right.has(group[i]) for i in others):
            found = [_by_sum(body, head, rule, limits)]
        else:
            parts = _by_kind(body, head, rule, limits, on_left, others)
            found = [part.contribution() for part in parts]
    except ArithmeticError:
        raise Declined("something in it cannot be computed for all values") from None
    for each in found:
        if each.rows:
            head.take(each, {})
    return body.count()


def _by_kind(
    body: Solutions,
    head: AggregateHead,
    rule: DeltaRule,
    limits: ShapeLimits,
    on_left: Sequence[int],
    on_right: Sequence[int],
) -> Iterator[_Weights]:
    """Solutions by groups that read both sides: one kind of tuples of a side after the other.

    Kinds are those of the side that has fewer; what there is to do for one of them is to go through
    the matrix.
    """
    kinds: list[tuple[list[Words], Counts, Words]] = []
    for columns, side in ((on_left, body.left), (on_right, body.right)):
        words = [
            body.evaluator.words(rule.body.columns[i], side.bindings, head.domains[i])
            for i in columns
        ]
        _, (numbers,) = number_tuples([tuple(words)], [side.rows])
        _, first, kind = np.unique(numbers, return_index=True, return_inverse=True)
        kinds.append((words, first, kind.astype(np.uint32)))
    is_first = len(kinds[1][1]) <= len(kinds[0][1])
    words, firsts, kind = kinds[is_first]
    if len(firsts) * body.matrix.nbytes > thresholds.now.shape_split * body.count():
        raise Declined("its groups read both sides of a layout, and are many")
    for number, first in enumerate(firsts):
        limits.check()
        part = body.part(kind == number, first=not is_first)
        fixed = {
            i: int(each[first])
            for i, each in zip(on_right if is_first else on_left, words, strict=True)
        }
        yield _Weights(part, head, rule, limits, is_first=is_first, fixed=fixed)


def _by_sum(
    body: Solutions, head: AggregateHead, rule: DeltaRule, limits: ShapeLimits
) -> Contribution:
    """Solutions by a sum of what both sides have, such as B - A, or by the rest of a division."""
    (column, *others) = head.info.group
    if others or rule.contributors:
        raise Declined("a group is computed from both sides of a layout")
    weights = _Weights(body, head, rule, limits, is_first=True)
    mine, others, divisor = weights.sides(rule.body.columns[column])
    shift = int(mine.min(initial=0)) + int(others.min(initial=0))
    size = int(mine.max(initial=0)) + int(others.max(initial=0)) - shift + 1
    places = mine - mine.min(initial=0), others - others.min(initial=0)
    if size > thresholds.now.shape_block or (divisor is not None and shift < 0):
        raise Declined("a group is computed from both sides of a layout, and there may be many")

    def by_group(one: Counts | None, other: Counts | None) -> Counts:
        found: Counts = np.zeros(size, np.int64)
        left = np.ones(len(places[0]), np.int64) if one is None else one
        right = np.ones(len(places[1]), np.int64) if other is None else other
        for first, second in body.matrix.blocks():
            limits.check()
            tally(first, second, *places, left, right, found)
        return found

    counts = by_group(None, None)
    amounts: dict[int, ValueColumn] = {}
    for i, function in enumerate(head.info.aggregates):
        if function is None:
            continue
        if function.parts == ("count",):
            amounts[i] = ValueColumn(Kind.INTEGER, counts)
        else:
            if "sum" not in function.parts:
                raise Declined("a group is computed from both sides of a layout")
            total: Counts = np.zeros(size, np.int64)
            below = EXACT if function.is_mean else _FAR
            for sign, one, other in weights.products(rule.body.columns[i], below):
                total += sign * by_group(one, other)
            amounts[i] = ValueColumn(Kind.INTEGER, total)
    some = np.flatnonzero(counts)
    values = some + shift if divisor is None else (some + shift) % divisor
    given = {i: replace(each, data=each.data[some]) for i, each in amounts.items()}
    words = head.domains[column].words(values)
    return Contribution(len(some), [words], given, {}, counts[some])


class _Weights:
    """Solutions by the tuples of the side that groups read."""

    def __init__(
        self,
        body: Solutions,
        head: AggregateHead,
        rule: DeltaRule,
        limits: ShapeLimits,
        *,
        is_first: bool,
        fixed: Mapping[int, int] | None = None,
    ) -> None:
        self._head = head
        self._body = body
        self._rule = rule
        self._limits = limits
        self._is_first = is_first
        self._fixed = fixed or {}  # words of the group that all solutions have
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
        return add_blocks([part], self.mine.rows, self._others.rows, self._limits)

    def contribution(self) -> Contribution:
        """What tuples give to their groups."""
        info = self._head.info
        words = [self._group_words(i) for i in info.group]
        amounts = {i: self._amounts(i, words) for i, f in enumerate(info.aggregates) if f}
        some = np.flatnonzero(self.counts)
        given = {i: replace(each, data=each.data[some]) for i, each in amounts.items()}
        return Contribution(len(some), [each[some] for each in words], given, {}, self.counts[some])

    def _group_words(self, column: int) -> Words:
        """A column of the group, for each tuple."""
        if column in self._fixed:
            return np.full(self.mine.rows, self._fixed[column], np.uint32)
        expression, domain = self._rule.body.columns[column], self._head.domains[column]
        return self._body.evaluator.words(expression, self.mine.bindings, domain)

    def _amounts(self, column: int, words: Sequence[Words]) -> ValueColumn:
        """What each tuple adds to a column; `words` are those of its group."""
        head, rule = self._head, self._rule
        function, domain = head.info.aggregates[column], head.domains[column]
        expression = rule.body.columns[column]
        keyed = next((each for each in rule.contributors if each.column == column), None)
        assert function is not None
        if keyed is not None and function.counts == "terms" and head.is_sole:
            return ValueColumn(Kind.INTEGER, self._distinct(words, keyed, rule))
        if keyed is not None:
            raise Declined("its contributors are told apart")
        if function.parts == ("count",):
            return ValueColumn(Kind.INTEGER, self.counts)
        if function.parts == ("sum",) and domain.kind is Kind.INTEGER:
            return ValueColumn(Kind.INTEGER, self._total(expression, _FAR))
        if "sum" in function.parts and self._is_float(expression):
            return ValueColumn(Kind.FLOAT, self._float_total(expression, words))
        if function.is_mean:
            return ValueColumn(Kind.INTEGER, self._total(expression, EXACT))
        text = isinstance(domain, TextDomain)
        is_best = function.is_best and bool(function.parts)
        if is_best and isinstance(expression, Variable) and not text:
            ranks = self._best(expression.name, smaller=function.is_least)
            kind = self._body.evaluator.domain(expression.name).kind
            data = rank_floats(ranks) if kind is Kind.FLOAT else ranks
            return ValueColumn(kind, data).widened(domain.kind)
        if is_best and domain.kind is Kind.INTEGER:
            best = self._best_sum(expression, smaller=function.is_least)
            return ValueColumn(Kind.INTEGER, best)
        raise Declined(f"{function} of it needs every solution")

    def _total(self, expression: Expression, below: int) -> Counts:
        """The sum of an expression over the solutions of each tuple."""
        found: Counts = np.zeros(self.mine.rows, np.int64)
        for sign, mine, others in self.products(expression, below):
            found += sign * mine * (self.counts if others is None else self._sums(others))
        return found

    def products(
        self, expression: Expression, below: int
    ) -> Iterator[tuple[int, Counts, Counts | None]]:
        """What is added up: signs, and what tuples of both sides have, to be multiplied."""
        most = 0.0
        for sign, term in summands(expression, 1):
            mine, others = self._factors(term)
            if others is None:
                sizes = np.abs(mine.astype(np.float64) * self.counts)
            else:
                sizes = np.abs(mine.astype(np.float64)) * np.abs(others.astype(np.float64)).sum()
            most += float(sizes.max(initial=0))
            if most >= below:
                raise Declined("its sums are too large to be told apart by sides")
            yield sign, mine, others

    def sides(self, expression: Expression) -> tuple[Counts, Counts, int | None]:
        """What a sum has of either side, and what it is divided by if the rest is asked for."""
        divisor: int | None = None
        if isinstance(expression, Arithmetic) and expression.operator == "mod":
            by = expression.right
            if isinstance(by, Constant) and isinstance(by.value, int) and by.value > 0:
                expression, divisor = expression.left, by.value
        return *self._parted(expression), divisor

    def _is_float(self, expression: Expression) -> bool:
        """Whether it is a double of one side."""
        side = self.mine if self.mine.has(expression) else self._others
        if not side.has(expression):
            return False
        return self._body.evaluator.values(expression, side.bindings, None).kind is Kind.FLOAT

    def _float_total(self, expression: Expression, group: Sequence[Words]) -> Floats:
        """The sum of doubles for each group, rounded once, said at the first tuple of it."""
        side = self.mine if self.mine.has(expression) else self._others
        parts = digits(self._body.evaluator.values(expression, side.bindings, None).data)
        if not self._head.is_sole or parts is None or self._body.count() >> 36:
            raise Declined("sums of it depend on the order of their amounts")
        place, (to,) = number_tuples([tuple(group)], [self.mine.rows])
        sums: list[Counts] = []
        for part in parts.parts:
            mine = self._sums(part) if side is self._others else part * self.counts
            sums.append(np.zeros(place.size, np.int64))
            np.add.at(sums[-1], to, mine)
        found: Floats = np.zeros(self.mine.rows, np.float64)
        some = np.flatnonzero(self.counts)
        groups, at = np.unique(to[some], return_index=True)
        found[some[at]] = parts.rounded([each[groups] for each in sums])
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
        mine, others = self._parted(expression)
        return mine + self._best_of(others, smaller=smaller)

    def _parted(self, expression: Expression) -> tuple[Counts, Counts]:
        """A sum whose terms are of one side each: what either side adds to it."""
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
        return sums[0], sums[1]

    def _distinct(self, group: Sequence[Words], keyed: Contributors, rule: DeltaRule) -> Counts:
        """How many different terms a group has, said at the first tuple of it."""
        terms = rule.body.keys[keyed.start : keyed.end]
        if not all(isinstance(t, Variable) and t.name in self._others.columns for t in terms):
            raise Declined("it tells terms apart that are not of one side")
        given = tuple(self._others.columns[t.name] for t in terms if isinstance(t, Variable))
        rows, (to,) = number_tuples([tuple(group)], [self.mine.rows])
        columns, (at,) = number_tuples([given], [self._others.rows])
        matrix = add_blocks(
            [BlockPart(self._matrix, to, at)], rows.size, columns.size, self._limits
        )
        relation = FoldedRelation(matrix, FoldedSide((0,)), FoldedSide((1,)))
        by_group: Counts = np.zeros(rows.size, np.int64)
        numbers, weights = relation.weighed(first=True)
        by_group[numbers] = weights
        found: Counts = np.zeros(self.mine.rows, np.int64)
        some = np.flatnonzero(self.counts)
        _, first = np.unique(to[some], return_index=True)
        found[some[first]] = by_group[to[some[first]]]
        return found
