"""From one type to another, as Spark casts with ANSI on: what does not fit is an error.

Fractions lose what is after their point where whole numbers are wanted. Text of a double is Java's
(`1.0E10`), text of a datetime has a blank between date and time, and text of a decimal no zeros at
its end.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from functools import partial
from typing import Any, Final

from caladan.program.functions.row import FunctionRow
from caladan.program.nested import Struct, json_text, python, unpack
from caladan.program.program import Value
from caladan.program.types import (
    BLANKS,
    DATE_PATTERN,
    DATETIME_PATTERN,
    Kind,
    Type,
    type_named,
)
from caladan.program.values import fit, parse, quote_value, write_value

_BOOLEANS: Final = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}


def text_of(value: Value) -> str:
    """A value as text, as Spark writes it.

    >>> text_of(1e10), text_of(0.5), text_of(dt.datetime(2024, 1, 31, 12, 30)), text_of(True)
    ('1.0E10', '0.5', '2024-01-31 12:30:00', 'true')
    """
    if isinstance(value, float):
        return _text_of_double(value)
    if isinstance(value, dt.datetime):
        text = str(value)
        return text.rstrip("0") if "." in text else text
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError(f"the bytes {value.hex()} are not text in UTF-8") from None
    return write_value(value)


def _text_of_double(number: float) -> str:
    if not math.isfinite(number) or number == 0 or 1e-3 <= abs(number) < 1e7:
        return write_value(number)
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    power = len(text) - 1 + exponent
    text = text.rstrip("0") or "0"
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"


def cast(value: Any, word: str) -> Any:
    """A value of another type.

    >>> cast(" 12 ", "integer"), cast(-2.7, "long"), cast("2024-01-31", "date")
    (12, -2, datetime.date(2024, 1, 31))
    """
    type = _type(word)
    if type.is_nested or isinstance(value, tuple):
        return _cast_nested(value, type)
    if type is Type.STRING:
        return text_of(value)
    if type is Type.BOOLEAN:
        return _boolean(value)
    if type is Type.BINARY and isinstance(value, str):
        return value.encode()
    if isinstance(value, str):
        return _parse(value, type)
    if isinstance(value, bool) and type.is_numeric:
        value = int(value)
    if type.is_integral and isinstance(value, float | Decimal):
        return _whole(value, type)
    if type is Type.DATE and isinstance(value, dt.datetime):
        return value.date()
    if type is Type.DECIMAL and isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a decimal number")
    return fit(value, type)


def _cast_nested(value: Any, type: Type) -> Any:
    """A list or a struct from JSON, as JSON, or with all that is inside of it cast."""
    if type is Type.STRING:
        return json_text(value, write_value)
    if isinstance(value, str):
        given = parse(value, type)
        assert isinstance(given, bytes)
        return python(unpack(given), type)
    if type.kind is Kind.LIST and type.element is not None and not isinstance(value, Struct):
        element = type.element.name
        return tuple(None if each is None else cast(each, element) for each in value)
    if type.kind is Kind.STRUCT and isinstance(value, Struct):
        given = value.asdict()
        pairs = ((given.get(name), own.name) for name, own in type.fields)
        names = [name for name, _ in type.fields]
        return Struct(names, [None if v is None else cast(v, word) for v, word in pairs])
    raise ValueError(f"{json_text(value, write_value)} is not {type.described}")


def try_cast(value: Any, word: str) -> Any:
    """A value of another type, None if it is none."""
    try:
        return cast(value, word)
    except (ValueError, OverflowError):
        return None


def _can_cast(value: Any, word: str) -> bool:
    return try_cast(value, word) is not None


def _type(word: str) -> Type:
    found = type_named(word)
    if found is None:
        raise ValueError(f"{quote_value(word)} is not the name of a type")
    return found


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        found = _BOOLEANS.get(value.strip(BLANKS).lower())
        if found is None:
            raise ValueError(f"{quote_value(value)} is not a boolean (true or false)")
        return found
    if isinstance(value, int | float | Decimal):
        return value != 0
    raise ValueError(f"{quote_value(value)} is not a boolean (true or false)")


def _parse(text: str, type: Type) -> Value:
    trimmed = text.strip(BLANKS)
    if type is Type.DATETIME and re.fullmatch(DATE_PATTERN, trimmed):
        return fit(parse(trimmed, Type.DATE), type)
    if type is Type.DATE and re.fullmatch(DATETIME_PATTERN, trimmed):
        moment = parse(trimmed, Type.DATETIME)
        assert isinstance(moment, dt.datetime)
        return moment.date()
    return parse(text, type)


def _whole(number: float | Decimal, type: Type) -> int:
    assert type.range is not None
    low, high = type.range
    if not math.isfinite(number) or not low <= math.trunc(number) <= high:
        raise ValueError(f"{text_of(number)} does not fit in {type} ({low} to {high})")
    return math.trunc(number)


def _arrow_cast(pc: Any, value: Any, word: str) -> Any:
    """None where Arrow reads or writes other texts, or where something may not fit."""
    import pyarrow as pa

    type, given, kinds = _type(word), value.type, pa.types
    if type.is_decimal or type in (Type.BOOLEAN, Type.BINARY, Type.FLOAT, Type.OBJECT):
        return None
    plain = pa.type_for_alias(type.arrow)
    if type is Type.STRING:
        if kinds.is_integer(given) or kinds.is_date(given) or kinds.is_boolean(given):
            return pc.cast(value, plain)
        if kinds.is_timestamp(given):
            text = pc.replace_substring_regex(pc.cast(value, plain), r"\.0+$", "")
            return pc.replace_substring_regex(text, r"(\.[0-9]*[1-9])0+$", r"\1")
        return _text_of_doubles(pc, value) if kinds.is_floating(given) else None
    if kinds.is_string(given):
        pattern = r"^-?[0-9]{1,18}$" if type.is_integral else _PLAIN.get(type.name, "")
        if not pattern or not pc.all(pc.match_substring_regex(value, pattern)).as_py():
            return None
        return pc.cast(value, plain)
    if kinds.is_floating(given) and type.is_integral:
        assert type.range is not None
        whole = pc.trunc(value)
        least, most = pc.min(whole).as_py(), pc.max(whole).as_py()
        fits = not pc.any(pc.is_nan(value)).as_py() and type.range[0] <= least
        return pc.cast(whole, plain) if fits and most < type.range[1] else None
    if kinds.is_integer(given) and type.is_numeric:
        return pc.cast(value, plain, safe=type.is_integral)
    if kinds.is_timestamp(given) and type is Type.DATE:
        return pc.cast(pc.floor_temporal(value, unit="day"), plain)
    return pc.cast(value, plain) if kinds.is_date(given) and type is Type.DATETIME else None


_PLAIN: Final = {
    "double": r"^-?[0-9]+(\.[0-9]+)?$", "date": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
}  # fmt: skip
"""Texts that Arrow reads as they are read here."""


def _text_of_doubles(pc: Any, value: Any) -> Any:
    import pyarrow as pa

    size = pc.abs(value)
    plain = pc.or_(pc.equal(value, 0), pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)))
    if not pc.all(plain).as_py():
        return None
    text = pc.cast(value, pa.string())
    whole = pc.invert(pc.match_substring(text, "."))
    return pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)


def _spark_cast(sf: Any, value: Any, word: str, given: Type) -> Any:
    """Null where it fails. Spark reads texts that are no values here: patterns come first."""
    type = _type(word)
    if type is Type.STRING and given.is_decimal:
        text = value.cast("string")
        short = sf.regexp_replace(text, r"(\.[0-9]*?)0+$", "$1")
        return sf.regexp_replace(short, r"\.$", "")
    if given is not Type.STRING or type in (Type.STRING, Type.BINARY):
        return value.try_cast(type.spark)
    text = sf.btrim(value, sf.lit(BLANKS))
    pattern = DATETIME_PATTERN if type is Type.DATE else type.pattern
    tried = text.try_cast(type.spark)
    return tried if type is Type.BOOLEAN else sf.when(text.rlike(f"^(?:{pattern})$"), tried)


def _to_number(text: str) -> int:
    return cast(text, "long")


_COMPILED: Final = "the compiler makes it of `can_cast` and `cast`"
_conversion = partial(FunctionRow, family="Conversion")

ROWS: Final = (
    _conversion(
        name="cast", signature="(any, type) -> type",
        summary="Converts to a type: `cast(X, long)`. Numbers lose their fraction; a text must "
        "be a value of the type.",
        example=('cast("12", long)', 12), scalar=cast, arrow=_arrow_cast, spark=_spark_cast,
        fails=True, grows=True, lacks={"duckdb": "its casts round, and read other texts"},
    ),
    _conversion(
        name="try_cast", signature="(any, type) -> type",
        summary="As `cast`, but missing where there is no such value.",
        example=('try_cast("12", long)', 12), scalar=try_cast, tested_by="can_cast",
        given_by="cast", grows=True,
        lacks={"arrow": _COMPILED, "spark": _COMPILED, "duckdb": "its casts read other texts"},
    ),
    _conversion(
        name="can_cast", signature="(any, type) -> boolean",
        summary="Whether `cast` has a value.", example=('can_cast("a", long)', False),
        scalar=_can_cast,
        spark=lambda sf, value, word, given: _spark_cast(sf, value, word, given).isNotNull(),
        lacks={"arrow": "it has none", "duckdb": "its casts read other texts"},
    ),
    _conversion(
        name="to_string", signature="(any) -> string",
        summary="A value as text: `cast(X, string)`.", example=("to_string(2.5)", "2.5"),
        scalar=text_of, arrow=lambda pc, value: _arrow_cast(pc, value, "string"), grows=True,
        duckdb="CAST({0} AS VARCHAR)", fails=True,
        lacks={"spark": "Spark keeps trailing zeros of decimals",
               "duckdb": "it writes large doubles in another way"},
    ),
    _conversion(
        name="to_number", signature="(string) -> long",
        summary="Parses an integer: `cast(X, long)`.",
        example=('to_number("12")', 12), scalar=_to_number,
        arrow=lambda pc, value: _arrow_cast(pc, value, "long"), fails=True,
        spark=lambda sf, value: _spark_cast(sf, value, "long", Type.STRING),
        duckdb="CAST({0} AS BIGINT)",
    ),
)  # fmt: skip
