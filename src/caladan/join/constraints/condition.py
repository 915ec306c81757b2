"""Conditions: what only keeps or computes, once the variables it reads are bound.

NegatedAtom   keep the solutions for which a negated atom has no fact
Condition     keep the solutions for which a comparison holds
Assignment    a variable equals an expression: bind it
EquationConstraint   a condition that proposes as well, whatever it can be solved for

In a search a condition is `repeated`: where arithmetic fails for a row, the row stays, and the
condition is tested again behind the search.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from caladan.columns.domains import Domain, known_words
from caladan.columns.index import Index
from caladan.columns.layout import Counts, Mask
from caladan.columns.relation import StoredRelation
from caladan.join.arithmetic import Overflow
from caladan.join.constraints.protocol import BodyConstraint
from caladan.join.expressions import Evaluator
from caladan.join.frontier import Bindings
from caladan.program import Comparison, Expression
from caladan.program.kinds import Kind
from caladan.rules.body import Version, names


@dataclass(frozen=True, slots=True)
class NegatedAtom(BodyConstraint):
    """A negated atom; columns that match anything are not among the bound ones."""

    relation: StoredRelation
    bound: Mapping[int, str | int]
    name: str = "test"

    def __str__(self) -> str:
        return self.name

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        return frozenset(v for v in self.bound.values() if isinstance(v, str))

    def index(self) -> Index:
        """The relation by the bound columns."""
        return self.relation.index(tuple(self.bound), Version.FULL)

    def prepare(self) -> None:
        """Make the index."""
        self.index()

    def apply(self, frontier: Bindings) -> Bindings:
        """The solutions without a match."""
        if not self.bound:
            return frontier if not self.relation.count() else Bindings(0, {})
        index = self.index()
        words = {c: frontier.columns[v] if isinstance(v, str) else v for c, v in self.bound.items()}
        return frontier.where(~index.present(*index.key(words, frontier.rows)))


@dataclass(frozen=True, slots=True)
class Assignment(BodyConstraint):
    """A variable that is bound to an expression."""

    is_pure = False

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
class Condition(BodyConstraint):
    """A comparison."""

    evaluator: Evaluator
    comparison: Comparison
    is_repeated: bool = False

    def __str__(self) -> str:
        span = self.comparison.span
        return f"test of {', '.join(sorted(self.reads))}" if span is None else span.text

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        return names(self.comparison)

    def apply(self, frontier: Bindings) -> Bindings:
        """The solutions for which it holds; what is beyond 64 bits equals nothing that is known."""
        try:
            return frontier.where(self.evaluator.holds(self.comparison, frontier))
        except ArithmeticError as problem:
            if not isinstance(problem, Overflow) or self.comparison.operator != "=":
                if self.is_repeated:
                    return frontier
                raise
            sides = (self.comparison.left, self.comparison.right)
            return self.apply(_computable(self.evaluator, sides, frontier))


@dataclass(frozen=True, slots=True)
class EquationConstraint(BodyConstraint):
    """An equation: it proposes the one variable that is not bound, where it can be solved for it.

    A value that no fact has, or that leaves 64 bits, is nobody's.
    """

    is_pure = False

    test: Condition
    solutions: Mapping[str, Assignment]

    def __str__(self) -> str:
        return str(self.test)

    @property
    def reads(self) -> frozenset[str]:
        """The variables of both sides."""
        return self.test.reads

    def estimate(self, frontier: Bindings, var: str) -> Counts | None:
        """One, if the others are bound."""
        solution = self.solutions.get(var)
        return None if solution is None else solution.estimate(frontier, var)

    def propose(self, frontier: Bindings, var: str, counts: Counts) -> Iterator[Bindings]:
        """The value that makes it true, as far as can be told before it is tested."""
        del counts
        yield self.confirm(self.solutions[var].apply(frontier))

    def apply(self, frontier: Bindings) -> Bindings:
        """The rows for which it holds."""
        return self.test.apply(frontier)

    def influence(self, var: str) -> frozenset[str]:
        """Whatever it is solved for."""
        return frozenset(self.solutions) - {var} if var in self.variables else frozenset()


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
