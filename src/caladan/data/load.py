"""A source as an Arrow table: the door through which engines in this process take data in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa

from caladan.data import files, memory
from caladan.data.problems import BadRow, cannot_read, only_spark, rejected_table, report
from caladan.data.source import Source
from caladan.objects import first_object
from caladan.program import Column


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
        table = files.read(relation, source, columns, bad)
    if bad and not permissive:
        raise report(bad)
    return table, rejected_table(bad) if bad else None
