"""A condition as alternatives: a rule for each, whose literals must all hold.

AND and OR are multiplied out, NOT moves inwards. Where a view adds up, the alternatives exclude
each other, for a row that two of them derive would count twice: `a OR b` becomes `a` and `not a and
b`. That is right only if `a` is never NULL; of two such conditions either may be the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from typing import Final

from sqlglot import exp

from caladan.language.rasql.scope import unsupported
from caladan.program.diagnostics import Span

MOST: Final = 256  # alternatives; a condition with more is better said otherwise


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
) -> Alternatives:
    """The alternatives of a condition; none at all if it can never hold.

    `nullable` tells whether a condition without AND, OR and NOT may be NULL.
    """
    if node is None:
        return [[]]
    try:
        return _Expansion(disjoint, nullable).expand(node, False)
    except _TooManyError:
        unsupported(
            f"the condition has more than {MOST} alternatives once OR is multiplied out",
            span,
            "evaluate a part of it in a view",
        )


class _TooManyError(Exception):
    """More alternatives than MOST; found before they are multiplied out."""


@dataclass(frozen=True, slots=True)
class _Expansion:
    disjoint: bool
    nullable: Callable[[exp.Expr], bool]

    def expand(self, node: exp.Expr, negated: bool) -> Alternatives:
        match node:
            case exp.Paren():
                return self.expand(node.this, negated)
            case exp.Not():
                return self.expand(node.this, not negated)
            case exp.Boolean():
                return [[]] if bool(node.this) != negated else []
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
        return ways

    def _may_be_null(self, node: exp.Expr) -> bool:
        match node:
            case exp.Paren() | exp.Not():
                return self._may_be_null(node.this)
            case exp.And() | exp.Or():
                return self._may_be_null(node.this) or self._may_be_null(node.expression)
            case exp.Exists() | exp.Is() | exp.Boolean():
                return False
            case _:
                return self.nullable(node)


def _check(count: int) -> None:
    if count > MOST:
        raise _TooManyError


def _or(one: exp.Expr, other: exp.Expr) -> exp.Expr:
    return exp.Or(this=one, expression=other)


def _is_value(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) or (
        isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal)
    )
