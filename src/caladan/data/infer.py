"""The columns of a relation that no program declares: names and types, from the data itself.

Data with a schema (Arrow, data frames, Parquet, Spark) says what it is. Text is judged by its first
thousand rows: a column whose fields are all integers is `long`, or `string` if 64 bits do not hold
one of them; else all numbers `double`, or `string` if a double would round one that is whole; else
all `true` or `false` `boolean`, else `string`. Python values that no other type holds are `object`.
Columns without names are called c1, c2, …
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from operator import itemgetter
from types import NoneType
from typing import Any, Final, cast

import pyarrow as pa

from caladan.data import formats, json_rows, text
from caladan.data.formats import columnar
from caladan.data.problems import (
    BadRow,
    cannot_read,
    check_name,
    like_a_header,
    maybe_header,
    only_spark,
    report,
    report_reading,
)
from caladan.data.schema import column_type, spark_type
from caladan.data.source import Source, files
from caladan.program import Column, Type
from caladan.program.diagnostics import CaladanError, Diagnostic
from caladan.program.objects import first_object
from caladan.program.types import BLANKS, INTEGER_PATTERN, decimal
from caladan.program.values import parse, plain

ROWS: Final = 1000
_DEEPEST: Final = 32  # lists and structs within each other
_START: Final = 1 << 16  # bytes in which a header is looked for
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[ _-][A-Za-z0-9]+)*")
_EXACT: Final = 16  # doubles hold whole numbers of so few characters
_INTEGER: Final = re.compile(INTEGER_PATTERN)
_PLAIN: Final = {str, int, float, bool, dt.date, dt.datetime, dt.timedelta, Decimal, bytes}


def infer(relation: str, source: Source) -> tuple[Column, ...]:
    """The columns of a source on this machine or in memory, or of a Spark DataFrame."""
    columns = _columns(relation, source)
    for column in columns:
        check_name(f"a column of {relation}", column.name)
    return tuple(replace(column, is_inferred=True) for column in columns)


def _columns(relation: str, source: Source) -> tuple[Column, ...]:
    if source.kind == "spark":
        return from_spark(relation, cast("Any", source.data).dtypes)
    if source.kind == "external":
        raise only_spark(relation, source.name)
    if source.kind == "changed":
        inserted = [step for is_insert, step in source.steps if is_insert]
        if all(isinstance(step.data, list) for step in inserted):
            return _from_rows(relation, [r for s in inserted for r in cast("Any", s.data)])
        return _columns(relation, inserted[0])
    if isinstance(source.data, pa.Table):
        return _from_arrow(relation, None, cast("Any", source.data).schema)
    if isinstance(source.data, dict):
        return _from_columns(relation, cast("dict[str, object]", source.data))
    if isinstance(source.data, list):
        return _from_rows(relation, cast("list[object]", source.data))
    if source.is_remote:
        raise cannot_read(
            relation, source.name, "remote files need declared columns",
            f"declare them: database({{{relation}(A: integer, …)}}).",
        )  # fmt: skip
    return _from_files(relation, source)


def from_spark(relation: str, dtypes: Sequence[tuple[str, str]]) -> tuple[Column, ...]:
    """The columns of a Spark DataFrame, from its names and types as Spark spells them."""
    columns: list[Column] = []
    for name, spelled in dtypes:
        type = spark_type(spelled)
        if type is None:
            raise _no_type(relation, None, name, spelled)
        columns.append(Column(name, type))
    return tuple(columns)


def _from_files(relation: str, source: Source) -> tuple[Column, ...]:
    bad: list[BadRow] = []
    for path in files(relation, source):
        if not path.stat().st_size:
            continue
        with report_reading(relation, path, source.format):
            if source.format not in ("csv", "json"):
                columns = _from_arrow(relation, str(path), columnar(path, source.format).schema)
                return _widen(relation, source, columns)
            raw = formats.content(path)
        if source.format == "csv":
            rows = text.rows(relation, str(path), raw, source, bad)
            first = [[f.text for f in fields] for _, _, fields in islice(rows, ROWS)]
            if first:
                _check_header(relation, str(path), first, source.header)
                return _from_text(first, source.header)
        else:
            items = json_rows.rows(relation, str(path), raw, bad)
            first_items = [_measure(item) for _, item in islice(items, ROWS)]
            if first_items:
                return _check_json(
                    relation, str(path), _from_rows(relation, first_items, str(path))
                )
    if bad:  # there is something, of which not one row can be read
        raise report(bad)
    raise cannot_read(
        relation, source.name, "an empty file does not tell its columns",
        f"declare them: database({{{relation}(A: integer, …)}}).",
    )  # fmt: skip


def _widen(relation: str, source: Source, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Columns of decimals that hold those of every file."""
    if not any(column.type.is_decimal for column in columns):
        return columns
    widths = formats.widths(relation, source, columns)
    return tuple(
        replace(column, type=decimal(*width)) if column.type.is_decimal else column
        for column, width in zip(columns, widths, strict=True)
    )


