"""How values are written as text, and the limits of types.

The patterns are those of text that is a value; they mean the same to Python's `re`, to Arrow and to
Java, so that every reader takes and refuses the same text. Blanks around a value are ignored; a
string is taken as it stands. Bytes are written as pairs of hexadecimal digits.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final, TypeAlias

from caladan.program.program import Type, Value

RANGES: Final[dict[Type, tuple[int, int]]] = {
    Type.BYTE: (-(2**7), 2**7 - 1),
    Type.SHORT: (-(2**15), 2**15 - 1),
    Type.INTEGER: (-(2**31), 2**31 - 1),
    Type.LONG: (-(2**63), 2**63 - 1),
}

BLANKS: Final = " \t"
INTEGER_PATTERN: Final = r"[+-]?[0-9]+"
FLOAT_PATTERN: Final = (
    r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|[nN][aA][nN]|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)"
)
BOOLEAN_PATTERN: Final = r"(?:[tT][rR][uU][eE]|[fF][aA][lL][sS][eE]|[01])"
DATETIME_PATTERN: Final = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})?)?"
)

DATE_PATTERN: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
DECIMAL_PATTERN: Final = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?"
FITTING_DECIMAL_PATTERN: Final = r"[+-]?(?:[0-9]{1,20}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})"
"""Text that is a decimal by its looks; others need a closer look."""
BINARY_PATTERN: Final = r"(?:[0-9a-fA-F]{2})*"

DECIMAL_DIGITS: Final = 38
DECIMAL_SCALE: Final = 18
DECIMAL_LIMIT: Final = Decimal(10) ** (DECIMAL_DIGITS - DECIMAL_SCALE)
"""Decimals are smaller than this, and larger than its negative."""

Width: TypeAlias = tuple[int, int]
"""How many digits a decimal has, and how many of them are after the point."""

Widths: TypeAlias = "tuple[Width, ...]"
"""A width for each column of a relation; for columns of other types it means nothing."""

WIDEST: Final[Width] = (DECIMAL_DIGITS, DECIMAL_SCALE)


def wider(one: Width, other: Width) -> Width:
    """The least width that holds what either does.

    >>> wider((10, 2), (5, 4))
    (12, 4)
    """
    scale = max(one[1], other[1])
    digits = max(one[0] - one[1], other[0] - other[1]) + scale
    return (digits, scale) if digits <= DECIMAL_DIGITS else WIDEST


def width_of(value: Value) -> Width:
    """The least width that holds a value.

    >>> width_of(Decimal("12.50"))
    (3, 1)
    """
    if not isinstance(value, Decimal):
        return WIDEST
    _, digits, exponent = value.as_tuple()  # `normalize` would round to the context's precision
    written = "".join(map(str, digits))
    kept = written.rstrip("0")
    exponent = int(exponent) + len(written) - len(kept)
    scale = max(-exponent, 0)
    return (max(len(kept) + exponent, 0) + scale or 1, scale)


def counted(number: int, noun: str) -> str:
    """A number of things: `1 fact`, `2,000 facts`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
