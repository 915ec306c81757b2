"""A source as an Arrow table: the door through which engines in this process take data in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa

from caladan.data import files, memory
from caladan.data.problems import BadRow, cannot_read, only_spark, rejected_table, report
from caladan.data.source import Source
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
        table = memory.read(relation, frame.toArrow(), columns, bad)
    elif source.kind == "arrow":
        table = memory.read(relation, cast("memory.Snapshot", source.data), columns, bad)
    elif source.kind == "external":
        raise only_spark(relation, source.name)
    elif source.is_remote:
        raise cannot_read(
            relation, source.name, "only the spark engine reads remote files",
            "use the spark engine, or copy the file to this machine",
        )  # fmt: skip
    else:
        table = files.read(relation, source, columns, bad)
    if bad and not permissive:
        raise report(bad)
    return table, rejected_table(bad) if bad else None
