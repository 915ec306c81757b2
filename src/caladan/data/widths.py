"""What data says of its columns that types do not: how wide decimals are, how Spark had them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple, cast

import pyarrow as pa

from caladan.data.formats import columnar
from caladan.data.schema import DECIMAL_SPELLED, match_columns
from caladan.data.source import Source, files
from caladan.program import Column
from caladan.program.notation import DECIMAL_DIGITS, WIDEST, Width, Widths, wider

_COLUMNAR: Final = ("parquet", "orc")


def widths(relation: str, source: Source, columns: Sequence[Column]) -> Widths:
    """The width of each column; data that does not say has decimals of the full width."""
    found = [_matched(relation, fields, columns) for fields in _schemas(relation, source)]
    full: Widths = (WIDEST,) * len(columns)
    return reduce(_wider, found) if found else full


class Look(NamedTuple):
    """How Spark had a column: datetimes as instants (`timestamp`), values as perhaps missing."""

    is_instant: bool = False
    is_nullable: bool = False


def looks(relation: str, source: Source, columns: Sequence[Column]) -> tuple[Look, ...]:
    """The look of each column of a DataFrame; other data has none of its own."""
    if source.kind != "spark":
        return (Look(),) * len(columns)
    fields = list(cast("Any", source.data).schema)
    places = match_columns(relation, None, [field.name for field in fields], columns)
    found = (fields[place] for place in places)
    return tuple(Look(f.dataType.simpleString() == "timestamp", f.nullable) for f in found)


def narrowed(table: pa.Table, widths: Widths) -> pa.Table:
    """A table whose decimals have these widths."""
    given: Any = table
    fields = [
        field.with_type(pa.decimal128(*width))
        if pa.types.is_decimal(field.type) and width != WIDEST
        else field
        for field, width in zip(given.schema, widths, strict=True)
    ]
    wanted = pa.schema(fields)
    return given if wanted == given.schema else given.cast(wanted)


def _schemas(relation: str, source: Source) -> Iterator[list[tuple[str, Width]]]:
    """Names and widths: of a frame, of a table, of each file that has a schema."""
    if source.kind == "changed":
        parts = [list(_schemas(relation, step)) for is_insert, step in source.steps if is_insert]
        yield from (schema for part in parts for schema in part if all(parts))
    elif source.kind == "spark":
        dtypes = cast("Any", source.data).dtypes
        yield [(name, _of_spark(spelled)) for name, spelled in dtypes]
    elif isinstance(source.data, pa.Table):
        yield [(field.name, _of_arrow(field.type)) for field in cast("Any", source.data).schema]
    elif source.kind == "path" and source.format in _COLUMNAR and not source.is_remote:
        for path in files(relation, source):
            if path.stat().st_size:
                schema = columnar(path, source.format).schema
                yield [(field.name, _of_arrow(field.type)) for field in schema]


def _matched(
    relation: str, fields: Sequence[tuple[str, Width]], columns: Sequence[Column]
) -> Widths:
    places = match_columns(relation, None, [name for name, _ in fields], columns)
    return tuple(fields[place][1] for place in places)


def _wider(one: Widths, other: Widths) -> Widths:
    return tuple(wider(a, b) for a, b in zip(one, other, strict=True))


def _of_spark(spelled: str) -> Width:
    found = DECIMAL_SPELLED.fullmatch(spelled)
    return WIDEST if found is None else (int(found[1]), int(found[2]))


def _of_arrow(type: Any) -> Width:
    if not pa.types.is_decimal(type) or type.precision > DECIMAL_DIGITS or type.scale < 0:
        return WIDEST
    return (type.precision, type.scale)
