"""Fields of data as typed columns, each with a column that says whether the value is right.

These take the same text and values as `caladan.program.values`; the patterns are shared. Where
Spark and Python might disagree, the value is called wrong: whoever reads then has Python take a
closer look.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from caladan.data.infer import from_spark
from caladan.data.problems import wrong_type
from caladan.engines.spark.columns.nested import pack_column
from caladan.engines.spark.columns.types import zero_made_positive
from caladan.program import Column, Type
from caladan.program.notation import plain_decimal_pattern
from caladan.program.types import BLANKS

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

_ZONE: Final = r"(?:Z|[+-][0-9]{2}:[0-9]{2})\z"
_LONG_DIGITS: Final = 20  # as Spark counts them
_FIRST, _AFTER_LAST = "0001-01-01 00:00:00", "+10000-01-01 00:00:00"


@dataclass(frozen=True, slots=True)
class Field:
    """A value in the type it is evaluated in, and whether it is one; null where it is not."""

    value: SparkColumn
    ok: SparkColumn

    def unless(self, missing: SparkColumn, column: Column) -> Field:
        """The same, right also where the value is missing, unless its column is required."""
        return self if column.is_required else Field(self.value, self.ok | missing)


def from_text(text: SparkColumn, type: Type) -> Field:
    """A field of a text file."""
    if type is Type.STRING:
        return _present(text)
    trimmed = sf.btrim(text, sf.lit(BLANKS))
    if type.is_integral:
        return _check_range(_match(trimmed, type.pattern).try_cast("long"), type)
    if type.is_floating:
        number = _match(trimmed, type.pattern).try_cast("double")
        named = trimmed.rlike("[nN]")  # NaN and infinity by name; else it was too large
        return _round(sf.when(named | ~_is_infinite(number), number), type)
    if type is Type.BOOLEAN:
        word = sf.lower(_match(trimmed, type.pattern))
        return _present(word.isin("true", "1"))
    if type is Type.DATE:
        return _day(_match(trimmed, type.pattern).try_cast("date"))
    if type.is_decimal:
        # Text with more digits may be a decimal too, or be rounded by Spark: a closer look tells.
        return _present(_match(trimmed, plain_decimal_pattern(type)).try_cast(type.spark))
    if type is Type.INTERVAL or type.is_nested:  # Python reads it
        return Field(sf.lit(None).cast(type.spark), sf.lit(False))
    if type is Type.BINARY:
        return _present(sf.unhex(_match(trimmed, type.pattern)))
    return _datetime(_match(trimmed, type.pattern))


def from_number(number: SparkColumn, type: Type) -> Field:
    """A number, of whichever Spark type, for a column of numbers."""
    if type.is_integral:
        return _check_range(number.try_cast("long"), type)
    return _round(number.try_cast("double"), type)


def from_column(relation: str, place: str | None, name: str, spelled: str, column: Column) -> Field:
    """A column of a frame whose type Spark spells so; C032 if no value of it could fit."""
    kind = from_spark(relation, [(column.name, spelled)])[0].type
    wanted, found = column.type, sf.col(name)
    is_whole = spelled.startswith("decimal") and spelled.endswith(",0)")
    if (wanted.is_integral and (kind.is_integral or is_whole)) or (
        wanted.is_floating and (kind.is_numeric or kind.is_decimal)
    ):
        return from_number(found, wanted)
    if wanted.from_text and kind is Type.STRING:
        return from_text(found, wanted)
    if wanted is Type.DATETIME and kind in (Type.DATETIME, Type.DATE):
        return _parse_date(found.try_cast("timestamp_ntz"))
    if wanted is Type.DATE and kind is Type.DATE:
        return _day(found)
    if wanted is Type.DATE and kind is Type.DATETIME:
        moment = found.try_cast("timestamp_ntz")
        day = moment.cast("date")
        return _day(sf.when(day.cast("timestamp_ntz") == moment, day))
    if wanted.is_decimal and (kind.is_decimal or kind.is_integral):
        return _decimal(found, kind, wanted)
    if wanted is kind and not wanted.is_nested:
        return _present(found)
    if wanted.is_nested and wanted.kind is kind.kind:
        return _present(pack_column(found, wanted))
    raise wrong_type(relation, place, column, str(kind))


def _match(text: SparkColumn, pattern: str) -> SparkColumn:
    """The text, or null if it is not all of the pattern."""
    return sf.when(text.rlike(rf"\A(?:{pattern})\z"), text)


def _present(value: SparkColumn) -> Field:
    return Field(value, value.isNotNull())


def _check_range(number: SparkColumn, type: Type) -> Field:
    if type is Type.LONG:
        return _present(number)
    assert type.range is not None, type
    low, high = type.range
    return _present(sf.when(number.between(low, high), number))


def _round(number: SparkColumn, type: Type) -> Field:
    if type is Type.DOUBLE:
        return _present(zero_made_positive(number))
    rounded = number.cast("float").cast("double")
    fits = _is_infinite(rounded) == _is_infinite(number)
    return _present(zero_made_positive(sf.when(fits, rounded)))


def _is_infinite(number: SparkColumn) -> SparkColumn:
    return sf.abs(number) == sf.lit(math.inf)


def _datetime(text: SparkColumn) -> Field:
    # The session's time zone is UTC, so an instant shows as its time there.
    instant = text.try_cast("timestamp").cast("timestamp_ntz")
    plain = text.try_cast("timestamp_ntz")
    has_zone = (sf.length(text) > 10) & text.rlike(_ZONE)
    return _parse_date(sf.when(has_zone, instant).otherwise(plain))


def _day(day: SparkColumn) -> Field:
    first, last = (sf.lit(text).cast("date") for text in ("0001-01-01", "9999-12-31"))
    return _present(sf.when((day >= first) & (day <= last), day))


def _decimal(number: SparkColumn, kind: Type, wanted: Type) -> Field:
    """A number with all its digits; Spark would round those that are too many."""
    digits, scale = kind.width if kind.is_decimal else (_LONG_DIGITS, 0)
    if scale <= wanted.width[1] and digits - scale <= wanted.width[0] - wanted.width[1]:
        return _present(number.cast(wanted.spark))
    plain = sf.regexp_replace(number.cast("string"), r"(\.[0-9]*?)0+\z", "$1")
    return from_text(plain, wanted)


def _parse_date(moment: SparkColumn) -> Field:
    first, after = (sf.lit(text).cast("timestamp_ntz") for text in (_FIRST, _AFTER_LAST))
    return _present(sf.when((moment >= first) & (moment < after), moment))
