"""Columns of decimals as whole numbers of their last digit: 12.50 of decimal(10, 2) is 1250.

Where 64 bits hold all that a computation can give, NumPy computes it; else Python's integers do, in
arrays of objects. Both are exact, and both round half up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from caladan.program.operations import Operation, OutOfRange
from caladan.program.types import MOST_DIGITS, Type

_FITS: Final = 1 << 62
_LIMB: Final = (1 << 64) - 1
_WIDE: Final = Context(prec=4 * MOST_DIGITS)


@dataclass(frozen=True, slots=True)
class DecimalColumn:
    """Numbers of 64 bits, or Python's, and how many of their digits are after the point."""

    numbers: NDArray[Any]
    scale: int

    @property
    def most(self) -> int:
        """No number is further from 0."""
        if not len(self.numbers):
            return 0
        return max(abs(int(self.numbers.max())), abs(int(self.numbers.min())))

    def scaled(self, scale: int) -> DecimalColumn:
        """The same numbers with more digits after the point."""
        factor = 10 ** (scale - self.scale)
        if factor == 1:
            return self
        return DecimalColumn(self.within(max(self.most, 1) * factor) * factor, scale)

    def within(self, most: int) -> NDArray[Any]:
        """The numbers, to compute with where no result is further from 0 than `most`."""
        return self.numbers if most < _FITS else self.numbers.astype(object)

    def rounded(self, type: Type) -> DecimalColumn:
        """The numbers as a type holds them; OutOfRange if it does not."""
        digits, scale = type.width
        made = self.scaled(scale) if self.scale < scale else self
        if made.scale > scale:
            unit = 10 ** (made.scale - scale)
            numbers = made.within(made.most + unit)
            away = (abs(numbers) + unit // 2) // unit
            made = DecimalColumn(np.where(numbers < 0, -away, away), scale)
        if made.most >= 10**digits:
            raise OutOfRange("decimal")
        return made

    def python(self) -> list[Decimal]:
        """The numbers as Python has them."""
        return [_WIDE.scaleb(Decimal(int(each)), -self.scale) for each in self.numbers]

    def arrow(self) -> pa.Array:
        """The numbers as Arrow has them."""
        type = pa.decimal128(MOST_DIGITS, self.scale)
        halves: NDArray[np.uint64] = np.empty((len(self.numbers), 2), np.uint64)
        if self.numbers.dtype == np.int64:
            halves[:, 0] = self.numbers.view(np.uint64)
            halves[:, 1] = (self.numbers >> 63).view(np.uint64)
        else:
            halves[:, 0] = [n & _LIMB for n in self.numbers]
            halves[:, 1] = [n >> 64 & _LIMB for n in self.numbers]
        return pa.Array.from_buffers(type, len(self.numbers), [None, pa.py_buffer(halves)])


def decimals_of(array: pa.Array | pa.ChunkedArray, type: Type) -> DecimalColumn:
    """A column of Arrow, which a type holds, as numbers.

    >>> from caladan.program.types import decimal
    >>> decimals_of(pa.array([Decimal("12.50")]), decimal(10, 2)).numbers.tolist()
    [1250]
    """
    cast: Any = array.cast(pa.decimal128(MOST_DIGITS, type.width[1]))
    if isinstance(cast, pa.ChunkedArray):
        cast = cast.combine_chunks()
    if not len(cast):
        return DecimalColumn(np.empty(0, np.int64), type.width[1])
    halves = np.frombuffer(cast.buffers()[1], np.int64)[2 * cast.offset :][: 2 * len(cast)]
    low, high = halves[::2], halves[1::2]
    if np.array_equal(high, low >> 63):
        return DecimalColumn(low.copy(), type.width[1])
    numbers = [(h << 64) | (n & _LIMB) for h, n in zip(high.tolist(), low.tolist(), strict=True)]
    return DecimalColumn(np.array(numbers, object), type.width[1])


def decimals_from(values: Sequence[Decimal | int], scale: int) -> DecimalColumn:
    """Python values as numbers with so many digits after the point, which is enough of them."""
    numbers = [int(Decimal(value).scaleb(scale, _WIDE)) for value in values]
    if all(-_FITS < each < _FITS for each in numbers):
        return DecimalColumn(np.array(numbers, np.int64), scale)
    return DecimalColumn(np.array(numbers, object), scale)


def calculate(operation: Operation, given: Sequence[DecimalColumn]) -> DecimalColumn | None:
    """The value of an operation over columns; None where it has to be computed value by value."""
    match operation.row.operator, given:
        case "+", [one, other]:
            made = _add(one, other, 1)
        case "-", [one, other]:
            made = _add(one, other, -1)
        case "*", [one, other]:
            most = max(one.most * other.most, one.most, other.most)
            product = one.within(most) * other.within(most)
            made = DecimalColumn(product, one.scale + other.scale)
        case "-", [one]:
            made = DecimalColumn(-one.within(one.most), one.scale)
        case "cast", [one] if operation.returns.is_decimal:
            made = one
        case _:
            return None
    return made.rounded(operation.returns)


def _add(one: DecimalColumn, other: DecimalColumn, sign: int) -> DecimalColumn:
    scale = max(one.scale, other.scale)
    one, other = one.scaled(scale), other.scaled(scale)
    most = one.most + other.most
    a, b = one.within(most), other.within(most)
    return DecimalColumn(a + b if sign > 0 else a - b, scale)
