"""Expressions and comparisons over a binding of variables.

`evaluate` gives the value of an expression, `holds` the truth of a comparison, and `solve` the one
value of an unbound variable that makes an equality true. Division by zero is a ZeroDivisionError
and a whole number past 64 bits an OverflowError; `fixpoint` knows the rule and makes diagnostics of
them.

Every value of the language is one Python object. Whole numbers are `int` within 64 bits, fractions
are `float`. Two floats need care: -0.0 is made 0.0, and every NaN is made the one object `NAN`, so
that sets of tuples treat it as equal to itself (tuples compare by identity first). NaN is greater
than every other number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from caladan.program import (
    Arithmetic,
    ArithmeticOperator,
    Call,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Function,
    Negative,
    Object,
    Type,
    Value,
    Variable,
    variables,
)
from caladan.program.functions import call, outcomes

Binding: TypeAlias = Mapping[str, Value]


def evaluate(expression: Expression, binding: Binding) -> Value:
    """The value of an expression whose variables are all bound.

    >>> evaluate(Arithmetic("div", Constant(-7), Variable("X")), {"X": 2})
    -3
    """
    match expression:
        case Variable():
            return binding[expression.name]
        case Constant():
            return canonical(expression.value)
        case Negative():
            return canonical(-_number(evaluate(expression.operand, binding)))
        case Arithmetic():
            left = _number(evaluate(expression.left, binding))
            right = _number(evaluate(expression.right, binding))
            return canonical(finite(_arithmetic(expression.operator, left, right), left, right))
        case Conditional():
            chosen = all(holds(comparison, binding) for comparison in expression.condition)
            value = evaluate(expression.then if chosen else expression.otherwise, binding)
            return float(_number(value)) if _is_floating(expression, binding) else value
        case Function():
            given = [[evaluate(argument, binding)] for argument in expression.arguments]
            return canonical(outcomes(expression, given, 1)[0])
        case Call():
            arguments = [evaluate(argument, binding) for argument in expression.arguments]
            return call(expression.function, arguments)
        case _:
            raise TypeError(f"not an expression of a body: {expression}")


def holds(comparison: Comparison, binding: Binding) -> bool:
    """Whether a comparison whose variables are all bound is true."""
    left = evaluate(comparison.left, binding)
    right = evaluate(comparison.right, binding)
    match comparison.operator:
        case "=":
            return same(left, right)
        case "~=":
            return not same(left, right)
        case "<":
            return less(left, right)
        case "<=":
            return not less(right, left)
        case ">":
            return less(right, left)
        case ">=":
            return not less(left, right)


def solve(equality: Comparison, name: str, binding: Binding) -> Value:
    """The value of the one unbound variable of an equality, which occurs in it once.

    >>> five_is_x_minus_2 = Comparison(
    ...     "=", Constant(5), Arithmetic("-", Variable("X"), Constant(2)))
    >>> solve(five_is_x_minus_2, "X", {})
    7
    """
    if _mentions(equality.left, name):
        return _invert(equality.left, evaluate(equality.right, binding), name, binding)
    return _invert(equality.right, evaluate(equality.left, binding), name, binding)


def can_solve(equality: Comparison, name: str) -> bool:
    """Whether `solve` can find a variable: it stands once, alone on a side or under + and -."""
    occurrences = [v for v in variables(equality) if v.name == name]
    side = equality.left if _mentions(equality.left, name) else equality.right
    return equality.operator == "=" and len(occurrences) == 1 and _can_invert(side, name)


def _can_invert(expression: Expression, name: str) -> bool:
    match expression:
        case Variable():
            return True
        case Negative():
            return _can_invert(expression.operand, name)
        case Arithmetic(operator="+" | "-", left=left, right=right):
            return _can_invert(left if _mentions(left, name) else right, name)
        case _:
            return False


def _invert(expression: Expression, result: Value, name: str, binding: Binding) -> Value:
    """The value of a variable for which an expression that mentions it has a result."""
    match expression:
        case Variable():
            return result
        case Negative():
            return _invert(expression.operand, canonical(-_number(result)), name, binding)
        case Arithmetic(operator="+" | "-" as operator, left=left, right=right):
            if _mentions(left, name):
                known = _number(evaluate(right, binding))
                undone = _number(result) - known if operator == "+" else _number(result) + known
                undone = finite(undone, _number(result), known)
                return _invert(left, canonical(undone), name, binding)
            known = _number(evaluate(left, binding))
            undone = _number(result) - known if operator == "+" else known - _number(result)
            undone = finite(undone, _number(result), known)
            return _invert(right, canonical(undone), name, binding)
        case _:
            raise TypeError(f"cannot be solved for {name}: {expression}")


def _arithmetic(operator: ArithmeticOperator, left: float, right: float) -> float:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return float(left) / float(right)
        case "div":
            quotient = abs(left) // abs(right)
            return quotient if (left < 0) == (right < 0) else -quotient
        case "mod":
            remainder = abs(left) % abs(right)
            return remainder if left >= 0 else -remainder


def _is_floating(expression: Expression, binding: Binding) -> bool:
    """Whether an expression gives a double, whichever branch of an `if` is taken."""
    match expression:
        case Variable():
            return isinstance(binding[expression.name], float)
        case Constant():
            return isinstance(expression.value, float)
        case Negative():
            return _is_floating(expression.operand, binding)
        case Arithmetic(operator=operator, left=left, right=right):
            return operator == "/" or any(_is_floating(side, binding) for side in (left, right))
        case Conditional(then=then, otherwise=otherwise):
            return any(_is_floating(branch, binding) for branch in (then, otherwise))
        case _:
            return False


def _mentions(expression: Expression, name: str) -> bool:
    return any(variable.name == name for variable in variables(expression))


def _number(value: Value) -> int | float:
    assert isinstance(value, (int, float)), f"the analysis let {value!r} into arithmetic"
    return value


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
