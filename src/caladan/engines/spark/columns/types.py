"""Column types as Spark types.

`physical.py` says which types evaluation uses; datetimes are timestamps without a zone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
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

from caladan.engines.spark.columns.physical import evaluated, names, shown
from caladan.program import Column, Object, Type, Value
from caladan.program.notation import DECIMAL_DIGITS, DECIMAL_SCALE
from caladan.program.values import written

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn, DataFrame

    from caladan.program.notation import Widths

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
    Type.DATE: DateType(),
    Type.DECIMAL: DecimalType(DECIMAL_DIGITS, DECIMAL_SCALE),
    Type.BINARY: BinaryType(),
}


def inside(type: Type) -> DataType:
    """The Spark type in which values of a type are evaluated."""
    return OUTSIDE[evaluated(type)]


def schema(columns: Sequence[Column]) -> StructType:
    """The Spark schema of a relation inside."""
    pairs = zip(names(columns), shown(columns), strict=True)
    return StructType([StructField(name, OUTSIDE[type], nullable=False) for name, type in pairs])


def literal(value: Value, type: Type) -> SparkColumn:
    """A value as a column of the type it is evaluated in."""
    assert not isinstance(value, Object), "the store lets no objects come here"
    if isinstance(value, dt.datetime):
        # A datetime handed to Spark would be read in the time zone of this machine.
        return sf.lit(value.isoformat(sep=" ")).cast(TimestampNTZType())
    if isinstance(value, bytes):
        return sf.unhex(sf.lit(value.hex()))
    if isinstance(value, dt.date | Decimal):
        return sf.lit(written(value)).cast(inside(type))
    if type.is_floating:
        return sf.lit(float(value)).cast(DoubleType())
    return sf.lit(value).cast(inside(type))


def narrowed(frame: DataFrame, widths: Widths) -> DataFrame:
    """A frame whose decimals have these widths."""
    if not any(isinstance(field.dataType, DecimalType) for field in frame.schema):
        return frame
    numbered = frame.toDF(*(f"c{i}" for i in range(len(widths))))
    values = [
        sf.col(f"c{i}").cast(DecimalType(*width)) if isinstance(field.dataType, DecimalType)
        else sf.col(f"c{i}")
        for i, (field, width) in enumerate(zip(frame.schema, widths, strict=True))
    ]  # fmt: skip
    return numbered.select(*values).toDF(*frame.columns)


def zero_made_positive(column: SparkColumn) -> SparkColumn:
    """A double in which -0.0 has become 0.0."""
    return sf.when(column == sf.lit(0.0), sf.lit(0.0)).otherwise(column)
