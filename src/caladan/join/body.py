"""Bodies as joins take them: every variable of one kind of number.

An integer column that meets a variable of doubles (or the other way round) cannot share words with
it. It gets a variable of its own, and an equality that widens one into the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from caladan.analysis.core import RelationInfo
from caladan.columns.ranks import Kind, kind_of, kind_of_value
from caladan.program import (
    Arithmetic,
    Call,
    Conditional,
    Constant,
    Expression,
    Function,
    Negative,
    Type,
    Variable,
)
from caladan.rules.body import Binding, Body, Part, Scan


def separated(body: Body, relations: Mapping[str, RelationInfo]) -> Body:
    """The body with variables that have the kind of their columns, and what that has to equate."""
    types = dict(body.types)
    widenings: list[Binding] = []

    def own(part: Part) -> Part:
        if not isinstance(part, Scan):
            return part
        arguments = list(part.arguments)
        for i, name in mismatched(part, relations[part.relation], body.types).items():
            made = Variable(f"{name}#{len(widenings)}")
            types[made.name] = relations[part.relation].columns[i].type
            arguments[i] = made
            widenings.append(Binding(name, made, widens=True))
        return replace(part, arguments=tuple(arguments))

    found = body.changed(own)
    if not widenings:
        return body
    return replace(found, parts=(*found.parts, *widenings), types=types)


def kind_of_expression(expression: Expression, types: Mapping[str, Type]) -> Kind:
    """The kind of what an expression gives."""
    match expression:
        case Variable():
            return kind_of(types[expression.name])
        case Constant():
            return kind_of_value(expression.value)
        case Negative():
            return kind_of_expression(expression.operand, types)
        case Arithmetic(operator=operator, left=left, right=right):
            sides = [kind_of_expression(side, types) for side in (left, right)]
            return Kind.FLOAT if operator == "/" or Kind.FLOAT in sides else Kind.INTEGER
        case Function(returns=returns):
            return kind_of(returns)
        case Call(function=function):
            return Kind.INTEGER if function == "length" else Kind.STRING
        case Conditional(then=then, otherwise=otherwise):
            branches = [kind_of_expression(branch, types) for branch in (then, otherwise)]
            return Kind.FLOAT if Kind.FLOAT in branches else branches[0]
        case _:
            raise TypeError(f"not an expression of a body: {expression}")


def mismatched(scan: Scan, info: RelationInfo, types: Mapping[str, Type]) -> dict[int, str]:
    """The columns of an atom that meet a variable of another kind, with that variable."""
    return {
        i: argument.name
        for i, (argument, column) in enumerate(zip(scan.arguments, info.columns, strict=True))
        if isinstance(argument, Variable)
        and not argument.is_anonymous
        and kind_of(types[argument.name]) is not kind_of(column.type)
    }
