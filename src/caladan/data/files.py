"""Files on this machine, as Arrow tables of declared columns.

`read` goes through the files behind a source; each format has its reader. Rows that cannot be
taken are noted with their file, line and, where known, position in the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from caladan.data import json_rows, memory, text, utf8
from caladan.data.problems import BadRow, cannot_read
from caladan.data.schema import empty_table
from caladan.data.source import Source, files
from caladan.program import Column


def read(relation: str, source: Source, columns: Sequence[Column], bad: list[BadRow]) -> pa.Table:
    """The rows of all files that fit the columns; the others are noted in `bad`."""
    tables = [_read_file(relation, path, source, columns, bad) for path in files(relation, source)]
    return pa.concat_tables([empty_table(columns), *tables])


def columnar(path: Path, source: Source) -> Any:
    """A Parquet or ORC file as an Arrow dataset; folders named `column=value` add columns."""
    import pyarrow.dataset as ds  # it brings pandas with it, which takes a while

    return ds.dataset(path, format=source.format, partitioning="hive")


def schema_of(dataset: Any) -> pa.Schema:
    """The columns of a file: a number that Spark writes to ORC and means as a moment is one."""
    return pa.schema(
        [
            field.with_type(pa.timestamp("us")) if _is_moment(field) else field
            for field in dataset.schema
        ]
    )


def _is_moment(field: Any) -> bool:
    meant = (field.metadata or {}).get(b"spark.sql.catalyst.type")
    return meant == b"timestamp_ntz" and pa.types.is_int64(field.type)


def _read_file(
    relation: str, path: Path, source: Source, columns: Sequence[Column], bad: list[BadRow]
) -> pa.Table:
    try:
        if path.stat().st_size == 0:
            return empty_table(columns)
        if source.format == "csv":
            raw = utf8.content(path)
            return text.read(relation, str(path), raw, source, columns, bad)
        if source.format == "json":
            return json_rows.read(relation, str(path), utf8.content(path), columns, bad)
        dataset = columnar(path, source)
        table = dataset.to_table().cast(schema_of(dataset))
    except (OSError, EOFError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else None
        what = reason or f"not a readable {path.suffix[1:] or source.format} file"
        raise cannot_read(relation, str(path), what) from None
    return memory.read(relation, table, columns, bad, file=str(path))
