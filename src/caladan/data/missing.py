"""Missing values in tables: nulls of Arrow outside, two columns inside.

`complete_table` puts a column that says whether there is a value in front of each column that has
nulls, and fills in what stands for none; `merge_pairs` is the way back. The `role` of a column
tells which is which; what rules make of them is told in analysis/missing.py.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from caladan.analysis.missing import presence_column, stand_in
from caladan.data.schema import ARROW, array_of, arrow_schema, compute as pc
from caladan.program import Column, Object


def values(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns that hold values, as users know them."""
    return tuple(column for column in columns if column.role == "value")


def find_lacking(columns: Sequence[Column]) -> frozenset[str]:
    """The names of columns that come as two."""
    pairs = pairwise(columns)
    return frozenset(after.name for before, after in pairs if before.role == "present")


def pair_columns(columns: Sequence[Column], lacks: Collection[int]) -> tuple[Column, ...]:
    """Columns, with one in front that says whether there is a value of those that lack some.

    `lacks` has places among the `values`; columns that come as two already stay so.
    """
    found: list[Column] = []
    place = 0
    for column in columns:
        is_paired = bool(found) and found[-1].role == "present"
        if column.role == "value":
            if place in lacks and not is_paired:
                found.append(presence_column(column))
            place += 1
        found.append(column)
    return tuple(found)


def complete_table(
    table: pa.Table, columns: Sequence[Column]
) -> tuple[pa.Table, tuple[Column, ...]]:
    """A table without nulls, and its columns: those that are given, and what says where some were.

    Of the columns, some may come as two already.
    """
    arrays: list[Any] = table.columns
    lacks = [i for i, array in enumerate(arrays) if array.null_count]
    if not lacks and len(arrays) == len(columns):
        return table, tuple(columns)
    both = pair_columns(columns, lacks)
    return _split(table, both), both


def _split(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """A table of values with the columns that number rows, and say which values are there."""
    arrays: list[Any] = []
    data: Any
    each = iter(table.columns)
    for column in columns:
        if column.role == "present":
            continue
        if column.role == "row":
            arrays.append(pa.chunked_array([array_of(range(table.num_rows), pa.int64())]))
            continue
        data = next(each)
        place = len(arrays)
        if place < len(columns) and columns[place].role == "present":
            arrays.append(pc.is_valid(data))
            data = _fill(data, column)
        arrays.append(data)
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def _fill(data: Any, column: Column) -> Any:
    if not data.null_count:
        return data
    value = stand_in(column.type)
    plain = 0 if isinstance(value, Object) else value
    return pc.fill_null(data, array_of([plain], ARROW[column.type])[0])


def merge_pairs(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """A table of values, with nulls where a column says that there is none."""
    arrays: list[Any] = []
    fields: list[pa.Field[Any]] = []
    flag: Any = None
    for column, data in zip(columns, table.columns, strict=True):
        if column.role == "present":
            flag = data
            continue
        if column.role == "value":
            if flag is not None:
                data = pc.if_else(flag, data, pa.scalar(None, data.type))
            arrays.append(data)
            fields.append(pa.field(column.name, data.type, nullable=flag is not None))
        flag = None
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
