"""Column types and Arrow types, and which column of some data is which column of a relation.

`ArrowTable` is a table that has no engine behind it, such as rows that were set aside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import numpy as np
import pyarrow as pa

from caladan.data.problems import other_columns, same_name
from caladan.program import Column, Object, Type, Value
from caladan.program.types import (
    MOST_DIGITS,
    TYPES,
    Kind,
    decimal,
    list_of,
    nested_parts,
    struct_of,
)


class _Compute:
    """pyarrow.compute, imported when it is first used: it makes its functions then."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("pyarrow.compute"), name)


compute: Any = _Compute()


class _ArrowTypes(dict[Type, pa.DataType]):
    """The Arrow type of each column type; those with parameters are made when first asked for."""

    def __missing__(self, type: Type) -> pa.DataType:
        made = pa.decimal128(*type.width) if type.is_decimal else pa.type_for_alias(type.arrow)
        return self.setdefault(type, made)


ARROW: Final = _ArrowTypes()
"""The types in which tables have values; those of lists and structs are bytes (nested.py)."""


def outer_type(type: Type) -> pa.DataType:
    """The Arrow type in which users have values of a type.

    >>> outer_type(list_of(Type.LONG)), outer_type(Type.LONG)
    (ListType(list<item: int64>), DataType(int64))
    """
    if type.kind is Kind.LIST:
        return pa.list_(pa.null() if type.element is None else outer_type(type.element))
    if type.kind is Kind.STRUCT:
        return pa.struct([pa.field(name, outer_type(own)) for name, own in type.fields])
    return ARROW[type]


for _each in TYPES:
    ARROW[_each] = ARROW[_each]

SPARK: Final[dict[str, Type]] = {
    spelled: type
    for type in TYPES
    for spelled in (type.spark, *type.spark_reads)
    if spelled and not type.is_unsigned and not type.is_nested
}
"""The column types of what Spark has, as it spells it; see `spark_type` for all of them."""

DECIMAL_SPELLED: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)", re.IGNORECASE)
"""A type of decimals, of whichever width."""


def spark_type(spelled: str) -> Type | None:
    """The column type for what Spark has, as it spells it; None if there is none.

    >>> spark_type("bigint"), spark_type("decimal(10,2)"), spark_type("map<int,int>")
    (<long>, <decimal(10,2)>, None)
    """
    if "<" in spelled:
        return _nested_spelled(spelled)
    found = DECIMAL_SPELLED.fullmatch(spelled)
    return SPARK.get(spelled) if found is None else decimal(int(found[1]), int(found[2]))


def _nested_spelled(spelled: str) -> Type | None:
    """An array or a struct as Spark spells it, whose values it has a type for."""
    outer, _, inside = spelled.removesuffix(">").partition("<")
    if outer == "array":
        element = spark_type(inside)
        return None if element is None else list_of(element)
    if outer != "struct":
        return None
    fields: list[tuple[str, Type]] = []
    for part in nested_parts(inside):
        name, _, word = part.partition(":")
        type = spark_type(word.strip())
        if type is None:
            return None
        fields.append((name.strip(), type))
    return struct_of(*fields)


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of a relation."""
    return pa.schema([pa.field(c.name, ARROW[c.type], nullable=False) for c in columns])


def empty_table(columns: Sequence[Column]) -> pa.Table:
    """A relation without facts. (Arrow's own `empty_table` imports pandas, which takes a while.)"""
    return pa.Table.from_batches([], schema=arrow_schema(columns))


def first_rows(table: pa.Table, rows: int) -> pa.Table:
    """The first rows; of a table without columns Arrow's `slice` would make some up."""
    return table.slice(0, min(rows, table.num_rows))


def rows(table: pa.Table) -> Iterator[tuple[object, ...]]:
    """The rows as Python values, a batch at a time."""
    if not table.num_columns:
        yield from [()] * table.num_rows
    for batch in table.to_batches(max_chunksize=65536):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def table_of(rows: Sequence[tuple[Value, ...]], columns: Sequence[Column]) -> pa.Table:
    """Facts that are written in a program, in the types of their columns."""
    if not columns:
        return pa.table({"": pa.nulls(len(rows))}).select([])
    fields = arrow_schema(columns)
    by_column = ([_inside(row[i]) for row in rows] for i in range(len(columns)))
    arrays = [array_of(v, field.type) for v, field in zip(by_column, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=fields)


def _inside(value: Value) -> Value:
    return value.number if isinstance(value, Object) else value


def array_of(values: Sequence[Value | None], type: pa.DataType) -> pa.Array:
    """Python values as an Arrow array, None as null.

    `pa.array` imports pandas, which takes as long as many a program runs; the commonest types do
    without it.
    """
    if None in values:
        return pa.array(values, type)
    if pa.types.is_string(type):
        texts = list(map(str, values))
        joined = "".join(texts)
        coded = joined.encode()
        # A character may take several bytes, but mostly there is none that does.
        sizes = map(len, texts if joined.isascii() else (text.encode() for text in texts))
        ends = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(np.fromiter(sizes, np.int64, len(texts)), out=ends[1:])
        if len(coded) < 1 << 31:
            buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(coded)]
            return pa.Array.from_buffers(type, len(texts), buffers)
    elif pa.types.is_signed_integer(type) or pa.types.is_float64(type):
        numbers = np.array(values, type.to_pandas_dtype())  # NumPy's, and without pandas
        return pa.Array.from_buffers(type, len(numbers), [None, pa.py_buffer(numbers)])
    return pa.array(values, type)


def column_type(type: pa.DataType) -> Type | None:
    """The column type for data of an Arrow type, None if it has none.

    The values of unsigned integers and of wide decimals are checked when they are read.
    """
    if pa.types.is_dictionary(type):
        return column_type(type.value_type)
    if pa.types.is_decimal(type):
        fits = type.precision <= MOST_DIGITS and 0 <= type.scale <= type.precision
        return decimal(type.precision, type.scale) if fits else Type.DECIMAL
    if pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type):
        if pa.types.is_null(type.value_type):
            return Type.LIST
        element = column_type(type.value_type)
        return None if element is None else list_of(element)
    if pa.types.is_struct(type):
        fields = [(field.name, column_type(field.type)) for field in type]
        known = [(name, own) for name, own in fields if own is not None]
        return struct_of(*known) if len(known) == len(fields) else None
    for row in TYPES:
        if type == ARROW[row]:
            return row
    for row in TYPES:
        if any(getattr(pa.types, test)(type) for test in row.arrow_reads):
            return row
    return None


