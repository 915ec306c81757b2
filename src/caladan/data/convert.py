"""Columns of any data as the Arrow columns of a relation.

`assemble` takes, for each column, an Arrow column or a list of Python values, and makes the Arrow
table of the relation; rows with a value that does not fit, or is missing in a column that was
declared with `!`, are noted and left out.
Whole columns are cast at once where that cannot change a value; only a column in which something
is wrong is looked at value by value, with `values.fit`. What columns of objects hold becomes
numbers.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import pyarrow as pa

from caladan.data.problems import BadRow, bad_value, missing_value, wrong_type
from caladan.data.schema import ARROW, array_of, arrow_schema, column_type, compute as pc
from caladan.program import Column, Type, Value
from caladan.program.notation import plain_decimal_pattern
from caladan.program.objects import Objects
from caladan.program.types import MOST_DIGITS
from caladan.program.values import Missing, fit, shown

if TYPE_CHECKING:
    Chunked: TypeAlias = "pa.ChunkedArray[Any]"
    Values: TypeAlias = "Chunked | Sequence[object]"

_FIRST: Final = dt.datetime(1, 1, 1)
_LAST: Final = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)


def assemble(
    relation: str,
    columns: Sequence[Column],
    data: Sequence[Values],
    bad: list[BadRow],
    *,
    file: str | None = None,
    lines: Sequence[int] | None = None,
    objects: Objects | None = None,
) -> pa.Table:
    """The table of a relation, with nulls for missing values where a column may lack some.

    `lines` numbers the rows if they are not simply counted.

    `objects` has the numbers of the values in columns of objects.
    """
    objects = Objects() if objects is None else objects
    arrays: list[Any] = []
    found: dict[int, BadRow] = {}
    for column, values in zip(columns, data, strict=True):
        array = _at_once(relation, file, column, values)
        if array is None:
            array, wrong = _one_by_one(relation, file, column, values, lines, objects)
            for row, problem in wrong.items():
                found.setdefault(row, problem)
        arrays.append(array)
    table = pa.Table.from_arrays(arrays, schema=arrow_schema(columns))
    if not found:
        return table
    bad.extend(found[row] for row in sorted(found))
    keep = pa.array([row not in found for row in range(table.num_rows)], pa.bool_())
    return table.filter(keep)


def _at_once(relation: str, file: str | None, column: Column, values: Values) -> Chunked | None:
    """The whole column cast, or None if some value needs a closer look."""
    if column.type is Type.OBJECT or (
        column.type.is_nested and not isinstance(values, pa.ChunkedArray)
    ):
        return None
    try:
        if isinstance(values, pa.ChunkedArray):
            chunked = cast("Chunked", values)
            if len(chunked) == 0:
                return pa.chunked_array([], ARROW[column.type])
            check_kind(relation, file, column, chunked.type)
            if column.is_required and chunked.null_count:
                return None
            return _cast(chunked, column.type)
        none = set[type]() if column.is_required else {NoneType}
        if set(map(type, values)) <= {*column.type.exact} | none:
            if column.type.is_floating:
                values = [None if v is None else float(cast("float", v)) for v in values]
                return _cast(pa.chunked_array([array_of(values, pa.float64())]), column.type)
            return pa.chunked_array([array_of(cast("Any", values), ARROW[column.type])])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, UnicodeEncodeError):
        pass
    return None


def check_kind(relation: str, file: str | None, column: Column, found: pa.DataType) -> None:
    """Raise C032 where no value of the data's type could fit."""
    if pa.types.is_null(found):
        return
    kind, wanted = column_type(found), column.type
    fits = kind is not None and (
        kind is wanted
        or (wanted.is_integral and (kind.is_integral or _is_whole(found)))
        or (wanted.is_floating and (kind.is_numeric or kind.is_decimal))
        or (wanted.from_text and kind is Type.STRING)
        or {wanted, kind} == {Type.DATETIME, Type.DATE}
        or (wanted.is_decimal and (kind.is_decimal or kind.is_integral))
        or (wanted.is_nested and (wanted.kind is kind.kind or kind is Type.STRING))
    )
    if not fits:
        raise wrong_type(relation, file, column, str(found) if kind is None else str(kind))


def _is_whole(type: pa.DataType) -> bool:
    return isinstance(type, pa.Decimal128Type) and type.scale == 0


def _cast(values: Chunked, type: Type) -> Chunked | None:
    target = ARROW[type]
    if pa.types.is_null(values.type):
        return values.cast(target)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if type is Type.ULONG:
        values.cast(pa.int64())  # or raise: it is evaluated with 64 bits
    if type.is_nested:
        return None
    if type.is_floating:
        return _cast_floats(values, target)
    if type is Type.DATETIME:
        return _cast_datetimes(values, target)
    if type is Type.DATE:
        return _cast_dates(values, target)
    if type.is_decimal:
        return _cast_decimals(values, type)
    if type is Type.BINARY and column_type(values.type) is Type.STRING:
        return None
    return values if values.type == target else values.cast(target)


