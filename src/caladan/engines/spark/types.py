"""Column types as Spark types.

Inside, whole numbers are long, fractions double, datetimes timestamps without a zone; on the way
out a column gets its declared type. Columns inside are named by position: c0, c1 …; the names that
users gave stay outside.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from caladan.program import Column, Type, Value

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

OUTSIDE: Final[dict[Type, DataType]] = {
    Type.BYTE: ByteType(),
    Type.SHORT: ShortType(),
    Type.INTEGER: IntegerType(),
    Type.LONG: LongType(),
    Type.FLOAT: FloatType(),
    Type.DOUBLE: DoubleType(),
    Type.STRING: StringType(),
    Type.BOOLEAN: BooleanType(),
    Type.DATETIME: TimestampNTZType(),
}

_ARROW: Final[dict[Type, pa.DataType]] = {
    Type.LONG: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.BOOLEAN: pa.bool_(),
    Type.DATETIME: pa.timestamp("us"),
}


def evaluated(type: Type) -> Type:
    """The type in which values of a type are evaluated."""
    if type.is_integral:
        return Type.LONG
    return Type.DOUBLE if type.is_floating else type


def inside(type: Type) -> DataType:
    """The Spark type in which values of a type are evaluated."""
    return OUTSIDE[evaluated(type)]


def shown(columns: Sequence[Column]) -> tuple[Type, ...]:
    """The types of a relation's columns inside; one without columns has a constant one."""
    return tuple(evaluated(c.type) for c in columns) or (Type.BOOLEAN,)


def names(columns: Sequence[Column]) -> list[str]:
    """The names of a relation's columns inside."""
    return [f"c{i}" for i in range(len(shown(columns)))]


def schema(columns: Sequence[Column]) -> StructType:
    """The Spark schema of a relation inside."""
    pairs = zip(names(columns), shown(columns), strict=True)
    return StructType([StructField(name, OUTSIDE[type], nullable=False) for name, type in pairs])


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of a relation inside."""
    pairs = zip(names(columns), shown(columns), strict=True)
    return pa.schema([pa.field(name, _ARROW[type]) for name, type in pairs])


def literal(value: Value, type: Type) -> SparkColumn:
    """A value as a column of the type it is evaluated in."""
    if isinstance(value, dt.datetime):
        # A datetime handed to Spark would be read in the time zone of this machine.
        return sf.lit(value.isoformat(sep=" ")).cast(TimestampNTZType())
    if type.is_floating:
        return sf.lit(float(value)).cast(DoubleType())
    return sf.lit(value).cast(inside(type))


def zero_made_positive(column: SparkColumn) -> SparkColumn:
    """A double in which -0.0 has become 0.0."""
    return sf.when(column == sf.lit(0.0), sf.lit(0.0)).otherwise(column)


def arrow_table(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """An Arrow table of declared types as one of the types inside."""
    given: Any = table
    if not columns:
        data: list[Any] = [pa.array([True] * given.num_rows, pa.bool_())]
        return pa.Table.from_arrays(data, schema=arrow_schema(columns))
    return given.rename_columns(names(columns)).cast(arrow_schema(columns))
