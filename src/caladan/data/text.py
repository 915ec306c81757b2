"""Delimited text: csv, tsv, facts.

Most files are right, so `read` lets Arrow read them; only where something needs a closer look does
`_read_exactly` go through the lines, which finds the place of every bad field. Both take the same
text for the same values.

A field may be quoted with `"` (a doubled `""` inside it is one), and may then hold delimiters and
line ends; files with tabs between columns have no quotes, as in Soufflé's fact files. Lines end
with LF, CR LF or CR; empty lines are skipped.

An empty field is a missing value; an empty text, or an empty binary, is written `""`. Where there
are no quotes, an empty field of a column of either is an empty one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyarrow import csv

from caladan.data import formats
from caladan.data.convert import assemble
from caladan.data.problems import (
    MAYBE_HEADER,
    BadRow,
    bad_value,
    cannot_read,
    like_a_header,
    missing_value,
    wrong_width,
)
from caladan.data.schema import ARROW, empty_table, is_finite, match_columns
from caladan.data.source import Source
from caladan.program import Column, Type, Value
from caladan.program.diagnostics import CaladanError
from caladan.program.values import parse

_BLOCK: Final = 1 << 18  # bytes that are looked at row by row if one of their rows is bad


@dataclass(frozen=True, slots=True)
class TextField:
    """The text of a field, and the position in its line where it starts."""

    text: str
    position: int
    is_quoted: bool = False

    def is_missing(self, type: Type, source: Source) -> bool:
        """Whether there is no value for a column."""
        is_value = type.has_empty and (self.is_quoted or source.quote is None)
        return not self.text and not is_value


@dataclass(frozen=True, slots=True)
class TextColumns:
    """How the columns of one file lie: how wide its rows are, and where each column is.

    `header` is the text of the header line, if there is one, which takes so many lines.
    """

    width: int
    places: tuple[int, ...]
    header_lines: int = 0
    header: str | None = None


def read(
    relation: str,
    file: str,
    raw: bytes,
    source: Source,
    columns: Sequence[Column],
    bad: list[BadRow],
) -> pa.Table:
    """The rows of one file that fit the columns; the others are noted in `bad`."""
    found = layout(relation, file, raw, source, columns)
    raw, line = formats.after(raw, found.header_lines), found.header_lines + 1
    table = _read_at_once(raw, source, columns, found)
    if table is not None:
        return table
    tables: list[pa.Table] = [empty_table(columns)]
    for first, block in _blocks(raw, line, source):
        table = _read_at_once(block, source, columns, found)
        if table is None:
            table = _read_exactly(relation, file, first, block, source, columns, found, bad)
        tables.append(table)
    return pa.concat_tables(tables)


def rows(
    relation: str, file: str, raw: bytes, source: Source, bad: list[BadRow], first: int = 1
) -> Iterator[tuple[int, str, list[TextField]]]:
    """Line number, text and fields of each row; a row with quoted line ends takes several lines."""
    pending: tuple[int, str] | None = None
    for number, line, end in formats.lines(relation, file, raw, bad, first):
        start, text = number, line
        if pending is not None:
            start, text = pending[0], f"{pending[1]}{line}"
        if not text:
            continue
        fields = _fields(text, source)
        if fields is None:
            pending = (start, text + end)
        else:
            pending = None
            yield start, text, fields
    if pending is not None:
        reason = f"a quote opens in line {pending[0]} and is not closed"
        raise cannot_read(relation, file, reason)


def layout(
    relation: str,
    file: str,
    start: bytes,
    source: Source,
    columns: Sequence[Column],
    *,
    is_whole: bool = True,
) -> TextColumns:
    """How a file that starts so is laid out; where that is not the whole file, quotes may be open.

    Unless somebody said whether there is a header, a first line that is exactly the column names is
    one, and one that comes close to them is an error: nobody can tell whether it is data.
    """
    straight = TextColumns(len(columns), tuple(range(len(columns))))
    if source.header is False:
        return straight
    unreadable: list[BadRow] = []
    try:
        first = next(rows(relation, file, start, source, unreadable), None)
    except CaladanError:
        if is_whole:
            raise
        return straight
    if first is None or unreadable:
        return straight
    line, text, fields = first
    lines = line + formats.count_lines(text.encode())
    names = [field.text for field in fields]
    if source.header:
        names = [name.strip() for name in names]
        return TextColumns(len(names), match_columns(relation, file, names, columns), lines, text)
    declared = [column.name for column in columns]
    if names == declared:
        return TextColumns(straight.width, straight.places, lines, text)
    folded, wanted = sorted(map(_fold_name, names)), sorted(map(_fold_name, declared))
    # Letters alone, `a,b` for columns A and B, are more likely nodes of a graph. A line that has
    # more than all the names cannot be a row, but columns of a header go by their names.
    if (folded == wanted and any(len(name) > 1 for name in folded)) or (
        len(folded) > len(wanted) and set(wanted) <= set(folded)
    ):
        raise like_a_header(relation, file, line, names)
    return straight


def _fold_name(name: str) -> str:
    """A name as people read it: without blanks, quotes and a byte order mark around it."""
    return name.strip(" \t\ufeff\"'`").lower()


def _read_at_once(
    raw: bytes, source: Source, columns: Sequence[Column], layout: TextColumns
) -> pa.Table | None:
    """The file as Arrow reads it, or None where it refuses or may take what `parse` would not."""
    quoted = source.quote is not None and b'"' in raw
    if (quoted and raw.count(b'"') % 2) or _has_hexadecimal(raw, columns):
        return None
    names = [f"f{i}" for i in range(layout.width)]
    wanted = {f"f{i}": _read_as(c.type) for i, c in zip(layout.places, columns, strict=True)}
    try:
        table = csv.read_csv(
            pa.BufferReader(raw),
            csv.ReadOptions(column_names=names),
            csv.ParseOptions(
                delimiter=source.delimiter,
                quote_char='"' if quoted else False,
                newlines_in_values=quoted,
            ),
            csv.ConvertOptions(
                column_types=wanted,
                include_columns=list(wanted),
                null_values=[""],
                strings_can_be_null=source.quote is not None,
                quoted_strings_can_be_null=False,
                true_values=["true", "1"],
                false_values=["false", "0"],
            ),
        )
    except pa.ArrowInvalid:
        return None
    data: list[Any] = table.columns
    if any(not is_finite(column) for column in data):
        return None
    bad: list[BadRow] = []
    result = assemble("", columns, data, bad)
    return None if bad else result


def _read_as(type: Type) -> pa.DataType:
    """Some are read as text, for Arrow takes more notations than we do, or numbers too large."""
    is_text = type.from_text or type.is_nested
    return pa.string() if is_text and type is not Type.DATE else ARROW[type]


def _has_hexadecimal(raw: bytes, columns: Sequence[Column]) -> bool:
    """Whether there may be a number like 0x1F, which Arrow takes for an integer."""
    return any(c.type.is_integral for c in columns) and (b"0x" in raw or b"0X" in raw)


def _blocks(raw: bytes, line: int, source: Source) -> Iterator[tuple[int, bytes]]:
    """The file in blocks of whole lines, each with the number of its first line.

    So that one bad row among millions costs the slow look at its block only. Where quotes may hold
    line ends, nobody can tell where a row starts: such a file is one block.
    """
    if source.quote is not None and b'"' in raw:
        yield line, raw
        return
    start = 0
    while start < len(raw):
        end = raw.find(b"\n", start + _BLOCK) + 1 or len(raw)
        block = raw[start:end]
        yield line, block
        line += formats.count_lines(block)
        start = end


def _read_exactly(
    relation: str,
    file: str,
    first: int,
    raw: bytes,
    source: Source,
    columns: Sequence[Column],
    layout: TextColumns,
    bad: list[BadRow],
) -> pa.Table:
    """Rows one by one, with every bad one noted; slow, and exact about places."""
    good: list[list[Value | None]] = [[] for _ in columns]
    is_first = first == 1 and source.header is None
    for line, text, fields in rows(relation, file, raw, source, bad, first):
        row = _values(relation, file, line, text, fields, source, columns, layout)
        if isinstance(row, BadRow):
            is_text = row.code == "C032" and row.text.lstrip()[:1].isalpha()
            bad.append(replace(row, help=MAYBE_HEADER) if is_first and is_text else row)
            is_first = False
            continue
        is_first = False
        for values, value in zip(good, row, strict=True):
            values.append(value)
    return assemble(relation, columns, good, bad, file=file)


def _values(
    relation: str,
    file: str,
    line: int,
    text: str,
    fields: list[TextField],
    source: Source,
    columns: Sequence[Column],
    layout: TextColumns,
) -> list[Value | None] | BadRow:
    """The typed values of a row, or what is wrong with it."""
    if len(fields) != layout.width:
        return wrong_width(relation, file, line, text, len(fields), columns, source.delimiter)
    row: list[Value | None] = []
    for column, place in zip(columns, layout.places, strict=True):
        field = fields[place]
        if field.is_missing(column.type, source):
            if column.is_required:
                return missing_value(relation, file, line, field.position, column)
            row.append(None)
            continue
        try:
            row.append(parse(field.text, column.type))
        except ValueError as problem:
            position = field.position
            return bad_value(relation, file, line, position, column, field.text, str(problem))
    return row


def _fields(text: str, source: Source) -> list[TextField] | None:
    """The fields of a row, or None if a quote is still open at its end."""
    delimiter, quote = source.delimiter, source.quote
    fields: list[TextField] = []
    position = 0
    if quote is None or quote not in text:
        for part in text.split(delimiter):
            fields.append(TextField(part, position + 1))
            position += len(part) + 1
        return fields
    while True:
        start = position
        if text.startswith(quote, position):
            parts: list[str] = []
            position += 1
            while True:
                end = text.find(quote, position)
                if end < 0:
                    return None
                parts.append(text[position:end])
                position = end + 1
                if not text.startswith(quote, position):
                    break
                parts.append(quote)
                position += 1
            end = text.find(delimiter, position)
            end = len(text) if end < 0 else end
            parts.append(text[position:end])
            fields.append(TextField("".join(parts), start + 1, is_quoted=True))
        else:
            end = text.find(delimiter, position)
            end = len(text) if end < 0 else end
            fields.append(TextField(text[position:end], start + 1))
        if end == len(text):
            return fields
        position = end + 1