def _cast_floats(values: Chunked, target: pa.DataType) -> Chunked | None:
    """Rounded to the column's width, -0.0 made 0.0; None if a number became infinite by that."""
    wide = values.cast(pa.float64(), safe=False)
    result = pc.add(wide.cast(target, safe=False), pa.scalar(0.0, target))
    infinite = pc.sum(pc.is_inf(result)).as_py() or 0
    return result if infinite == (pc.sum(pc.is_inf(wide)).as_py() or 0) else None


def _cast_datetimes(values: Chunked, target: pa.DataType) -> Chunked | None:
    """Zones are converted to UTC and dropped; None if one is finer than a microsecond."""
    if not (pa.types.is_timestamp(values.type) or pa.types.is_date(values.type)):
        return None
    result = values.cast(target)  # which refuses to cut anything off
    low, high = (pa.scalar(limit, target) for limit in (_FIRST, _LAST))
    in_range = pc.and_(pc.greater_equal(result, low), pc.less_equal(result, high))
    return result if pc.all(in_range, min_count=0).as_py() else None


def _cast_dates(values: Chunked, target: pa.DataType) -> Chunked | None:
    """Whole days; None if one has a time of day, or is text."""
    if not (pa.types.is_timestamp(values.type) or pa.types.is_date(values.type)):
        return None
    moments = _cast_datetimes(values, ARROW[Type.DATETIME])
    if moments is None:
        return None
    result = moments.cast(target)
    same = pc.equal(result.cast(moments.type), moments)
    return result if pc.all(same, min_count=0).as_py() else None


def _cast_decimals(values: Chunked, type: Type) -> Chunked | None:
    """All digits; None if there are too many: Arrow checks only those after the point."""
    target, (digits, scale) = ARROW[type], type.width
    if column_type(values.type) is Type.STRING:
        plain = pc.match_substring_regex(values, f"^(?:{plain_decimal_pattern(type)})$")
    elif pa.types.is_decimal(values.type):
        if values.type.precision - values.type.scale <= digits - scale:
            return values.cast(target)
        plain = pc.less(pc.abs(values), pa.scalar(Decimal(10) ** (digits - scale), values.type))
    elif pa.types.is_integer(values.type):
        if digits - scale < len(str(1 << 64)):
            return None
        return values.cast(pa.decimal128(MOST_DIGITS, 0)).cast(target)
    else:
        return None
    return values.cast(target) if pc.all(plain, min_count=0).as_py() else None


def _one_by_one(
    relation: str,
    file: str | None,
    column: Column,
    values: Values,
    lines: Sequence[int] | None,
    objects: Objects,
) -> tuple[Chunked, dict[int, BadRow]]:
    """The column with a null for each bad value, and the bad rows by their place in the column."""
    wrong: dict[int, BadRow] = {}
    fitted: list[Value | None] = []
    for row, value in enumerate(_python_values(relation, file, column, values)):
        line = row + 1 if lines is None else lines[row]
        try:
            of_objects = column.type is Type.OBJECT
            fitted.append(objects.given(value) if of_objects else fit(value, column.type))
        except Missing:
            fitted.append(None)
            if column.is_required:
                wrong[row] = missing_value(relation, file, line, None, column)
        except ValueError as problem:
            fitted.append(None)
            wrong[row] = bad_value(relation, file, line, None, column, shown(value), str(problem))
    return pa.chunked_array([pa.array(fitted, ARROW[column.type])]), wrong


def _python_values(
    relation: str, file: str | None, column: Column, values: Values
) -> Sequence[object]:
    if not isinstance(values, pa.ChunkedArray):
        return values
    chunked = cast("Chunked", values)
    if pa.types.is_timestamp(chunked.type) and chunked.type.unit == "ns":
        return _moments(chunked)
    try:
        return cast("Sequence[object]", chunked.to_pylist())
    except (ValueError, OverflowError):  # a timestamp outside the years 1 to 9999
        found = f"{chunked.type} beyond the years 1 to 9999"
        raise wrong_type(relation, file, column, found) from None


def _moments(values: Chunked) -> Sequence[object]:
    """Nanoseconds as datetimes, and as text where that would cut something off."""
    cut = values.cast(pa.timestamp("us", values.type.tz), safe=False)
    written = pc.strftime(values.cast(pa.timestamp("ns")), format="%Y-%m-%dT%H:%M:%S")
    moments, exact = cut.to_pylist(), pc.equal(cut.cast(values.type), values).to_pylist()
    texts: list[str] = written.to_pylist()
    return [
        text if is_exact is False else moment
        for moment, text, is_exact in zip(moments, texts, exact, strict=True)
    ]
