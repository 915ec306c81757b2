"""How values are written as text, and the limits of types.

The patterns are those of text that is a value; they mean the same to Python's `re`, to Arrow and to
Java, so that every reader takes and refuses the same text. Blanks around a value are ignored; a
string is taken as it stands. Bytes are written as pairs of hexadecimal digits.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from caladan.program import Type

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
