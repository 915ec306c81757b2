"""Columns of lists and structs, as Arrow has them outside, and as bytes inside (program/nested.py).

    outward(table, columns)    bytes as Arrow's lists and structs
    inward(array, type)        the way back

Each distinct value is converted once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pyarrow as pa

from caladan.data.schema import outer_type
from caladan.program import Column, Type
from caladan.program.nested import pack, plain, python, unpack
from caladan.program.values import inside


def outward(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """A table with lists and structs as its users have them."""
    if not any(column.type.is_nested for column in columns):
        return table
    arrays: list[Any] = []
    fields: list[Any] = []
    for column, data, field in zip(columns, table.columns, table.schema, strict=True):
        if column.type.is_nested and pa.types.is_binary(data.type):
            arrays.append(to_arrow(data, column.type))
            fields.append(pa.field(field.name, outer_type(column.type), field.nullable))
        else:
            arrays.append(data)
            fields.append(field)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def to_arrow(data: Any, type: Type) -> Any:
    """A column of bytes as one of Arrow's lists or structs."""
    return _each(data, lambda value: plain(python(unpack(value), type)), outer_type(type))


def values(data: Any, type: Type) -> list[Any]:
    """A column of bytes as tuples and structs."""
    known: dict[bytes | None, Any] = {None: None}
    found: list[Any] = []
    for each in data.to_pylist():
        if each not in known:
            known[each] = python(unpack(each), type)
        found.append(known[each])
    return found


def inward(data: Any, type: Type) -> Any:
    """A column of lists or structs whose values are of a type as bytes."""
    made = [None if each is None else pack(inside(each, type), type) for each in data.to_pylist()]
    return pa.array(made, pa.binary())


def all_inward(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """A table whose lists and structs are bytes, as engines have them."""
    if not any(column.type.is_nested for column in columns):
        return table
    arrays: list[Any] = []
    for column, data in zip(columns, table.columns, strict=True):
        is_outside = column.type.is_nested and not pa.types.is_binary(data.type)
        arrays.append(inward(data, column.type) if is_outside else data)
    return pa.Table.from_arrays(arrays, names=table.column_names)


def _each(data: Any, convert: Callable[[bytes], Any], type: pa.DataType) -> Any:
    whole = data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], data.type)
    coded = cast("Any", whole).dictionary_encode()
    distinct = pa.array([convert(each) for each in coded.dictionary.to_pylist()], type)
    return pa.chunked_array([distinct.take(coded.indices)], type)
