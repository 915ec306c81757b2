"""Arithmetic over columns of values.

Integers are computed with 64 bits, and checked: what leaves them raises `Overflow`, a division by
zero `DivisionByZero`. Doubles are checked as well: an infinity that comes of numbers that are none
raises `Infinite`.

Failures of arithmetic, as diagnostics that name the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from caladan.analysis.core import CoreRule
from caladan.columns.ranks import LEAST, MOST, Ranks, float_ranks
from caladan.program import ArithmeticOperator
from caladan.program.diagnostics import CaladanError
from caladan.program.functions import CallFailed
from caladan.program.kinds import Kind
from caladan.program.operations import OutOfRange
from caladan.rules.failures import call_failed, division_by_zero, overflow


class DivisionByZero(ArithmeticError):
    """A rule divided by zero."""


class Overflow(ArithmeticError):
    """A whole number left the range of 64 bits."""


class Infinite(Overflow):
    """A number became too large for a double."""


class OutOfType(Overflow):
    """A value that its type does not hold; `of` says which."""

    def __init__(self, of: str) -> None:
        super().__init__(of)
        self.of = of


@contextmanager
def report_failures() -> Generator[None]:
    """Failures of operations on single values as those of columns."""
    try:
        yield
    except ZeroDivisionError:
        raise DivisionByZero from None
    except OutOfRange as problem:
        raise OutOfType(problem.of) from None


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """A column of values: doubles for kind FLOAT, else ranks (integers are their own)."""

    kind: Kind
    data: NDArray[Any]

    @property
    def ranks(self) -> Ranks:
        """The ranks of the values."""
        return float_ranks(self.data) if self.kind is Kind.FLOAT else self.data

    def widened(self, kind: Kind) -> ValueColumn:
        """The values as another kind holds them: integers become doubles."""
        if self.kind is Kind.INTEGER and kind is Kind.FLOAT:
            return ValueColumn(kind, self.data.astype(np.float64))
        return self


def negative(operand: ValueColumn) -> ValueColumn:
    """Minus a column."""
    if operand.kind is Kind.FLOAT:
        return ValueColumn(Kind.FLOAT, -operand.data)
    if np.any(operand.data == LEAST):
        raise Overflow
    return ValueColumn(Kind.INTEGER, -operand.data)


def arithmetic(operator: ArithmeticOperator, left: ValueColumn, right: ValueColumn) -> ValueColumn:
    """Two columns added, subtracted and so on; a double on either side makes doubles."""
    if operator == "/" or Kind.FLOAT in (left.kind, right.kind):
        return ValueColumn(Kind.FLOAT, _float(operator, left, right))
    return ValueColumn(Kind.INTEGER, _INTEGERS[operator](left.data, right.data))


def _float(
    operator: ArithmeticOperator, left: ValueColumn, right: ValueColumn
) -> NDArray[np.float64]:
    one, other = left.widened(Kind.FLOAT).data, right.widened(Kind.FLOAT).data
    with np.errstate(all="ignore"):
        match operator:
            case "+":
                result = one + other
            case "-":
                result = one - other
            case "*":
                result = one * other
            case "/":
                if np.any(other == 0):
                    raise DivisionByZero
                result = one / other
            case _:
                raise TypeError(f"{operator} is for whole numbers")
    infinite = np.isinf(result)
    if infinite.any() and np.any(infinite & np.isfinite(one) & np.isfinite(other)):
        raise Infinite
    return result


def _add(left: Ranks, right: Ranks) -> Ranks:
    total = left + right
    if np.any(((left ^ total) & (right ^ total)) < 0):
        raise Overflow
    return total


def _subtract(left: Ranks, right: Ranks) -> Ranks:
    rest = left - right
    if np.any(((left ^ right) & (left ^ rest)) < 0):
        raise Overflow
    return rest


def _multiply(left: Ranks, right: Ranks) -> Ranks:
    product = left * right
    # A double is close enough to tell all but the largest products apart; those are done exactly.
    near = np.abs(left.astype(np.float64) * right.astype(np.float64)) > 2.0**62
    if np.any(near):
        for one, other in zip(left[near].tolist(), right[near].tolist(), strict=True):
            if not LEAST <= one * other <= MOST:
                raise Overflow
    return product


def _divide(left: Ranks, right: Ranks) -> Ranks:
    if np.any(right == 0):
        raise DivisionByZero
    if np.any((left == LEAST) & (right == -1)):
        raise Overflow
    quotient = left // right
    # numpy rounds down; toward zero is one more where signs differ and there is a remainder.
    return quotient + ((quotient < 0) & (quotient * right != left))


def _remainder(left: Ranks, right: Ranks) -> Ranks:
    if np.any(right == 0):
        raise DivisionByZero
    return np.fmod(left, np.where(right == -1, 1, right))


_INTEGERS: Final[dict[str, Callable[[Ranks, Ranks], Ranks]]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "div": _divide,
    "mod": _remainder,
}


@contextmanager
def blame_rule(rule: CoreRule | None) -> Generator[None]:
    """Turn a failure of arithmetic into a diagnostic that names the rule."""
    try:
        yield
    except DivisionByZero:
        assert rule is not None
        raise CaladanError(division_by_zero(rule)) from None
    except CallFailed as failed:
        assert rule is not None
        raise CaladanError(call_failed(rule, failed.function, failed.reason)) from failed.__cause__
    except Overflow as problem:
        assert rule is not None
        of = problem.of if isinstance(problem, OutOfType) else None
        double = isinstance(problem, Infinite)
        raise CaladanError(overflow(rule, double=double, of=of)) from None
