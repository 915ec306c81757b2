"""What is in a file: the columns of Parquet and ORC, the bytes of text and its lines.

Parquet and ORC go by Arrow's readers; folders named `column=value` add columns. Only those need
Arrow's datasets, which bring pandas with them: that takes half a second. Bytes of text that are not
UTF-8 are pointed out.

`widths` and `looks` are what data says of its columns that types do not: how wide decimals are, and
how Spark had them.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import pyarrow as pa

from caladan.data.problems import BadRow, is_utf16, not_utf8
from caladan.data.schema import DECIMAL_SPELLED, match_columns
from caladan.data.source import Format, Source, compression, files
from caladan.program import Column
from caladan.program.notation import Widths
from caladan.program.types import MOST_DIGITS, WIDEST, Width, wider

SPARK_TYPE: Final = "spark.sql.catalyst.type"
"""The attribute of an ORC column in which Spark says which type it means."""

ORC_MOMENTS: Final = (
    dt.datetime(1677, 9, 21, 0, 12, 43, 145225),
    dt.datetime(2262, 4, 11, 23, 47, 16, 854775),
)
"""The first and the last datetime that Arrow reads from ORC: it counts nanoseconds in 64 bits."""

ORC_RANGE: Final = f"{ORC_MOMENTS[0]:%Y-%m-%d} to {ORC_MOMENTS[1]:%Y-%m-%d}"


@dataclass(frozen=True, slots=True)
class Columnar:
    """A file: its columns, and a way to read it."""

    schema: pa.Schema
    read: Callable[[], pa.Table]


def columnar(path: Path, format: Format | None) -> Columnar:
    """A Parquet or ORC file; a number of ORC that Spark means as a datetime or interval is one."""
    schema, read = _open(path, format)
    meant = pa.schema([_as_meant(field) for field in schema])
    return Columnar(meant, lambda: read().cast(meant))


def _open(path: Path, format: Format | None) -> tuple[pa.Schema, Callable[[], pa.Table]]:
    if any("=" in folder for folder in path.parent.parts):
        import pyarrow.dataset as ds

        dataset = ds.dataset(path, format=format, partitioning="hive")
        return dataset.schema, dataset.to_table
    if format == "orc":
        from pyarrow.orc import ORCFile

        rows = ORCFile(path)
        return rows.schema, rows.read
    from pyarrow.parquet import ParquetFile

    file = ParquetFile(path)
    return file.schema_arrow, file.read


def _as_meant(field: Any) -> Any:
    """The type that Spark means by a number in ORC, which has neither intervals nor local times."""
    meant = (field.metadata or {}).get(SPARK_TYPE.encode(), b"").decode()
    if not pa.types.is_int64(field.type):
        return field
    if meant == "timestamp_ntz":
        return field.with_type(pa.timestamp("us"))
    is_interval = meant.startswith("interval ") and meant.split()[1] not in ("year", "month")
    return field.with_type(pa.duration("us")) if is_interval else field


_LINE = re.compile(rb"([^\r\n]*)(\r\n|\n|\r|$)")
_MARK = b"\xef\xbb\xbf"  # the byte order mark that some editors write first


def content(path: Path) -> bytes:
    """The bytes of a file, uncompressed, without a byte order mark."""
    with pa.OSFile(str(path), "rb") as raw:
        return uncompress(raw, str(path))


def uncompress(raw: Any, name: str, size: int | None = None) -> bytes:
    """What a stream holds, or how it starts, uncompressed as its name says; without a mark."""
    with pa.input_stream(raw, compression=compression(name)) as stream:
        return bytes(cast("Any", stream).read(size)).removeprefix(_MARK)


def count_lines(raw: bytes) -> int:
    """How many line ends there are: LF, CR LF or CR."""
    return raw.count(b"\n") + raw.count(b"\r") - raw.count(b"\r\n")


def after(raw: bytes, lines: int) -> bytes:
    """What comes after the first lines."""
    start = 0
    for _ in range(lines):
        match = _LINE.match(raw, start)
        start = match.end() if match else len(raw)
    return raw[start:] if start else raw


def lines(
    relation: str, file: str, raw: bytes, bad: list[BadRow], first: int = 1
) -> Iterator[tuple[int, str, str]]:
    """The lines with their numbers and line ends; those that are not UTF-8 are noted."""
    number = first - 1
    start = 0
    wide = first == 1 and is_utf16(raw)
    while start < len(raw):
        match = _LINE.match(raw, start)
        assert match is not None
        number += 1
        start = match.end()
        line = match.group(1)
        if wide:
            bad.append(not_utf8(relation, file, number, 1, line, wide=True))
            continue
        try:
            yield number, line.decode(), match.group(2).decode()
        except UnicodeDecodeError as problem:
            bad.append(not_utf8(relation, file, number, problem.start + 1, line))


_COLUMNAR: Final = ("parquet", "orc")


def widths(relation: str, source: Source, columns: Sequence[Column]) -> Widths:
    """The width of each column; data that does not say has decimals of the full width."""
    found = [_match_widths(relation, fields, columns) for fields in _schemas(relation, source)]
    full: Widths = (WIDEST,) * len(columns)
    return reduce(_wider, found) if found else full


class Look(NamedTuple):
    """How Spark had a column: datetimes as instants (`timestamp`), values as perhaps missing."""

    is_instant: bool = False
    is_nullable: bool = False


def looks(relation: str, source: Source, columns: Sequence[Column]) -> tuple[Look, ...]:
    """The look of each column of a DataFrame; other data has none of its own."""
    if source.kind != "spark":
        return (Look(),) * len(columns)
    fields = list(cast("Any", source.data).schema)
    places = match_columns(relation, None, [field.name for field in fields], columns)
    found = (fields[place] for place in places)
    return tuple(Look(f.dataType.simpleString() == "timestamp", f.nullable) for f in found)


def narrow(table: pa.Table, widths: Widths) -> pa.Table:
    """A table whose decimals have these widths."""
    given: Any = table
    fields = [
        field.with_type(pa.decimal128(*width))
        if pa.types.is_decimal(field.type) and width != WIDEST
        else field
        for field, width in zip(given.schema, widths, strict=True)
    ]
    wanted = pa.schema(fields)
    return given if wanted == given.schema else given.cast(wanted)


def _schemas(relation: str, source: Source) -> Iterator[list[tuple[str, Width]]]:
    """Names and widths: of a frame, of a table, of each file that has a schema."""
    if source.kind == "changed":
        parts = [list(_schemas(relation, step)) for is_insert, step in source.steps if is_insert]
        yield from (schema for part in parts for schema in part if all(parts))
    elif source.kind == "spark":
        dtypes = cast("Any", source.data).dtypes
        yield [(name, _of_spark(spelled)) for name, spelled in dtypes]
    elif isinstance(source.data, pa.Table):
        yield [(field.name, _of_arrow(field.type)) for field in cast("Any", source.data).schema]
    elif source.kind == "path" and source.format in _COLUMNAR and not source.is_remote:
        for path in files(relation, source):
            if path.stat().st_size:
                schema = columnar(path, source.format).schema
                yield [(field.name, _of_arrow(field.type)) for field in schema]


def _match_widths(
    relation: str, fields: Sequence[tuple[str, Width]], columns: Sequence[Column]
) -> Widths:
    places = match_columns(relation, None, [name for name, _ in fields], columns)
    return tuple(fields[place][1] for place in places)


def _wider(one: Widths, other: Widths) -> Widths:
    return tuple(wider(a, b) for a, b in zip(one, other, strict=True))


def _of_spark(spelled: str) -> Width:
    found = DECIMAL_SPELLED.fullmatch(spelled)
    return WIDEST if found is None else (int(found[1]), int(found[2]))


def _of_arrow(type: Any) -> Width:
    if not pa.types.is_decimal(type) or type.precision > MOST_DIGITS or type.scale < 0:
        return WIDEST
    return (type.precision, type.scale)
