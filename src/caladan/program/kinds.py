"""Kinds: types whose values compare with each other, of columns, values and expressions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from caladan.program.functions import call_type
from caladan.program.nested import Packed
from caladan.program.program import (
    Arithmetic,
    Call,
    Conditional,
    Constant,
    Expression,
    Function,
    Negative,
    Variable,
)
from caladan.program.types import NAMES, Kind, Type

EXACT: Final = 1 << 53  # smaller integers are doubles


def kind_of(type: Type) -> Kind:
    """The kind of a type."""
    return type.kind


def type_of_kind(kind: Kind) -> Type:
    """The type in which values of a kind are computed with."""
    return _COMPUTED.get(kind) or NAMES[kind.value]


_COMPUTED: Final = {Kind.INTEGER: Type.LONG, Kind.FLOAT: Type.DOUBLE}


def kind_of_value(value: object) -> Kind:
    """The kind of a Python value."""
    if isinstance(value, bool):
        return Kind.BOOLEAN
    if isinstance(value, int):
        return Kind.INTEGER
    if isinstance(value, float):
        return Kind.FLOAT
    if isinstance(value, str):
        return Kind.STRING
    if isinstance(value, dt.date):
        return Kind.DATETIME if isinstance(value, dt.datetime) else Kind.DATE
    if isinstance(value, dt.timedelta):
        return Kind.INTERVAL
    if isinstance(value, Decimal):
        return Kind.DECIMAL
    if isinstance(value, Packed):
        return value.type.kind
    return Kind.BINARY if isinstance(value, bytes) else Kind.OBJECT


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
            type = call_type(expression, lambda each: type_of_kind(kind_of_expression(each, types)))
            assert type is not None, f"the analysis let {function} pass"
            return kind_of(type)
        case Conditional(then=then, otherwise=otherwise):
            branches = [kind_of_expression(branch, types) for branch in (then, otherwise)]
            return Kind.FLOAT if Kind.FLOAT in branches else branches[0]
        case _:
            raise TypeError(f"not an expression of a body: {expression}")