def _measure(item: object) -> object:
    """A row of JSON, with stand-ins for values that are too large, or too deep, to look at."""
    if isinstance(item, dict):
        return {name: _stand_in(v) for name, v in cast("dict[str, object]", item).items()}
    if isinstance(item, list):
        return [_stand_in(value) for value in cast("list[object]", item)]
    return _stand_in(item)


def _stand_in(value: object, depth: int = 0) -> object:
    """A value of the same type; of what is nested too deeply one that no column holds."""
    if depth > _DEEPEST:
        return object()
    if isinstance(value, dict):
        named = cast("dict[str, object]", value)
        return {name: _stand_in(each, depth + 1) for name, each in named.items()}
    if isinstance(value, list):
        return [_stand_in(each, depth + 1) for each in cast("list[object]", value)]
    if isinstance(value, Decimal):
        return 1 << 64 if value.as_tuple().exponent == 0 else 1.5
    return value


def suspect_header(relation: str, source: Source, columns: Sequence[Column]) -> Diagnostic | None:
    """W110 for a text file whose first line reads like names over columns of text.

    They are words that differ from each other, and occur in no other row.
    """
    if source.kind != "path" or source.format != "csv" or source.is_remote:
        return None
    if source.header is not None or not all(c.type is Type.STRING for c in columns):
        return None
    for path in files(relation, source):
        with report_reading(relation, path, source.format), pa.OSFile(str(path), "rb") as raw:
            start = formats.uncompress(raw, str(path), _START)
        lines = start.splitlines(keepends=True)
        whole = lines if len(start) < _START else lines[:-1]
        try:
            found = list(islice(text.rows(relation, str(path), b"".join(whole), source, []), ROWS))
        except CaladanError:  # a quoted field goes on in a line that was not read
            return None
        names, *others = [[field.text for field in fields] for _, _, fields in found] or [[]]
        if not others or names == [column.name for column in columns]:
            continue
        met = {field for row in others for field in row}
        is_like_names = all(_NAME.fullmatch(name) for name in names)
        if is_like_names and len({*names}) == len(names) and not met.intersection(names):
            return maybe_header(relation, str(path), names)
    return None


def _check_header(relation: str, path: str, rows: list[list[str]], header: bool | None) -> None:
    """C035 where only the first line is text over a column of numbers, and nobody said why."""
    first, others = rows[0], rows[1:]
    if header is not None or not others or not all(any(map(str.isalpha, f)) for f in first):
        return
    alike = [row for row in others if len(row) == len(first)]
    for i, field in enumerate(first):
        kind = _text_type([row[i] for row in alike])
        if kind is not Type.STRING and not _parses(field, kind):
            raise like_a_header(relation, path, 1, first)


def _from_text(rows: list[list[str]], header: bool | None) -> tuple[Column, ...]:
    width = len(rows[0])
    names = [f"c{i}" for i in range(1, width + 1)]
    if header:
        names = [name.strip() for name in rows[0]]
        rows = rows[1:]
    return tuple(
        Column(name, _text_type([row[i] for row in rows if len(row) == width]))
        for i, name in enumerate(names)
    )


def _text_type(fields: list[str]) -> Type:
    """Whole numbers that 64 bits, or doubles, do not hold make it text: some would merge.

    What is missing says nothing.
    """
    fields = [field for field in fields if field]
    if not fields:
        return Type.STRING
    whole = [field for field in fields if _INTEGER.fullmatch(field.strip(BLANKS))]
    if len(whole) == len(fields):
        return Type.LONG if all(_parses(field, Type.LONG) for field in fields) else Type.STRING
    if all(_parses(field, Type.DOUBLE) for field in fields):
        return Type.DOUBLE if all(map(_fits_double, whole)) else Type.STRING
    if all(field.strip().lower() in ("true", "false") for field in fields):
        return Type.BOOLEAN
    return Type.STRING


