"""A source as an Arrow table: the door through which engines in this process take data in.

`read` goes through the files behind a source; each format has its reader. Rows that cannot be
taken are noted with their file, line and, where known, position in the line.

`changed(base, step, is_insert)` is the data of a source after one more change, a source made of
steps; `apply_steps` is what comes of it once columns are known and every step is an Arrow table.
Small steps of Python rows are put together as they come, and where only the last change of a row
counts the others are dropped, so that a relation whose facts come and go all day does not grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from caladan.data import formats, frames, json_rows, memory, text
from caladan.data.formats import columnar
from caladan.data.missing import values
from caladan.data.problems import (
    BadRow,
    cannot_read,
    only_spark,
    rejected_table,
    report,
    report_reading,
)
from caladan.data.schema import empty_table, table_of
from caladan.data.source import Source, files
from caladan.program import Column
from caladan.program.objects import first_object

_ROWS: Final = 1000  # of a step that takes in the next one
_STEPS: Final = 64  # that are looked through for changes of the same row


def change(base: Source, step: Source, *, is_insert: bool) -> Source:
    """The data of a source after a change."""
    steps = base.steps if base.kind == "changed" else ((True, base),)
    last, before = steps[-1], steps[:-1]
    if before and last[0] is is_insert and _are_few(last[1], step):
        rows = [*cast("list[object]", last[1].data), *cast("list[object]", step.data)]
        steps = (*before, (is_insert, replace(last[1], data=rows)))
    else:
        steps = (*steps, (is_insert, step))
    if len(steps) > _STEPS:
        steps = (steps[0], *_last_changes(steps[1:]))
    return Source("changed", steps[0][1].name, steps=steps, objects=base.objects)


def apply_steps(steps: Iterable[tuple[bool, pa.Table]]) -> pa.Table:
    """What is left after inserts and deletes, in their order."""
    found: Any = None
    for is_insert, table in steps:
        if found is None:
            found = table
        elif not table.num_columns:  # Arrow adds up columns, and there are none
            there = (found.num_rows and not table.num_rows) or (is_insert and table.num_rows)
            found = table_of([()] if there else [], ())
        elif is_insert:
            found = pa.concat_tables([found, table])
        elif table.num_rows and found.num_rows:
            found = found.filter(pa.array(~_among(found, table)))
    return found


def _among(rows: Any, some: Any) -> Any:
    """Which rows are among some others."""
    if not rows.num_columns:
        return np.ones(rows.num_rows, np.bool_)
    both = pa.concat_tables([rows, some])
    keys = np.zeros(both.num_rows, np.int64)
    for column in both.columns:
        numbers = _numbers(column)
        keys = keys * (int(numbers.max()) + 1) + numbers
        _, keys = np.unique(keys, return_inverse=True)
    return np.isin(keys[: rows.num_rows], keys[rows.num_rows :])


def _numbers(column: Any) -> Any:
    """A number for each value, the same for the same."""
    whole: Any = pa.concat_arrays(column.chunks)
    if pa.types.is_floating(whole.type):
        missing = np.asarray(whole.is_null())
        values = np.asarray(whole.to_numpy(zero_copy_only=False), np.float64) + 0.0  # no -0.0
        values[np.isnan(values)] = np.nan
        whole = pa.array(values.view(np.int64), mask=missing)
    encoded = whole.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(), np.int64)


def _are_few(last: Source, step: Source) -> bool:
    both = (last.data, step.data)
    return all(isinstance(each, list) for each in both) and (
        sum(len(cast("list[object]", each)) for each in both) <= _ROWS
    )


def _last_changes(steps: Sequence[tuple[bool, Source]]) -> list[tuple[bool, Source]]:
    """Steps of rows without those that a later one makes up for; as they are if some are not."""
    if not all(isinstance(step.data, list) for _, step in steps):
        return list(steps)
    last: dict[object, tuple[bool, object]] = {}
    try:
        for is_insert, step in steps:
            for row in cast("list[object]", step.data):
                key = _key(row)
                last.pop(key, None)  # what changes again goes to the end
                last[key] = (is_insert, row)
    except TypeError:  # a row that cannot be hashed
        return list(steps)
    found: list[tuple[bool, Source]] = []
    for is_insert, row in last.values():
        if not found or found[-1][0] is not is_insert:
            found.append((is_insert, replace(steps[0][1], data=list[object]())))
        cast("list[object]", found[-1][1].data).append(row)
    return found


def _key(row: object) -> object:
    """What tells rows apart: 1, 1.0 and True are three values."""
    if isinstance(row, dict):
        return tuple((name, type(v), v) for name, v in cast("dict[str, object]", row).items())
    if isinstance(row, tuple | list):
        return tuple((type(value), value) for value in cast("Sequence[object]", row))
    return (type(row), row)


def read(relation: str, source: Source, columns: Sequence[Column], bad: list[BadRow]) -> pa.Table:
    """The rows of all files that fit the columns; the others are noted in `bad`."""
    tables = [_read_file(relation, path, source, columns, bad) for path in files(relation, source)]
    return pa.concat_tables([empty_table(columns), *tables])


def _read_file(
    relation: str, path: Path, source: Source, columns: Sequence[Column], bad: list[BadRow]
) -> pa.Table:
    with report_reading(relation, path, source.format):
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

    Bad rows are an error unless permissive. The table may hold a fact twice, and nulls.
    """
    columns = values(columns)
    bad: list[BadRow] = []
    if source.kind == "spark":
        taken = frames.collect(relation, source.data)
        table = memory.read(relation, taken, columns, bad, objects=source.objects)
    elif source.kind == "arrow":
        snapshot = cast("memory.Snapshot", source.data)
        table = memory.read(relation, snapshot, columns, bad, objects=source.objects)
    elif source.kind == "changed":
        tables: list[tuple[bool, pa.Table]] = []
        aside: list[pa.Table] = []
        for is_insert, step in source.steps:
            given_step = replace(step, objects=source.objects)
            found, rejected = load(relation, given_step, columns, permissive=permissive)
            tables.append((is_insert, found))
            if rejected is not None:
                aside.append(rejected)
        return apply_steps(tables), pa.concat_tables(aside) if aside else None
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
