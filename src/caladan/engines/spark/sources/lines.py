"""Lines of text files as frames: delimited ones split as `data.text` splits them, and JSON objects.

What it cannot take is only called wrong here: rows that do not fit, a quoted field that goes on in
the next line, JSON that is no object a line. The closer look finds what it is, or reads it.

Lines are split by expressions of Spark's, for *frame* needs no Python on executors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from caladan.data.source import Source
from caladan.data.text import TextColumns
from caladan.engines.spark.sources.fields import Field, from_number, from_text
from caladan.engines.spark.sources.validity import CheckedRows
from caladan.program import Column, Type

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn, DataFrame

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def split_lines(
    lines: DataFrame, source: Source, columns: Sequence[Column], layout: TextColumns
) -> CheckedRows:
    """The rows of lines that have `value` and `file`."""
    value = sf.col("value")
    lines = lines.where(value != "")
    if layout.header is not None:
        lines = lines.where(value != sf.lit(layout.header))
    fields, closed = _fields(value, source)
    rows = lines.select(fields.alias("fields"), closed.alias("closed"), value, "file")
    made: list[Field] = []
    for place, column in zip(layout.places, columns, strict=True):
        found = sf.get("fields", sf.lit(place))
        if source.quote is None and not column.type.has_empty:
            found = sf.when(found != "", found)
        made.append(from_text(found, column.type).unless(found.isNull(), column))
    ok = (sf.size("fields") == layout.width) & sf.col("closed") & sf.is_valid_utf8(value)
    return CheckedRows.of(rows, made, ok)


def _fields(line: SparkColumn, source: Source) -> tuple[SparkColumn, SparkColumn]:
    """The fields of a line, and whether every quote in it is closed."""
    mark = rf"\Q{source.delimiter}\E"
    plain = sf.split(line, mark, -1)
    if source.quote is None:
        return plain, sf.lit(True)
    plain = sf.transform(plain, lambda field: sf.when(field != "", field))  # else it is missing
    quoted = r'"[^"]*+(?:""[^"]*+)*+"'
    rest = rf"(?:(?!{mark})[\s\S])*+"
    # Each piece is a delimiter and a field; the line gets a delimiter in front for that.
    whole = sf.concat(sf.lit(source.delimiter), line)
    pieces = sf.regexp_extract_all(
        whole, sf.lit(rf'{mark}(?:{quoted}{rest}|(?!"){rest})'), sf.lit(0)
    )

    def unquoted(piece: SparkColumn) -> SparkColumn:
        field = sf.substr(piece, sf.lit(2))
        inner = sf.regexp_extract(field, rf"\A({quoted})", 1)
        body = sf.substr(inner, sf.lit(2), sf.length(inner) - 2)
        after = sf.substr(field, sf.length(inner) + 1)
        opened = sf.concat(sf.replace(body, sf.lit('""'), sf.lit('"')), after)
        return sf.when(field.startswith('"'), opened).when(field != "", field)

    has_quotes = line.contains('"')
    fields = sf.when(has_quotes, sf.transform(pieces, unquoted)).otherwise(plain)
    return fields, ~has_quotes | (sf.array_join(pieces, "") == whole)


def can_parse(columns: Sequence[Column]) -> bool:
    """Whether all names can be written as a path into an object."""
    return bool(columns) and all(_PLAIN_NAME.fullmatch(column.name) for column in columns)


def json_objects(lines: DataFrame, columns: Sequence[Column]) -> CheckedRows:
    """The rows of lines that have `value` and `file`."""
    text = sf.col("value")
    lines = lines.where(sf.trim(text) != "")
    rows = lines.select(sf.try_parse_json(text).alias("row"), text, "file")
    made: list[Field] = []
    for column in columns:
        # Of a name that is not there only a closer look tells whether it is spelled otherwise.
        value = sf.try_variant_get(sf.col("row"), f"$.{column.name}", "variant")
        field = _field(sf.col("row"), f"$.{column.name}", column.type)
        made.append(field.unless(sf.is_variant_null(value), column))
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
    if type.is_decimal:
        is_text = is_text | (kind == "BIGINT") | kind.startswith("DECIMAL")
    return from_text(sf.when(is_text, sf.try_variant_get(row, path, "string")), type)
