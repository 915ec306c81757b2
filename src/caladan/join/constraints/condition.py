"""Conditions: what only keeps or computes, once the variables it reads are bound.

AbsentStep   keep the solutions for which a negated atom has no fact
BindStep     a variable equals an expression: bind it
TestStep     keep the solutions for which a comparison holds
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from caladan.columns.domains import Domain, known_words
from caladan.columns.index import Index
from caladan.columns.layout import Mask
from caladan.columns.relation import StoredRelation
from caladan.join.arithmetic import Overflow
from caladan.join.expressions import Evaluator
from caladan.join.frontier import Bindings
from caladan.program import Comparison, Expression
from caladan.program.kinds import Kind
from caladan.rules.body import Version, names


@dataclass(frozen=True, slots=True)
class AbsentStep:
    """A negated atom; columns that match anything are not among the bound ones."""

    relation: StoredRelation
    bound: Mapping[int, str | int]

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        return frozenset(v for v in self.bound.values() if isinstance(v, str))

    @property
    def binds(self) -> frozenset[str]:
        """None."""
        return frozenset()

    def index(self) -> Index:
        """The relation by the bound columns."""
        return self.relation.index(tuple(self.bound), Version.FULL)

    def apply(self, frontier: Bindings) -> Bindings:
        """The solutions without a match."""
        if not self.bound:
            return frontier if not self.relation.count() else Bindings(0, {})
        index = self.index()
        words = {c: frontier.columns[v] if isinstance(v, str) else v for c, v in self.bound.items()}
        return frontier.where(~index.present(*index.key(words, frontier.rows)))


@dataclass(frozen=True, slots=True)
class BindStep:
    """A variable that is bound to an expression."""

    evaluator: Evaluator
    variable: str
    expression: Expression
    domain: Domain
    solved: bool

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        return names(self.expression)

    @property
    def binds(self) -> frozenset[str]:
        """The one it binds."""
        return frozenset((self.variable,))

    def apply(self, frontier: Bindings) -> Bindings:
        """The solutions with one more variable; what is looked for must be a known value."""
        try:
            if self.solved and self.domain.kind is Kind.INTEGER and not self.domain.grows:
                values = self.evaluator.values(self.expression, frontier, self.domain)
                words, known = known_words(self.domain, values.widened(self.domain.kind).ranks)
                longer = {**frontier.columns, self.variable: words}
                return Bindings(frontier.rows, longer).where(known)
            words = self.evaluator.words(self.expression, frontier, self.domain)
        except Overflow:
            if not self.solved:
                raise
            return self.apply(_computable(self.evaluator, (self.expression,), frontier))
        return Bindings(frontier.rows, {**frontier.columns, self.variable: words})


@dataclass(frozen=True, slots=True)
class TestStep:
    """A comparison."""

    evaluator: Evaluator
    comparison: Comparison

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        return names(self.comparison)

    @property
    def binds(self) -> frozenset[str]:
        """None."""
        return frozenset()

    def apply(self, frontier: Bindings) -> Bindings:
        """The solutions for which it holds; what is beyond 64 bits equals nothing that is known."""
        try:
            return frontier.where(self.evaluator.holds(self.comparison, frontier))
        except Overflow:
            if self.comparison.operator != "=":
                raise
            sides = (self.comparison.left, self.comparison.right)
            return self.apply(_computable(self.evaluator, sides, frontier))


def _computable(
    evaluator: Evaluator, expressions: Sequence[Expression], frontier: Bindings
) -> Bindings:
    """The rows whose values fit, one by one: it is about a few at the end of the range."""
    good: Mask = np.ones(frontier.rows, np.bool_)
    reads = names(*expressions)
    for row in range(frontier.rows):
        one = Bindings(1, frontier.at(np.array([row], np.uint32), reads))
        try:
            for expression in expressions:
                evaluator.values(expression, one, None)
        except Overflow:
            good[row] = False
    return frontier.where(good)
