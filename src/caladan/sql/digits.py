"""Types as Spark has them, with the digits of decimals, and what arithmetic makes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

MOST_DIGITS: Final = 38
_LEAST_SCALE: Final = 6  # digits after the point that Spark keeps where digits run out


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type: its kind, and the digits of a decimal."""

    kind: str
    digits: int = 0
    scale: int = 0

    @property
    def is_decimal(self) -> bool:
        return self.kind == "decimal"

    @property
    def is_whole(self) -> bool:
        return self.kind in DIGITS


def words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


DIGITS: Final = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_KINDS: Final = {
    "TINYINT": "byte", "SMALLINT": "short", "INT": "integer", "BIGINT": "long",
    "INTEGER": "integer",
    "HUGEINT": "long", "FLOAT": "float", "DOUBLE": "double", "VARCHAR": "string", "TEXT": "string",
    "BOOLEAN": "boolean", "DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMPNTZ": "timestamp",
    "BINARY": "binary", "BLOB": "binary", "CHAR": "string", '"NULL"': "null",
}  # fmt: skip

KINDS: Final = {
    "byte": "TINYINT", "short": "SMALLINT", "integer": "INTEGER", "long": "BIGINT",
    "float": "FLOAT", "double": "DOUBLE", "string": "VARCHAR", "boolean": "BOOLEAN", "date": "DATE",
    "timestamp": "TIMESTAMP", "binary": "BLOB",
}  # fmt: skip
"""The kinds of values, and what DuckDB calls them."""

DOUBLE: Final = SqlType("double")
LONG: Final = SqlType("long")


def calculate_width(node: exp.Expr, one: SqlType | None, other: SqlType | None) -> SqlType | None:
    """What arithmetic on two numbers gives."""
    if one is None or other is None:
        return None
    if isinstance(node, exp.IntDiv):
        return LONG
    if "float" in (one.kind, other.kind):
        return SqlType("float") if one.kind == other.kind and not _is_div(node) else DOUBLE
    if "double" in (one.kind, other.kind):
        return DOUBLE
    if one.is_decimal or other.is_decimal:
        return combine_widths(node, as_decimal(one), as_decimal(other))
    if one.is_whole and other.is_whole:
        return DOUBLE if _is_div(node) else max(one, other, key=lambda w: DIGITS[w.kind])
    return one if other.is_whole else None


def combine_widths(node: exp.Expr, one: SqlType, other: SqlType) -> SqlType:
    """What arithmetic on two decimals gives.

    >>> combined(exp.Div(), Width("decimal", 10, 2), Width("decimal", 5, 1))
    Width(kind='decimal', digits=17, scale=8)
    """
    before = max(one.digits - one.scale, other.digits - other.scale)
    scale = max(one.scale, other.scale)
    match node:
        case exp.Mul():
            found = SqlType("decimal", one.digits + other.digits + 1, one.scale + other.scale)
        case exp.Div():
            scale = max(_LEAST_SCALE, one.scale + other.digits + 1)
            found = SqlType("decimal", one.digits - one.scale + other.scale + scale, scale)
        case exp.Mod():
            before = min(one.digits - one.scale, other.digits - other.scale)
            found = SqlType("decimal", before + scale, scale)
        case _:
            found = SqlType("decimal", before + scale + 1, scale)
    return adjust(found)


def adjust(width: SqlType) -> SqlType:
    """A decimal within 38 digits: those after the point give way, down to six."""
    if width.digits <= MOST_DIGITS:
        return width
    before = width.digits - width.scale
    scale = max(MOST_DIGITS - before, min(width.scale, _LEAST_SCALE))
    return SqlType("decimal", MOST_DIGITS, scale)


def round_width(width: SqlType, places: exp.Expr | None) -> SqlType | None:
    """What `round` gives."""
    if not width.is_decimal:
        return width
    if places is None:
        scale = 0
    elif isinstance(places, exp.Literal) and str(places.this).isdigit():
        scale = min(width.scale, int(places.this))
    else:
        return None
    return SqlType("decimal", min(MOST_DIGITS, width.digits - width.scale + 1 + scale), scale)


def as_decimal(width: SqlType) -> SqlType:
    """The decimal that holds all numbers of a type."""
    if width.is_decimal:
        return width
    return SqlType("decimal", width.digits or DIGITS.get(width.kind, MOST_DIGITS), 0)


def literal(node: exp.Literal) -> SqlType:
    """The type of a value that is written out."""
    if node.is_string:
        return SqlType("string")
    text = str(node.this)
    if not text.isdigit():
        return DOUBLE
    return SqlType("integer" if int(text) < 2**31 else "long", len(str(int(text))))


def common(found: list[SqlType | None]) -> SqlType | None:
    """The type that values of several types have in common."""
    if any(each is None for each in found):
        return None
    widths = [replace(each, digits=0) if each.is_whole else each for each in found if each]
    widths = list(dict.fromkeys(each for each in widths if each.kind != "null"))
    if len(widths) <= 1:
        return widths[0] if widths else SqlType("null")
    kinds = {each.kind for each in widths}
    if kinds <= {"float"} or kinds & {"double", "float"}:
        return DOUBLE if kinds != {"float"} else SqlType("float")
    if "decimal" in kinds and all(each.is_decimal or each.is_whole for each in widths):
        decimals = [as_decimal(each) for each in widths]
        scale = max(each.scale for each in decimals)
        before = max(each.digits - each.scale for each in decimals)
        return SqlType("decimal", min(MOST_DIGITS, before + scale), scale)
    if all(each.is_whole for each in widths):
        return max(widths, key=lambda each: DIGITS[each.kind])
    return None


def parse_width(text: str) -> SqlType | None:
    """The type that a word of SQL stands for, None where it is not known."""
    word, _, rest = text.partition("(")
    if word.strip().upper() in ("DECIMAL", "NUMERIC"):
        digits, _, scale = rest.rstrip(")").partition(",")
        return SqlType("decimal", int(digits or 10), int(scale or 0))
    words = {"STRING": "string", "TIMESTAMP_NTZ": "timestamp", "REAL": "float"}
    kind = _KINDS.get(word.strip().upper()) or words.get(word.strip().upper())
    return SqlType(kind) if kind else None


def _is_div(node: exp.Expr) -> bool:
    return isinstance(node, exp.Div)