def is_finite(column: Any) -> bool:
    """Whether no number is infinite or NaN: Arrow reads a number too large as infinite."""
    return not pa.types.is_floating(column.type) or bool(
        compute.all(compute.is_finite(column), min_count=0).as_py()
    )


def check_apart(relation: str, names: Sequence[str]) -> None:
    """C031 where two columns have the same name, upper and lower case alike, and names decide."""
    known: dict[str, list[str]] = {}
    for name in names:
        known.setdefault(name.lower(), []).append(name)
    for alike in known.values():
        if len(alike) > 1:
            raise same_name(relation, None, alike)


def match_columns(
    relation: str, place: str | None, found: Sequence[str], columns: Sequence[Column]
) -> tuple[int, ...]:
    """For each column of a relation, the position of its column in data with named columns.

    Names decide, upper and lower case alike if need be; a name that two columns have decides
    nothing, and is an error. Where none of the names is known and the number of columns is the
    same, the position does: so an `arc(A, B)` takes a data frame with `src` and `dst`. Columns that
    nobody asked for are left out.
    """
    declared = [c.name for c in columns]
    if list(found) == declared:  # as where the columns were taken from the data, names twice or not
        return tuple(range(len(declared)))
    for fold in (str, str.lower):
        known: dict[str, list[int]] = {}
        for i, name in enumerate(found):
            known.setdefault(fold(name), []).append(i)
        if all(fold(name) in known for name in declared):
            for name in declared:
                if len(known[fold(name)]) > 1:
                    raise same_name(relation, place, [found[i] for i in known[fold(name)]])
            return tuple(known[fold(name)][0] for name in declared)
    lowered = {name.lower() for name in found}
    are_strange = not any(name.lower() in lowered for name in declared)
    if are_strange and len(found) == len(declared):
        return tuple(range(len(declared)))
    raise other_columns(relation, place, found, columns)


class LocalTable:
    """A table of this process: it goes to Spark as Arrow, and there is nothing to let go of."""

    __slots__ = ()

    def arrow(self, limit: int | None = None) -> pa.Table:
        """The facts, or the first of them."""
        raise NotImplementedError

    def spark(self, session: Any) -> Any:
        """The facts as a DataFrame of a Spark session."""
        data = self.arrow()
        if data.num_rows:
            return session.createDataFrame(data)
        from pyspark.sql.pandas.types import from_arrow_schema

        # With Spark Connect an Arrow table without rows has no schema.
        return session.createDataFrame([], from_arrow_schema(data.schema))

    def close(self) -> None:
        """There is nothing to let go of."""


@dataclass(frozen=True, slots=True)
class ArrowTable(LocalTable):
    """An Arrow table with the columns of a relation."""

    columns: tuple[Column, ...]
    data: pa.Table

    def count(self) -> int:
        return self.data.num_rows

    def arrow(self, limit: int | None = None) -> pa.Table:
        return self.data if limit is None else first_rows(self.data, limit)


def empty(columns: Sequence[Column]) -> ArrowTable:
    """A relation without facts."""
    return ArrowTable(tuple(columns), empty_table(columns))


def wrap(data: pa.Table) -> ArrowTable:
    """An Arrow table as it is."""
    columns = tuple(Column(f.name, column_type(f.type) or Type.STRING) for f in data.schema)
    return ArrowTable(columns, data)
