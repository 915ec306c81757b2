"""What the variables of a body are: one kind of value each.

The kind comes from the columns a variable stands in, from what was given for it, or from an
equation; integers that meet doubles are widened. Relations and arguments are checked first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from caladan.columns.ranks import Kind, kind_of_value
from caladan.join.constraint import Var
from caladan.join.search.library import Library
from caladan.program import (
    Arithmetic,
    Comparison,
    Constant,
    Expression,
    Literal,
    Negative,
    Variable,
    atoms,
    variables,
)
from caladan.program.diagnostics import Diagnostics, did_you_mean, error
from caladan.program.transform import walk

NUMBERS: Final = (Kind.INTEGER, Kind.FLOAT)
_COMPARE_AS_NUMBERS: Final = (*NUMBERS, Kind.DECIMAL)
_TIMES: Final = (Kind.DATE, Kind.DATETIME)


def check(body: Sequence[Literal], library: Library) -> None:
    """Relations must be known, and have as many columns as arguments."""
    found = Diagnostics()
    for literal in atoms(body):
        name = literal.relation
        if name not in library:
            near = did_you_mean(name, library.names)
            known = ", ".join(f"`{n}`" for n in sorted(library.names)) or "none"
            found.add("C010", f"there is no relation `{name}`", literal.span,
                      help=near or f"there are {known}")  # fmt: skip
        elif len(library.kinds(name)) != len(literal.arguments):
            columns, given = len(library.kinds(name)), len(literal.arguments)
            found.add("C011", f"`{name}` has {columns} columns, not {given}", literal.span)
    found.raise_errors()


def kinds_of(
    body: Sequence[Literal], library: Library, given: Mapping[Var, Kind]
) -> dict[Var, Kind]:
    """The kind of every variable: from columns, from what was given for it, from equations."""
    kinds: dict[Var, Kind] = {}
    for literal in atoms(body):
        columns = zip(literal.arguments, library.kinds(literal.relation), strict=True)
        for argument, kind in columns:
            if isinstance(argument, Variable) and not argument.is_anonymous:
                kinds[argument.name] = _joined(kinds.get(argument.name), kind, argument)
    for name, kind in given.items():
        kinds.setdefault(name, kind)
    for _ in range(len(body) + 1):  # an equation may give a kind to the next
        for comparison in (each for each in walk(*body) if isinstance(each, Comparison)):
            sides = (comparison.left, comparison.right)
            for side, other in (sides, sides[::-1]):
                if isinstance(side, Variable) and side.name not in kinds:
                    kind = kind_of(other, kinds)
                    if kind is not None:
                        kinds[side.name] = kind
    for name in names_of(body):
        kinds.setdefault(name, Kind.INTEGER)
    return kinds


def listed_variables(body: Sequence[Literal]) -> frozenset[Var]:
    """The variables of positive atoms."""
    return frozenset(
        a.name for each in atoms(body) if not each.negated for a in each.arguments
        if isinstance(a, Variable)
    )  # fmt: skip


def names_of(body: Sequence[Literal]) -> frozenset[Var]:
    """The variables of a body, those of alternatives included."""
    return frozenset(v.name for v in variables(*body) if not v.is_anonymous)


def kind_of(expression: Expression, kinds: Mapping[Var, Kind]) -> Kind | None:
    """The kind of an expression's value, if it can be told yet."""
    match expression:
        case Variable():
            return kinds.get(expression.name)
        case Constant():
            return kind_of_value(expression.value)
        case Negative():
            return _number(kind_of(expression.operand, kinds), expression)
        case Arithmetic():
            left = _number(kind_of(expression.left, kinds), expression)
            right = _number(kind_of(expression.right, kinds), expression)
            if left is None or right is None:
                return left or right
            return Kind.FLOAT if Kind.FLOAT in (left, right) else Kind.INTEGER
        case _:
            return None


def compares(left: Kind | None, right: Kind | None) -> bool:
    """Whether values of two kinds can be compared; Python decides about objects."""
    alike = any(left in kinds and right in kinds for kinds in (_COMPARE_AS_NUMBERS, _TIMES))
    return left is right or alike or Kind.OBJECT in (left, right)


def _number(kind: Kind | None, expression: Expression) -> Kind | None:
    if kind is not None and kind not in NUMBERS:
        raise error("C012", f"cannot calculate with a {kind.value}", expression.span)
    return kind


def _joined(known: Kind | None, kind: Kind, variable: Variable) -> Kind:
    if known is None or known is kind:
        return kind
    if known in NUMBERS and kind in NUMBERS:
        return Kind.FLOAT
    if known in _TIMES and kind in _TIMES:
        return Kind.DATETIME
    if Kind.OBJECT in (known, kind):
        return Kind.OBJECT
    raise error(
        "C012",
        f"`{variable.name}` is a {known.value} in one column and a {kind.value} in another",
        variable.span,
    )
