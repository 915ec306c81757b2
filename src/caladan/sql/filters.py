"""The conditions of a WHERE that rules can say: comparisons of whole numbers, or of a text with one
that is written out, about the columns of one recursive view and nothing else.

`filters` finds them, each with its literals, with the help of `Sayable`, which knows what rules can
say of a view; `without` takes one out of its query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from caladan.language.rasql.conditions import alternatives
from caladan.language.rasql.expressions import COMPARISONS, ValueTranslator
from caladan.language.rasql.scope import KnownTable, Unsupported
from caladan.program import Comparison, Expression, Type, Variable
from caladan.program.diagnostics import SourceText

_COMPARISONS: Final = frozenset(each for each in COMPARISONS if each is not exp.NullSafeEQ)


@dataclass(frozen=True, slots=True)
class SayableTest:
    """A condition of a query, and the literals that say the same."""

    node: exp.Expr
    literals: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class Sayable:
    """What rules can say of a view; `own` tells which of its columns a node is."""

    known: KnownTable
    own: Callable[[exp.Expr | None], int | None]
    variables: Sequence[Variable]
    source: SourceText

    @property
    def values(self) -> ValueTranslator:
        """Translates what is sayable."""
        return ValueTranslator(self.source, self._variable, lambda _: None)

    def _variable(self, column: exp.Column) -> Expression:
        place = self.own(column)
        assert place is not None
        return self.variables[place]

    def condition(self, node: exp.Expr) -> bool:
        """Whether rules can say a condition."""
        match node:
            case exp.Paren() | exp.Not():
                return self.condition(node.this)
            case exp.And() | exp.Or():
                return self.condition(node.this) and self.condition(node.expression)
            case exp.Between():
                sides = [node.this, node.args["low"], node.args["high"]]
            case _ if type(node) in _COMPARISONS:
                sides = [node.this, node.expression]
            case _:
                return False
        return any(side.find(exp.Column) for side in sides) and (
            all(map(self.whole, sides)) or all(map(self._text, sides))
        )

    def whole(self, node: exp.Expr) -> bool:
        """Whether a node is made of whole numbers."""
        match node:
            case exp.Column():
                type = self._type(node)
                return type is not None and type.is_integral
            case exp.Literal():
                return not node.is_string and str(node.this).isdigit() and int(node.this) < 2**31
            case exp.Neg() | exp.Paren():
                return self.whole(node.this)
            case exp.Add() | exp.Sub() | exp.Mul():
                return self.whole(node.this) and self.whole(node.expression)
            case _:
                return False

    def _text(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Literal):
            return node.is_string
        return self._type(node) is Type.STRING

    def _type(self, node: exp.Expr) -> Type | None:
        place = self.own(node)
        return None if place is None else self.known.columns[place].type


def filters(where: exp.Where | None, sayable: Sayable) -> Iterator[SayableTest]:
    """The conditions that rules can say of a view."""
    for node in conjuncts(where.this) if where is not None else ():
        if not sayable.condition(node):
            continue
        ways = alternatives(node, None, disjoint=False, nullable=lambda _: False)
        if len(ways) != 1:
            continue  # rules on top of a view that is not listed have no alternatives
        try:
            found = [sayable.values.comparison(leaf) for leaf in ways[0]]
        except Unsupported:
            continue
        yield SayableTest(node, tuple(each for each in found if each is not None))


def without(node: exp.Expr) -> None:
    """Take a condition out of the WHERE that it is a part of."""
    around = node.parent
    if isinstance(around, exp.And):
        around.replace(around.expression if node is around.this else around.this)
    elif isinstance(around, exp.Where):
        assert around.parent is not None
        around.parent.set("where", None)


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that AND combines."""
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node