def _fits_double(whole: str) -> bool:
    return len(whole) < _EXACT or Decimal(float(whole)) == Decimal(whole.strip(BLANKS))


def _parses(field: str, type: Type) -> bool:
    try:
        parse(field, type)
    except ValueError:
        return False
    return True


def _from_arrow(relation: str, place: str | None, schema: pa.Schema) -> tuple[Column, ...]:
    columns: list[Column] = []
    for field in schema:
        type = column_type(field.type)
        if type is None:
            raise _no_type(relation, place, field.name, str(field.type))
        columns.append(Column(field.name, type))
    return tuple(columns)


def _from_columns(relation: str, data: dict[str, object]) -> tuple[Column, ...]:
    columns: list[Column] = []
    for name, values in data.items():
        if isinstance(values, pa.ChunkedArray):
            columns += _from_arrow(relation, None, pa.schema([(name, cast("Any", values).type)]))
        else:
            columns.append(Column(name, _python_type(relation, None, name, values)))
    return tuple(columns)


def _from_rows(
    relation: str, rows: Sequence[object], place: str | None = None
) -> tuple[Column, ...]:
    if not rows:
        raise cannot_read(
            relation, None, "an empty list does not tell its columns",
            f"declare them: database({{{relation}(A: integer, …)}}).",
        )  # fmt: skip
    first = rows[0]
    if isinstance(first, dict):
        names = [str(name) for name in cast("dict[object, object]", first)]
        by_name = [cast("dict[str, object]", row) for row in rows if isinstance(row, dict)]
        return tuple(
            Column(name, _python_type(relation, place, name, [row.get(name) for row in by_name]))
            for name in names
        )
    cells = rows if set(map(type, rows)) == {tuple} else [_tuple(row) for row in rows]
    tuples = cast("Sequence[tuple[object, ...]]", cells)
    width = len(tuples[0])
    if len(set(map(len, tuples))) > 1:
        tuples = [row for row in tuples if len(row) == width]
    return tuple(
        Column(f"c{i}", _python_type(relation, place, f"c{i}", map(itemgetter(i - 1), tuples)))
        for i in range(1, width + 1)
    )


def _tuple(row: object) -> tuple[object, ...]:
    return tuple(cast("Sequence[object]", row)) if isinstance(row, tuple | list) else (row,)


def _python_type(relation: str, place: str | None, name: str, values: object) -> Type:
    """The type Arrow would give the values; where it has none, they are objects.

    A text among numbers is more likely a mistake than meant, so whoever means it says so.
    """
    found = list(cast("Iterable[object]", values))
    if any(isinstance(each, tuple) for each in found):  # which can be hashed, as lists cannot
        return Type.OBJECT
    try:
        if (type_ := column_type(pa.array(found).type)) is not None:
            return Type.DECIMAL if type_.is_decimal else type_  # later values may have more digits
    except UnicodeEncodeError:  # text, of which whoever reads it will say what is wrong
        return Type.STRING
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, RecursionError):
        pass
    kinds = {type(plain(value)) for value in found} - {NoneType}
    if not kinds:  # nothing but missing values
        return Type.STRING
    if len(kinds) > 1 and kinds <= _PLAIN:
        raise cannot_read(
            relation, place, f"column {name} mixes values of different types",
            f"declare its type, object if they are meant to differ: database({{{relation}(…)}}).",
        )  # fmt: skip
    return Type.OBJECT


def _check_json(relation: str, place: str, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Objects are for Python: a file has none."""
    if (column := first_object(columns)) is not None:
        raise _no_type(relation, place, column.name, "nested values, or integers of over 64 bits")
    return tuple(columns)


def _no_type(relation: str, place: str | None, name: str, found: str) -> Exception:
    return cannot_read(
        relation, place, f"column {name} is {found}, which no column type holds",
        f"declare the columns to read, without it: database({{{relation}(…)}}); or drop or cast it",
    )  # fmt: skip
