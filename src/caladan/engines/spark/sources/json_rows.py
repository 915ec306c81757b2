"""Lines of JSON objects as frames.

Anything else that JSON files may hold (rows as arrays, one array of rows) is called wrong here, and
read by the closer look.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from caladan.engines.spark.sources.fields import Field, from_number, from_text
from caladan.engines.spark.sources.validity import CheckedRows
from caladan.program import Column, Type

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn, DataFrame

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def can_parse(columns: Sequence[Column]) -> bool:
    """Whether all names can be written as a path into an object."""
    return bool(columns) and all(_PLAIN_NAME.fullmatch(column.name) for column in columns)


def parsed(lines: DataFrame, columns: Sequence[Column]) -> CheckedRows:
    """The rows of lines that have `value` and `file`."""
    text = sf.col("value")
    lines = lines.where(sf.trim(text) != "")
    rows = lines.select(sf.try_parse_json(text).alias("row"), text, "file")
    made = [_field(sf.col("row"), f"$.{column.name}", column.type) for column in columns]
    return CheckedRows.of(rows, made, sf.is_valid_utf8(text))


def _field(row: SparkColumn, path: str, type: Type) -> Field:
    kind = sf.schema_of_variant(sf.try_variant_get(row, path, "variant"))
    if type.is_integral:
        found = sf.when(kind == "BIGINT", sf.try_variant_get(row, path, "bigint"))
        return from_number(found, type)
    if type.is_floating:
        is_number = kind.isin("BIGINT", "DOUBLE") | kind.startswith("DECIMAL")
        number = sf.try_variant_get(row, path, "double")
        is_held = sf.abs(number) != sf.lit(math.inf)  # Spark has 1e400 for infinite
        return from_number(sf.when(is_number & is_held, number), type)
    if type is Type.BOOLEAN:
        found = sf.when(kind == "BOOLEAN", sf.try_variant_get(row, path, "boolean"))
        return Field(found, found.isNotNull())
    is_text = kind == "STRING"
    if type is Type.DECIMAL:
        is_text = is_text | (kind == "BIGINT") | kind.startswith("DECIMAL")
    return from_text(sf.when(is_text, sf.try_variant_get(row, path, "string")), type)
