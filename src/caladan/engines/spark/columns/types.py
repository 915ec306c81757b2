"""Column types as Spark types.

`physical.py` says which types evaluation uses; datetimes are timestamps without a zone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
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
    TimestampType,
)

from caladan.engines.spark.columns.physical import evaluation_type, names, shown
from caladan.program import Column, Null, Object, Type, Value
from caladan.program.values import write_value

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn, DataFrame

    from caladan.data.formats import Look
    from caladan.program.notation import Widths

_SPELLED: Final[dict[str, DataType]] = {
    type.simpleString(): type
    for type in (
        ByteType(), ShortType(), IntegerType(), LongType(), FloatType(), DoubleType(), StringType(),
        BooleanType(), TimestampNTZType(), DateType(), DayTimeIntervalType(), BinaryType(),
    )
}  # fmt: skip


class _SparkTypes(dict[Type, DataType]):
    """The Spark type of each column type, made when it is first asked for."""

    def __missing__(self, type: Type) -> DataType:
        made = DecimalType(*type.width) if type.is_decimal else _SPELLED[type.spark]
        return self.setdefault(type, made)


OUTSIDE: Final = _SparkTypes()


def inside(type: Type) -> DataType:
    """The Spark type in which values of a type are evaluated."""
    return OUTSIDE[evaluation_type(type)]


def fill_slots(columns: Mapping[str, str], everything: Mapping[str, Type]) -> list[SparkColumn]:
    """All slots of a frame of several relations, for rows of one with some columns in slots."""
    return [
        (sf.col(columns[slot]) if slot in columns else sf.lit(None)).cast(inside(type)).alias(slot)
        for slot, type in everything.items()
    ]


def schema(columns: Sequence[Column]) -> StructType:
    """The Spark schema of a relation inside."""
    pairs = zip(names(columns), shown(columns), strict=True)
    return StructType([StructField(name, OUTSIDE[type], nullable=False) for name, type in pairs])


def file_schema(columns: Sequence[Column]) -> StructType:
    """The Spark schema of a relation in files: columns c0 … of the types that were declared."""
    types = [c.type for c in columns] or [Type.BOOLEAN]
    fields = [StructField(f"c{i}", OUTSIDE[t], nullable=False) for i, t in enumerate(types)]
    return StructType(fields)


def literal(value: Value, type: Type) -> SparkColumn:
    """A value as a column of the type it is evaluated in."""
    assert not isinstance(value, Object | Null), "the store lets no objects come here"
    if isinstance(value, dt.datetime):
        # A datetime handed to Spark would be read in the time zone of this machine.
        return sf.lit(value.isoformat(sep=" ")).cast(TimestampNTZType())
    if isinstance(value, bytes):
        return sf.unhex(sf.lit(value.hex()))
    if isinstance(value, dt.timedelta):
        return sf.lit(value)
    if isinstance(value, dt.date | Decimal):
        return sf.lit(write_value(value)).cast(inside(type))
    if type.is_floating:
        return sf.lit(float(value)).cast(DoubleType())
    return sf.lit(value).cast(inside(type))


def outside(
    columns: Sequence[Column],
    widths: Widths = (),
    looks: Sequence[Look] = (),
    lacks: Collection[int] = (),
) -> tuple[StructField, ...]:
    """The fields of a relation as users see it: of the widths and looks that its data had.

    Columns that `lacks` has may have nulls.
    """
    fields: list[StructField] = []
    for i, (name, column) in enumerate(zip(names(columns), columns, strict=False)):
        type = OUTSIDE[column.type]
        if column.type.is_decimal and widths:
            type = DecimalType(*widths[i])
        if column.type is Type.DATETIME and looks and looks[i].is_instant:
            type = TimestampType()
        is_nullable = i in lacks or (bool(looks) and looks[i].is_nullable)
        fields.append(StructField(name, type, nullable=is_nullable))
    return tuple(fields)


def cast_frame(frame: DataFrame, fields: Sequence[StructField]) -> DataFrame:
    """A frame of the engine's in the types of these fields; columns that have them stay as is."""
    given = {field.name: field.dataType for field in frame.schema}
    if all(given[field.name] == field.dataType for field in fields):
        return frame.select(*(field.name for field in fields))
    return frame.select(
        *(
            sf.col(f.name) if given[f.name] == f.dataType
            else sf.col(f.name).cast(f.dataType).alias(f.name)
            for f in fields
        )
    )  # fmt: skip


def stand_in(type: DataType) -> SparkColumn:
    """A value of a type, to stand for one that is missing: as `analysis.missing` has it."""
    if isinstance(type, StringType | BinaryType):
        return sf.lit("").cast(type)
    if isinstance(type, DecimalType):
        return sf.lit(Decimal(0).scaleb(-type.scale)).cast(type)
    if isinstance(type, DateType | TimestampType | TimestampNTZType):
        return sf.lit(dt.date(1970, 1, 1)).cast(type)
    if isinstance(type, DayTimeIntervalType):
        return sf.lit(dt.timedelta(0)).cast(type)
    return sf.lit(False) if isinstance(type, BooleanType) else sf.lit(0).cast(type)


def narrow_frame(frame: DataFrame, widths: Widths) -> DataFrame:
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
