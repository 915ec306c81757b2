"""How numbers are counted in messages, and how many digits a decimal needs."""

from __future__ import annotations

from decimal import Decimal
from typing import TypeAlias

from caladan.program.program import Value
from caladan.program.types import WIDEST, Type, Width

Widths: TypeAlias = "tuple[Width, ...]"
"""A width for each column of a relation; for columns of other types it means nothing."""


def plain_decimal_pattern(type: Type) -> str:
    """The pattern of text that fits a decimal type by its looks; other text needs a closer look."""
    digits, scale = type.width
    whole = f"[0-9]{{1,{digits - scale}}}" if digits > scale else "0"
    if not scale:
        return rf"[+-]?{whole}\.?"
    return rf"[+-]?(?:{whole}(?:\.[0-9]{{0,{scale}}})?|\.[0-9]{{1,{scale}}})"


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


def count_things(number: int, noun: str) -> str:
    """A number of things: `1 fact`, `2,000 facts`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
