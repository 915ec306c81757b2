"""A condition as alternatives: a rule for each, whose literals must all hold.

AND and OR are multiplied out, NOT moves inwards. Where a view adds up, the alternatives exclude
each other, for a row that two of them derive would count twice: `a OR b` becomes `a` and `not a and
b`. That is right only if `a` is never NULL; of two such conditions either may be the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from math import prod
from typing import Final

from sqlglot import exp

from caladan.language.rasql.scope import refuse
from caladan.program.diagnostics import Span
from caladan.program.transform import ByIdentity

MOST: Final = 256  # alternatives; a condition with more is better said otherwise
MOST_LEAVES: Final = 2_000  # of alternatives that exclude each other: of n OR, n² / 2


@dataclass(frozen=True, slots=True)
class Leaf:
    """A condition without AND, OR and NOT, or the opposite of one."""

    node: exp.Expr
    negated: bool = False


Alternatives = list[list[Leaf]]


def alternatives(
    node: exp.Expr | None,
    span: Span | None,
    *,
    disjoint: bool,
    nullable: Callable[[exp.Expr], bool],
    is_listed: Callable[[exp.Expr, exp.Expr], bool] = lambda _, __: False,
) -> Alternatives:
    """The alternatives of a condition; none at all if it can never hold.

    `nullable` tells whether a condition without AND, OR and NOT may be NULL, `is_listed` whether
    an equality of two values can as well be said with IN.
    """
    if node is None:
        return [[]]
    try:
        return _Expansion(disjoint, nullable, is_listed).expand(node, False)
    except _TooManyError:
        refuse(
            f"the condition has more than {MOST} alternatives once OR is multiplied out"
            + (f", or {MOST_LEAVES} parts once they exclude each other" if disjoint else ""),
            span,
            "evaluate a part of it in a view",
        )


class _TooManyError(Exception):
    """More alternatives than MOST; found before they are multiplied out."""


@dataclass(frozen=True, slots=True)
class _Expansion:
    disjoint: bool
    nullable: Callable[[exp.Expr], bool]
    is_listed: Callable[[exp.Expr, exp.Expr], bool]
    known: ByIdentity[exp.Expr, bool] = field(default_factory=ByIdentity["exp.Expr", bool])

    def expand(self, node: exp.Expr, negated: bool) -> Alternatives:
        match node:
            case exp.Paren():
                return self.expand(node.this, negated)
            case exp.Not():
                return self.expand(node.this, not negated)
            case exp.Boolean():
                return [[]] if bool(node.this) != negated else []
            case exp.Or() if self.disjoint and (listed := self._listed(node)):
                return self.expand(listed, negated)
            case exp.And() | exp.Or():
                sides = (node.this, node.expression)
                if isinstance(node, exp.And) != negated:
                    return self._all([(side, negated) for side in sides])
                if self.disjoint:
                    sides = tuple(sorted(sides, key=self._may_be_null))
                    if self._may_be_null(sides[0]):
                        return [[Leaf(node, negated)]]
                return self._any([(side, negated) for side in sides])
            case exp.Between():
                low = exp.GTE(this=node.this, expression=node.args["low"])
                high = exp.LTE(this=node.this, expression=node.args["high"])
                return self.expand(exp.And(this=low, expression=high), negated)
            case exp.In() if node.expressions and not all(map(_is_value, node.expressions)):
                options: list[exp.Expr] = [
                    exp.EQ(this=node.this, expression=each) for each in node.expressions
                ]
                return self.expand(reduce(_or, options), negated)
            case _:
                return [[Leaf(node, negated)]]

    def _all(self, parts: Sequence[tuple[exp.Expr, bool]]) -> Alternatives:
        expanded = [self.expand(*part) for part in parts]
        _check(prod(map(len, expanded)))
        if self.disjoint and sum(len(w) for ways in expanded for w in ways) > MOST_LEAVES:
            raise _TooManyError
        return [[leaf for way in ways for leaf in way] for ways in product(*expanded)]

    def _any(self, parts: Sequence[tuple[exp.Expr, bool]]) -> Alternatives:
        if not self.disjoint:
            found = [self.expand(*part) for part in parts]
            _check(sum(map(len, found)))
            return [way for ways in found for way in ways]
        ways: Alternatives = []
        for i, part in enumerate(parts):
            before = [(node, not negated) for node, negated in parts[:i]]
            ways += self._all([*before, part])
            _check(len(ways))
            if sum(map(len, ways)) > MOST_LEAVES:
                raise _TooManyError
        return ways

    def _listed(self, node: exp.Or) -> exp.Expr | None:
        """`x = 1 OR x = 2 OR y` as `x IN (1, 2) OR y`, which has fewer parts; None as it is."""
        if isinstance(node.parent, exp.Or):
            return None  # it has been a part of one that was looked at
        sides = [side.unnest() for side in node.flatten()]
        found: dict[object, list[exp.Expr]] = {}
        for number, side in enumerate(sides):
            if isinstance(side, exp.EQ) and self.is_listed(side.this, side.expression):
                found.setdefault(side.this, []).append(side)
            else:
                found[number] = [side]
        if len(found) == len(sides):
            return None
        options = [
            exp.In(this=same[0].this, expressions=[side.expression for side in same])
            if len(same) > 1
            else same[0]
            for same in found.values()
        ]
        return reduce(_or, options)

    def _may_be_null(self, node: exp.Expr) -> bool:
        if node not in self.known:
            match node:
                case exp.Paren() | exp.Not():
                    found = self._may_be_null(node.this)
                case exp.And() | exp.Or():
                    found = self._may_be_null(node.this) or self._may_be_null(node.expression)
                case exp.Exists() | exp.Is() | exp.Boolean():
                    found = False
                case _:
                    found = self.nullable(node)
            self.known[node] = found
        return self.known[node]


def _check(count: int) -> None:
    if count > MOST:
        raise _TooManyError


def _or(one: exp.Expr, other: exp.Expr) -> exp.Expr:
    return exp.Or(this=one, expression=other)


def _is_value(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) or (
        isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal)
    )
