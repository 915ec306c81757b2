"""Data as SQL sees it: rows may come twice, and values may be missing.

Relations of rules are sets without NULL, so what `caladan.data` reads for them is stricter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.dataset as ds

from caladan.data.load import load
from caladan.data.schema import ARROW, match_columns
from caladan.data.source import Source, files
from caladan.program import Column
from caladan.program.diagnostics import CaladanError


def bag(
    name: str, source: Source, columns: Sequence[Column], *, permissive: bool = False
) -> tuple[pa.Table, pa.Table | None]:
    """The rows of a source on this machine, in the Arrow types of its columns.

    With them, if permissive, the bad rows that were set aside; a missing value is not bad in SQL.
    """
    try:
        return load(name, source, columns)
    except CaladanError as problem:
        rows = None
        if all(found.code == "C036" for found in problem.diagnostics):
            rows = _with_nulls(name, source, columns)
        if rows is not None:
            return rows, None
        if not permissive:
            raise
        return load(name, source, columns, permissive=True)


def may_be_null(name: str, source: Source, columns: Sequence[Column]) -> frozenset[str]:
    """The columns in which a value may be missing, as far as a look at the source tells."""
    if source.kind == "arrow":
        found = _columns(name, cast("Any", source.data), columns)
        return frozenset(c.name for c, v in zip(columns, found, strict=True) if _has_null(v))
    if source.kind == "path" and source.format in ("csv", "json"):
        return frozenset()  # text has no NULL, and one in JSON is an error when it is read
    return frozenset(column.name for column in columns)


def _with_nulls(name: str, source: Source, columns: Sequence[Column]) -> pa.Table | None:
    if source.kind == "changed":
        return None
    data = cast("Any", source.data)
    if source.kind == "spark":
        data = data.toArrow()
    elif source.kind == "path":
        if source.format not in ("parquet", "orc"):
            return None
        paths = [str(path) for path in files(name, source)]
        data = ds.dataset(paths, format=source.format, partitioning="hive").to_table()
    arrays: list[Any] = []
    for column, values in zip(columns, _columns(name, data, columns), strict=True):
        type = ARROW[column.type]
        if isinstance(values, pa.ChunkedArray):
            arrays.append(values.cast(type, safe=not column.type.is_floating))
        else:
            arrays.append(pa.chunked_array([pa.array(values, type)]))
    return pa.table(arrays, names=[column.name for column in columns])


def _columns(name: str, data: Any, columns: Sequence[Column]) -> list[Any]:
    """The columns of what was given, in the order of the relation's."""
    if isinstance(data, pa.Table):
        places = match_columns(name, None, data.column_names, columns)
        return [data.column(i) for i in places]
    if isinstance(data, dict):
        by_name = cast("dict[str, Any]", data)
        places = match_columns(name, None, list(by_name), columns)
        return [list(by_name.values())[i] for i in places]
    return [[_cell(row, i, column.name) for row in data] for i, column in enumerate(columns)]


def _cell(row: Any, i: int, name: str) -> Any:
    if isinstance(row, dict):
        return cast("dict[str, Any]", row).get(name)
    if isinstance(row, tuple | list):
        cells = cast("Sequence[Any]", row)
        return cells[i] if i < len(cells) else None
    return row


def _has_null(values: Any) -> bool:
    if isinstance(values, pa.ChunkedArray):
        return values.null_count > 0
    return any(value is None for value in values)
