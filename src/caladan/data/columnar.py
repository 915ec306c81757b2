"""Parquet and ORC files, by Arrow's readers; folders named `column=value` add columns.

Only those folders need Arrow's datasets, which bring pandas with them: that takes half a second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from caladan.data.source import Format


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
