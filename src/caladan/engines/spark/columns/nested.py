"""Lists and structs: arrays and structs of Spark outside, bytes inside (program/nested.py).

Python workers convert them, batch by batch, where a frame comes in and where it goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    NullType,
    StructField,
    StructType,
)

from caladan.data.nested import inward, to_arrow
from caladan.engines.spark.columns.types import OUTSIDE
from caladan.engines.spark.session.workers import with_own_python
from caladan.program import Column, Type
from caladan.program.nested import plain, python, unpack
from caladan.program.types import Kind
from caladan.program.values import fit

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn, DataFrame


def outer_type(type: Type) -> DataType:
    """The Spark type in which users have values of a type.

    >>> from caladan.program.types import list_of
    >>> outer_type(list_of(Type.LONG)).simpleString()
    'array<bigint>'
    """
    if type.kind is Kind.LIST:
        return ArrayType(NullType() if type.element is None else outer_type(type.element))
    if type.kind is Kind.STRUCT:
        return StructType([StructField(name, outer_type(own)) for name, own in type.fields])
    return OUTSIDE[type]


def outward(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """A frame of a relation with arrays and structs instead of bytes."""
    if not any(column.type.is_nested for column in columns):
        return frame
    names = frame.columns
    is_inside = [isinstance(field.dataType, BinaryType) for field in frame.schema]
    numbered = frame.toDF(*(f"c{i}" for i in range(len(names))))
    made = [
        _unpack_column(sf.col(f"c{i}"), column.type)
        if column.type.is_nested and is_inside[i]
        else sf.col(f"c{i}")
        for i, column in enumerate(columns)
    ]
    return numbered.select(*made).toDF(*names)


def pack_column(value: SparkColumn, type: Type) -> SparkColumn:
    """A column of arrays or structs as bytes."""

    def one(each: Any) -> bytes | None:
        return None if each is None else bytes(cast("bytes", fit(each, type)))

    def whole(column: pa.Array) -> pa.Array:
        return inward(column, type)

    return _call(value, whole, one, BinaryType())


def _unpack_column(value: SparkColumn, type: Type) -> SparkColumn:
    def one(data: bytes | None) -> Any:
        return None if data is None else plain(python(unpack(bytes(data)), type))

    def whole(column: pa.Array) -> pa.Array:
        return to_arrow(column, type).combine_chunks()

    return _call(value, whole, one, outer_type(type))


def _call(
    value: SparkColumn,
    whole: Callable[[pa.Array], pa.Array],
    one: Callable[[Any], Any],
    returns: DataType,
) -> SparkColumn:
    called: Any
    if hasattr(sf, "arrow_udf"):  # Spark 4.1
        whole.__annotations__ = {"column": pa.Array, "return": pa.Array}
        called = cast("Any", sf).arrow_udf(whole, returns)
    else:
        called = sf.udf(one, returns)
    return with_own_python(lambda: called(value))
