"""Values as the evaluator holds them: one Python object for each value of the language.

Whole numbers are `int` within 64 bits, fractions are `float`. Two floats need care: -0.0 is made
0.0, and every NaN is made the one object `NAN`, so that sets of tuples treat it as equal to itself
(tuples compare by identity first). NaN is greater than every other number.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

from caladan.program import Object, Type, Value

Row: TypeAlias = tuple[Value, ...]

NAN: Final = math.nan
LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1


def canonical(value: Value) -> Value:
    """The one object that stands for a value; OverflowError for an integer past 64 bits.

    Python values of columns of objects are their number.
    """
    if isinstance(value, Object):
        return value.number
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0  # -0.0 + 0.0 is 0.0
    if isinstance(value, int) and not LONG_MIN <= value <= LONG_MAX:
        raise OverflowError
    return value


class InfiniteValue(OverflowError):
    """A number became too large for a double."""


def finite(result: float, *operands: float) -> float:
    """A result of arithmetic; `InfiniteValue` if it is infinity and no operand is."""
    if isinstance(result, float) and math.isinf(result) and all(map(math.isfinite, operands)):
        raise InfiniteValue
    return result


def widened(value: Value, type: Type) -> Value:
    """A value as a column or variable of a type holds it: integers become doubles there."""
    return float(value) if type.is_floating and isinstance(value, int) else value


def same(left: Value, right: Value) -> bool:
    """Whether two values are equal; an integer meets a double as a double."""
    return sort_key(left, right) == sort_key(right, left)


def less(left: Value, right: Value) -> bool:
    """Whether the first of two values comes before the second."""
    return sort_key(left, right) < sort_key(right, left)


def sort_key(value: Value, other: Value | None = None) -> tuple[bool, Any]:
    """A key to sort values of one type by, NaN last; `other` is what the value is compared with."""
    if isinstance(other, float) and isinstance(value, int):
        value = float(value)
    if isinstance(value, float) and math.isnan(value):
        return (True, 0.0)
    return (False, value)


def row_key(row: Row) -> tuple[tuple[bool, Any], ...]:
    """A key to sort rows by, column after column."""
    return tuple(sort_key(value) for value in row)
