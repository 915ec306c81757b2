"""What is in a file: the columns of Parquet and ORC, the bytes of text and its lines.

Parquet and ORC go by Arrow's readers; folders named `column=value` add columns. Bytes of text that
are not UTF-8 are pointed out.

Only those folders need Arrow's datasets, which bring pandas with them: that takes half a second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from caladan.data.problems import BadRow, not_utf8
from caladan.data.source import Format, compression


@dataclass(frozen=True, slots=True)
class Columnar:
    """A file: its columns, and a way to read it."""

    schema: pa.Schema
    read: Callable[[], pa.Table]


def columnar(path: Path, format: Format | None) -> Columnar:
    """A Parquet or ORC file; a number that Spark writes to ORC and means as a moment is one."""
    schema, read = _opened(path, format)
    meant = pa.schema([_moment(field) for field in schema])
    return Columnar(meant, lambda: read().cast(meant))


def _opened(path: Path, format: Format | None) -> tuple[pa.Schema, Callable[[], pa.Table]]:
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


def _moment(field: Any) -> Any:
    meant = (field.metadata or {}).get(b"spark.sql.catalyst.type")
    is_moment = meant == b"timestamp_ntz" and pa.types.is_int64(field.type)
    return field.with_type(pa.timestamp("us")) if is_moment else field


_LINE = re.compile(rb"([^\r\n]*)(\r\n|\n|\r|$)")
_MARK = b"\xef\xbb\xbf"  # the byte order mark that some editors write first


def content(path: Path) -> bytes:
    """The bytes of a file, uncompressed, without a byte order mark."""
    with pa.OSFile(str(path), "rb") as raw:
        return uncompressed(raw, str(path))


def uncompressed(raw: Any, name: str, size: int | None = None) -> bytes:
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
    while start < len(raw):
        match = _LINE.match(raw, start)
        assert match is not None
        number += 1
        start = match.end()
        line = match.group(1)
        try:
            yield number, line.decode(), match.group(2).decode()
        except UnicodeDecodeError as problem:
            bad.append(not_utf8(relation, file, number, problem.start + 1, line))
