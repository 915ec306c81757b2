"""Files on this machine, as Arrow tables of declared columns.

`read` goes through the files behind a source; each format has its reader. Rows that cannot be
taken are noted with their file, line and, where known, position in the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from caladan.data import json_rows, memory, text, utf8
from caladan.data.columnar import columnar
from caladan.data.problems import BadRow, reading
from caladan.data.schema import empty_table
from caladan.data.source import Source, files
from caladan.program import Column


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
            raw = utf8.content(path)
            return text.read(relation, str(path), raw, source, columns, bad)
        if source.format == "json":
            return json_rows.read(relation, str(path), utf8.content(path), columns, bad)
        table = columnar(path, source.format).read()
    return memory.read(relation, table, columns, bad, file=str(path))
