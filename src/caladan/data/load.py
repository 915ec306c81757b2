"""A source as an Arrow table: the door through which engines in this process take data in.

Files on this machine, as Arrow tables of declared columns.

`read` goes through the files behind a source; each format has its reader. Rows that cannot be
taken are noted with their file, line and, where known, position in the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from caladan.data import formats, json_rows, memory, text
from caladan.data.changes import applied
from caladan.data.formats import columnar
from caladan.data.problems import BadRow, cannot_read, only_spark, reading, rejected_table, report
from caladan.data.schema import empty_table
from caladan.data.source import Source, files
from caladan.program import Column
from caladan.program.objects import first_object


def read(relation: str, source: Source, columns: Sequence[Column], bad: list[BadRow]) -> pa.Table:
    """The rows of all files that fit the columns; the others are noted in `bad`."""
    tables = [_read_file(relation, path, source, columns, bad) for path in files(relation, source)]
    return pa.concat_tables([empty_table(columns), *tables])


def _read_file(
    relation: str, path: Path, source: Source, columns: Sequence[Column], bad: list[BadRow]
) -> pa.Table:
    with reading(relation, path, source.format):
        if path.stat().st_size == 0:
            return empty_table(columns)
        if source.format == "csv":
            raw = formats.content(path)
            return text.read(relation, str(path), raw, source, columns, bad)
        if source.format == "json":
            return json_rows.read(relation, str(path), formats.content(path), columns, bad)
        table = columnar(path, source.format).read()
    return memory.read(relation, table, columns, bad, file=str(path))


def load(
    relation: str, source: Source, columns: Sequence[Column], *, permissive: bool = False
) -> tuple[pa.Table, pa.Table | None]:
    """The facts of a source in the Arrow types of `columns`, and the rows set aside, if any.

    Bad rows are an error unless permissive. The table may hold a fact twice; it holds no null.
    """
    bad: list[BadRow] = []
    if source.kind == "spark":
        frame = cast("Any", source.data)
        table = memory.read(relation, frame.toArrow(), columns, bad, objects=source.objects)
    elif source.kind == "arrow":
        given = cast("memory.Snapshot", source.data)
        table = memory.read(relation, given, columns, bad, objects=source.objects)
    elif source.kind == "changed":
        tables: list[tuple[bool, pa.Table]] = []
        aside: list[pa.Table] = []
        for is_insert, step in source.steps:
            given_step = replace(step, objects=source.objects)
            found, rejected = load(relation, given_step, columns, permissive=permissive)
            tables.append((is_insert, found))
            if rejected is not None:
                aside.append(rejected)
        return applied(tables), pa.concat_tables(aside) if aside else None
    elif source.kind == "external":
        raise only_spark(relation, source.name)
    elif source.is_remote:
        raise cannot_read(
            relation, source.name, "only the spark engine reads remote files",
            "use the spark engine, or copy the file to this machine",
        )  # fmt: skip
    elif (column := first_object(columns)) is not None:
        raise cannot_read(
            relation, source.name, f"column {column.name} is object, and files hold no objects",
            f"declare `{column.name}` as what the file has there, such as string",
        )  # fmt: skip
    else:
        table = read(relation, source, columns, bad)
    if bad and not permissive:
        raise report(bad)
    return table, rejected_table(bad) if bad else None
