"""The type of an expression, and which types go together.

Whole numbers are evaluated with 64 bits, so arithmetic on them gives `long`; `/` always gives
`double`. Whole numbers widen to `double` where they meet one in arithmetic, in a comparison or in a
head column; variables of two atoms must agree without widening, for a join compares exactly.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from caladan.program import (
    Aggregate,
    Arithmetic,
    Call,
    Conditional,
    Constant,
    Expression,
    Function,
    Negative,
    Object,
    Parameter,
    Type,
    Value,
    Variable,
)
from caladan.program.diagnostics import Span
from caladan.program.notation import DECIMAL_PATTERN

_NUMBER: Final = re.compile(DECIMAL_PATTERN)

_WIDTH: Final = {
    Type.BYTE: 1,
    Type.SHORT: 2,
    Type.INTEGER: 3,
    Type.LONG: 4,
    Type.FLOAT: 5,
    Type.DOUBLE: 6,
}


def partial_type(node: Expression, types: Mapping[str, Type]) -> Type | None:
    """The type of an expression, or None while a variable's type is not known."""
    match node:
        case Variable():
            return types.get(node.name)
        case Constant():
            return constant_type(node.value)
        case Parameter():
            return None
        case Arithmetic("/"):
            return Type.DOUBLE
        case Arithmetic("div" | "mod"):
            return Type.LONG
        case Arithmetic():
            left, right = partial_type(node.left, types), partial_type(node.right, types)
            if left is None or right is None:
                return None
            return Type.LONG if left.is_integral and right.is_integral else Type.DOUBLE
        case Negative():
            operand = partial_type(node.operand, types)
            return operand if operand is None else _computed(operand)
        case Conditional():
            then = partial_type(node.then, types)
            otherwise = partial_type(node.otherwise, types)
            if then is None or otherwise is None:
                return then or otherwise
            return widened(then, otherwise) or then
        case Function():
            return node.returns
        case Call("length"):
            return Type.LONG
        case Call():
            return Type.STRING
        case Aggregate():
            return _aggregate_type(node, types)


def argument_type(node: Call, position: int) -> Type | None:
    """What a function takes: `substring` text and two whole numbers, all others text.

    Nobody knows of functions of Python.
    """
    if isinstance(node, Function):
        return None
    return Type.LONG if node.function == "substring" and position > 0 else Type.STRING


def _aggregate_type(node: Aggregate, types: Mapping[str, Type]) -> Type | None:
    match node.function:
        case "count" | "countd":
            return Type.LONG
        case "avg":
            return Type.DOUBLE
        case "mcount" if not node.terms:
            return Type.LONG
        case "sum" | "msum" | "mcount":
            value = partial_type(node.terms[-1], types)
            return value if value is None else _computed(value)
        case "min" | "max" | "mmin" | "mmax":
            return partial_type(node.terms[-1], types)


def _computed(type: Type) -> Type:
    return Type.LONG if type.is_integral else Type.DOUBLE


def constant_type(value: Value) -> Type:
    """The type a literal has on its own."""
    match value:
        case bool():
            return Type.BOOLEAN
        case int():
            return Type.INTEGER if -(2**31) <= value < 2**31 else Type.LONG
        case float():
            return Type.DOUBLE
        case str():
            return Type.STRING
        case dt.datetime():
            return Type.DATETIME
        case dt.date():
            return Type.DATE
        case Decimal():
            return Type.DECIMAL
        case bytes():
            return Type.BINARY
        case Object():
            return Type.OBJECT


def widened(one: Type, other: Type) -> Type | None:
    """The type that holds both, or None: equal types, or the wider of two numeric ones."""
    if one == other:
        return one
    if one.is_numeric and other.is_numeric:
        wider = max(one, other, key=_WIDTH.__getitem__)
        # A float has fewer exact whole numbers than an integer: only a double holds both.
        return (
            Type.DOUBLE if wider is Type.FLOAT and one.is_integral != other.is_integral else wider
        )
    return None


def stands_for(literal: Type, type: Type) -> bool:
    """Whether a literal may be written where a value of another type is meant.

    So a date is written as text, and a decimal as a number; any value is an object.
    """
    if type is Type.OBJECT:
        return True
    if literal is Type.STRING:
        return type in (Type.DATETIME, Type.DATE, Type.DECIMAL, Type.BINARY)
    if literal is Type.DATE:
        return type is Type.DATETIME
    if literal is Type.DECIMAL:
        return type.is_numeric
    return literal.is_numeric and type is Type.DECIMAL


def as_written(value: Value, span: Span | None) -> Value:
    """A number with all its digits, of which a double has no more than 17."""
    return span.text if span is not None and _NUMBER.fullmatch(span.text) else value


def joinable(one: Type, other: Type) -> bool:
    """Whether one variable may stand in columns of both types."""
    return (
        one == other
        or (one.is_integral and other.is_integral)
        or (one.is_floating and other.is_floating)
    )
