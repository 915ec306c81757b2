"""JSON: a row in each line, or one array of rows. A row is an object, or an array of its values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from decimal import MAX_EMAX, Decimal, InvalidOperation
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.json

from caladan.data import formats
from caladan.data.convert import assemble
from caladan.data.problems import (
    BadRow,
    bad_value,
    cannot_read,
    missing_value,
    not_json,
    wrong_width,
)
from caladan.data.schema import ARROW, is_finite
from caladan.program import Column, Value
from caladan.program.values import Missing, fit

_NOT_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")  # as Spark writes them
_BLANK: Final = " \t\r\n"
_DIGITS: Final = 4000
_NO_OBJECT: Final = re.compile(rb"^[ \t\r]*[^{ \t\r\n]", re.MULTILINE)
"""A line that begins with anything but an object."""


def read(
    relation: str, file: str, raw: bytes, columns: Sequence[Column], bad: list[BadRow]
) -> pa.Table:
    """The rows of one file that fit the columns; the others are noted in `bad`."""
    table = _read_at_once(raw, columns)
    if table is not None:
        return table
    good: list[list[Value | None]] = [[] for _ in columns]
    exact = any(column.type.is_decimal for column in columns)
    for line, item in rows(relation, file, raw, bad, exact=exact):
        row = _values(relation, file, line, item, columns)
        if isinstance(row, BadRow):
            bad.append(row)
            continue
        for values, value in zip(good, row, strict=True):
            values.append(value)
    return assemble(relation, columns, good, bad, file=file)


def rows(
    relation: str, file: str, raw: bytes, bad: list[BadRow], *, exact: bool = False
) -> Iterator[tuple[int, object]]:
    """Line number and value of each row; if exact, fractions are decimals with all their digits."""
    decoder = json.JSONDecoder(
        parse_float=_decimal if exact else _float, parse_int=_integer, object_pairs_hook=_object
    )
    if raw.lstrip(_BLANK.encode())[:1] == b"[" and _is_array_of_rows(raw):
        lines = [text for _, text, _ in formats.lines(relation, file, raw, bad)]
        yield from _array(relation, file, "\n".join(lines), decoder)
        return
    for line, text, _ in formats.lines(relation, file, raw, bad):
        if not text.strip(_BLANK):
            continue
        try:
            yield line, decoder.decode(text)
        except json.JSONDecodeError as problem:
            reason = f"not JSON: {problem.msg[:1].lower()}{problem.msg[1:]}"
            bad.append(not_json(relation, file, line, problem.colno, text, reason))
        except (_Twice, RecursionError) as problem:
            bad.append(not_json(relation, file, line, 1, text, _unusable(problem)))


class _Twice(ValueError):
    """An object with two values of the same name."""


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(next(name for name in names if names.count(name) > 1))
    return found


def _unusable(problem: _Twice | RecursionError) -> str:
    if isinstance(problem, _Twice):
        return f"an object has two values named {problem}"
    return "the JSON is nested too deeply"


def _float(text: str) -> float | Decimal:
    """A number; where it is too large for a double, one that will not pass for infinity."""
    number = float(text)
    return _decimal(text) if math.isinf(number) else number


def _decimal(text: str) -> Decimal:
    """A number with all its digits; one that is next to nothing, or huge, in place of any other."""
    try:
        return Decimal(text)
    except InvalidOperation:  # its exponent is beyond what decimals have
        mantissa, _, exponent = text.lower().partition("e")
        if not any(digit in mantissa for digit in "123456789"):
            return Decimal(0)
        sign, small = text[0] == "-", exponent[0] == "-"
        return Decimal(f"{'-' * sign}1E{'-' * small}{MAX_EMAX}")


def _integer(text: str) -> int | Decimal:
    """A number; Python's integers refuse thousands of digits."""
    return int(text) if len(text) <= _DIGITS else Decimal(text)


