"""Delimited text as frames: lines that Spark reads, split into fields as `data.text` splits them.

A row that this cannot take is only called wrong here; what is wrong with it, or whether a quoted
field goes on in the next line, is for the closer look to find.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from caladan.data.source import Source
from caladan.data.text import TextColumns
from caladan.engines.spark.sources.fields import from_text
from caladan.engines.spark.sources.validity import CheckedRows
from caladan.program import Column

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn, DataFrame


def parsed(
    lines: DataFrame, source: Source, columns: Sequence[Column], layout: TextColumns
) -> CheckedRows:
    """The rows of lines that have `value` and `file`."""
    value = sf.col("value")
    lines = lines.where(value != "")
    if layout.header is not None:
        lines = lines.where(value != sf.lit(layout.header))
    fields, closed = _fields(value, source)
    rows = lines.select(fields.alias("fields"), closed.alias("closed"), value, "file")
    made = [
        from_text(sf.get("fields", sf.lit(place)), column.type)
        for place, column in zip(layout.places, columns, strict=True)
    ]
    ok = (sf.size("fields") == layout.width) & sf.col("closed") & sf.is_valid_utf8(value)
    return CheckedRows.of(rows, made, ok)


def _fields(line: SparkColumn, source: Source) -> tuple[SparkColumn, SparkColumn]:
    """The fields of a line, and whether every quote in it is closed."""
    mark = rf"\Q{source.delimiter}\E"
    plain = sf.split(line, mark, -1)
    if source.quote is None:
        return plain, sf.lit(True)
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
        return sf.when(field.startswith('"'), opened).otherwise(field)

    has_quotes = line.contains('"')
    fields = sf.when(has_quotes, sf.transform(pieces, unquoted)).otherwise(plain)
    return fields, ~has_quotes | (sf.array_join(pieces, "") == whole)