def _read_at_once(raw: bytes, columns: Sequence[Column]) -> pa.Table | None:
    """Lines of objects as Arrow reads them, or None where it refuses, or does not find names.

    A name that is spelled otherwise in some rows, and rows that have none of the names, take a
    closer look.
    """
    names = [column.name for column in columns]
    if len(set(names)) < len(names) or any(c.type.is_decimal or c.type.is_nested for c in columns):
        return None  # Arrow takes decimals that are too large, and more than lists hold
    if _NO_OBJECT.search(raw):
        return None  # Arrow crashes where the first row of a block is null
    types = [pa.string() if c.type.from_text else ARROW[c.type] for c in columns]
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(raw),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pa.schema(list(zip(names, types, strict=True))),
                unexpected_field_behavior="ignore",
            ),
        )
    except pa.ArrowInvalid:
        return None
    if not all(is_finite(column) for column in cast("list[Any]", table.columns)):
        return None
    data: list[Any] = table.columns
    lacking = [name for name, column in zip(names, data, strict=True) if column.null_count]
    if len(lacking) == len(names) or any(_is_spelled_otherwise(raw, name) for name in lacking):
        return None
    bad: list[BadRow] = []
    result = assemble("", columns, data, bad)
    return None if bad else result


def _is_spelled_otherwise(raw: bytes, name: str) -> bool:
    quoted = json.dumps(name, ensure_ascii=False).encode()
    alike = re.findall(re.escape(quoted), raw, re.IGNORECASE)
    return any(each != quoted for each in alike)


def _is_array_of_rows(raw: bytes) -> bool:
    """Whether the file is one array, rather than a line for each row that is an array of values."""
    inside = raw.lstrip(_BLANK.encode())[1:].lstrip(_BLANK.encode())
    return inside[:1] in (b"{", b"[", b"]")


def _array(
    relation: str, file: str, text: str, decoder: json.JSONDecoder
) -> Iterator[tuple[int, object]]:
    """The elements of one array, each with the line it starts in."""
    offset, line, counted = text.index("[") + 1, 1, 0
    try:
        while True:
            while text[offset] in _BLANK:
                offset += 1
            if text[offset] == "]":
                return
            item, end = decoder.raw_decode(text, offset)
            line += text.count("\n", counted, offset)
            counted = offset
            yield line, item
            offset = end
            while text[offset] in _BLANK:
                offset += 1
            if text[offset] == ",":
                offset += 1
            elif text[offset] != "]":
                raise json.JSONDecodeError("expected , or ]", text, offset)
    except (_Twice, RecursionError) as problem:
        line += text.count("\n", counted, offset)
        reason = f"{_unusable(problem)}, in the row that starts in line {line}"
        raise cannot_read(relation, file, reason) from None
    except (json.JSONDecodeError, IndexError) as problem:
        place = f" in line {problem.lineno}" if isinstance(problem, json.JSONDecodeError) else ""
        reason = f"the JSON array is broken{place or ' at its end'}"
        raise cannot_read(relation, file, reason) from None


def _values(
    relation: str, file: str, line: int, item: object, columns: Sequence[Column]
) -> list[Value | None] | BadRow:
    """The typed values of a row, or what is wrong with it."""
    if isinstance(item, dict):
        named = cast("dict[str, object]", item)
        lowered = {name.lower(): value for name, value in named.items()}
        if columns and not any(column.name.lower() in lowered for column in columns):
            return missing_value(relation, file, line, None, columns[0], named)
        for column in columns:
            alike = [name for name in named if name.lower() == column.name.lower()]
            if len(alike) > 1 and column.name not in named:
                reason = f"{' and '.join(alike)} may both be column {column.name}"
                return not_json(relation, file, line, 1, json.dumps(item, default=str), reason)
        cells = [named.get(c.name, lowered.get(c.name.lower())) for c in columns]
    elif isinstance(item, list):
        cells = cast("list[object]", item)
    else:
        return not_json(
            relation, file, line, 1, json.dumps(item, default=str), "neither an object nor an array"
        )
    if len(cells) != len(columns):
        return wrong_width(relation, file, line, json.dumps(item, default=str), len(cells), columns)
    row: list[Value | None] = []
    for column, cell in zip(columns, cells, strict=True):
        if column.type.is_floating and cell in _NOT_NUMBERS:
            cell = float(cast("str", cell))
        try:
            row.append(fit(cell, column.type))
        except Missing:
            if column.is_required:
                return missing_value(relation, file, line, None, column)
            row.append(None)
        except ValueError as problem:
            return bad_value(
                relation, file, line, None, column, json.dumps(cell, default=str), str(problem)
            )
    return row
