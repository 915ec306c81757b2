"""Values: from Python and from text to the types of columns, strictly.

`fit` converts a Python value, `parse` a field of a text file, `guess` a parameter typed at a
shell; `iso` writes a datetime, `write_value` any value, as text that `parse` reads back. What does
not fit raises ValueError with a reason that completes a diagnostic ("300 does not fit in byte (-128
to 127)"); what is not there at all raises `Missing`.

types.py has the patterns of text that is a value, which every reader shares.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final, cast

from caladan.program.nested import Packed, Struct, json_text, pack, python, unpack
from caladan.program.program import Value
from caladan.program.types import (
    BINARY_PATTERN,
    BLANKS,
    DATE_PATTERN,
    DATETIME_PATTERN,
    DECIMAL_PATTERN,
    FLOAT_PATTERN,
    INTEGER_PATTERN,
    INTERVAL_PATTERN,
    MOST_DIGITS,
    Kind,
    Type,
)

_INTEGER: Final = re.compile(INTEGER_PATTERN)
_FLOAT: Final = re.compile(FLOAT_PATTERN)
_DATETIME: Final = re.compile(DATETIME_PATTERN)
_TOO_FINE: Final = re.compile(r"[0-9-]{10}[T ][0-9:]{8}\.[0-9]{7,}(?:Z|[+-][0-9:]{5})?")
_DATE: Final = re.compile(DATE_PATTERN)
_DECIMAL: Final = re.compile(DECIMAL_PATTERN)
_BINARY: Final = re.compile(BINARY_PATTERN)
_INTERVAL: Final = re.compile(INTERVAL_PATTERN)
_UNITS: Final = {
    "week": dt.timedelta(weeks=1),
    "day": dt.timedelta(days=1),
    "hour": dt.timedelta(hours=1),
    "minute": dt.timedelta(minutes=1),
    "second": dt.timedelta(seconds=1),
    "millisecond": dt.timedelta(milliseconds=1),
    "microsecond": dt.timedelta(microseconds=1),
}
_LONG_DIGITS: Final = 19  # of a whole number that 64 bits hold
_EXACTLY: Final = Context(prec=MOST_DIGITS, traps=[Inexact, InvalidOperation])
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}


class Missing(ValueError):
    """There is no value where one must be."""

    def __init__(self) -> None:
        super().__init__("there is no value")


def fit(value: object, type: Type) -> Value:
    """A Python value as a value of a column type.

    >>> fit(7, Type.BYTE), fit(1, Type.DOUBLE), fit("2024-01-31", Type.DATETIME)
    (7, 1.0, datetime.datetime(2024, 1, 31, 0, 0))
    >>> fit(300, Type.BYTE)
    Traceback (most recent call last):
    ValueError: 300 does not fit in byte (-128 to 127)
    """
    if _is_too_fine(value):
        raise ValueError(f"{value!s} is finer than a microsecond, which no datetime is")
    value = plain(value)
    if value is None:
        raise Missing
    if type.is_integral:
        return _fit_integer(value, type)
    if type.is_floating:
        return _fit_float(value, type)
    if type is Type.DATETIME:
        return _fit_datetime(value)
    if type is Type.BOOLEAN and isinstance(value, bool):
        return value
    if type is Type.STRING and isinstance(value, str):
        return _fit_string(value)
    if type is Type.DATE:
        return _fit_date(value)
    if type.is_decimal:
        return _fit_decimal(value, type)
    if type is Type.INTERVAL:
        return _fit_interval(value)
    if type is Type.BINARY:
        return _fit_binary(value)
    if type.is_nested:
        return _fit_nested(value, type)
    raise _not_a(value, type)


def parse(text: str, type: Type) -> Value:
    """A field of a text file as a value of a column type.

    >>> parse(" +5", Type.INTEGER), parse("1e3", Type.DOUBLE), parse("TRUE", Type.BOOLEAN)
    (5, 1000.0, True)
    """
    if type is Type.STRING:
        return text
    trimmed = text.strip(BLANKS)
    if type.is_integral and _INTEGER.fullmatch(trimmed):
        return _integer(trimmed, type)
    if type.is_floating and _FLOAT.fullmatch(trimmed):
        number = float(trimmed)
        if math.isinf(number) and "n" not in trimmed.lower():
            raise _too_large(trimmed, type)
        return _fit_float(number, type)
    if type is Type.BOOLEAN and trimmed.lower() in _BOOLEANS:
        return _BOOLEANS[trimmed.lower()]
    if type is Type.DATETIME and _DATETIME.fullmatch(trimmed):
        return _parse_datetime(trimmed)
    if type is Type.DATETIME and _TOO_FINE.fullmatch(trimmed):
        raise ValueError(f"{quote_value(text)} is finer than a microsecond, which no datetime is")
    if type is Type.DATE and _DATE.fullmatch(trimmed):
        return _parse_date(trimmed)
    if type.is_decimal and _DECIMAL.fullmatch(trimmed):
        return _exact(Decimal(trimmed), type)
    if type is Type.INTERVAL and trimmed.strip("+-") and _INTERVAL.fullmatch(trimmed.lower()):
        return _parse_interval(trimmed.lower())
    if type is Type.BINARY and _BINARY.fullmatch(trimmed):
        return bytes.fromhex(trimmed)
    if type.is_nested:
        return _fit_nested(_from_json(trimmed, type), type)
    raise _not_a(text, type)


def guess(text: str) -> Value:
    """The value a user means by a word on a command line; quotes make it a string.

    >>> guess("5"), guess("0.5"), guess("true"), guess("'5'"), guess("spice")
    (5, 0.5, True, '5', 'spice')
    """
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if _INTEGER.fullmatch(text) and len(text) < 1000:  # whether it fits is for its column to say
        return int(text)
    if _FLOAT.fullmatch(text) and not text[-1:].isalpha():
        return parse(text, Type.DOUBLE)
    return {"true": True, "false": False}.get(text.lower(), text)


def iso(value: dt.datetime) -> str:
    """A datetime as text that `parse` reads back; midnight is written as the date alone.

    >>> iso(dt.datetime(2024, 1, 31)), iso(dt.datetime(2024, 1, 31, 12, 30))
    ('2024-01-31', '2024-01-31T12:30:00')
    """
    return value.date().isoformat() if value.time() == dt.time.min else value.isoformat()


def write_value(value: Value) -> str:
    """A value as text that `parse` reads back.

    >>> written(True), written(Decimal("1.500")), written(b"\\xca\\xfe"), written(math.inf)
    ('true', '1.5', 'cafe', 'Infinity')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            if math.isinf(value):
                return "Infinity" if value > 0 else "-Infinity"
            return "NaN" if math.isnan(value) else repr(value)
        case dt.datetime():
            return iso(value)
        case dt.timedelta():
            return _interval_text(value)
        case Decimal():
            text = f"{value:f}"
            return text.rstrip("0").rstrip(".") if "." in text else text
        case Packed():
            return json_text(python(unpack(value), value.type), write_value)
        case bytes():
            return value.hex()
        case _:
            return str(value)


def plain(value: object) -> object:
    """A plain Python value for what NumPy and pandas wrap; None for their missing values."""
    kind = type(value)
    module = kind.__module__.partition(".")[0]
    if module == "pandas":
        if kind.__name__ in ("NaTType", "NAType"):
            return None
        is_timestamp = kind.__name__ == "Timestamp"
        return cast("Any", value).to_pydatetime(warn=False) if is_timestamp else value
    if module == "numpy":
        scalar = cast("Any", value)
        if kind.__name__ == "datetime64":
            return scalar.astype("datetime64[us]").item()
        is_array = bool(getattr(scalar, "ndim", 0))
        return scalar.item() if hasattr(scalar, "item") and not is_array else value
    return value


def _is_too_fine(value: object) -> bool:
    """Whether a moment of NumPy or pandas, or a text of one, has nanoseconds that would be lost."""
    kind = type(value)
    module = kind.__module__.partition(".")[0]
    if module == "pandas":
        return kind.__name__ == "Timestamp" and bool(cast("Any", value).nanosecond)
    if module == "numpy" and kind.__name__ == "datetime64":
        moment = cast("Any", value)
        return bool(moment == moment and moment.astype("datetime64[us]") != moment)
    return False


def _fit_integer(value: object, type: Type) -> int:
    if isinstance(value, Decimal) and value.is_finite():
        if value and value.adjusted() >= _LONG_DIGITS:  # written out it might fill the memory
            raise ValueError(f"{_shorten(_text(value))} does not fit in {_range(type)}")
        if value == value.to_integral_value():
            value = int(value) if value else 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise _not_a(value, type)
    return _in_range(int(value), type)


def _fit_float(value: object, type: Type) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _not_a(value, type)
    try:
        number = float(value)
        if type is Type.FLOAT:
            number = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        raise _too_large(_text(value), type) from None
    if math.isinf(number) and isinstance(value, Decimal) and value.is_finite():
        raise _too_large(_text(value), type)
    return number + 0.0  # -0.0 + 0.0 is 0.0


def _fit_datetime(value: object) -> dt.datetime:
    if isinstance(value, str):
        return cast("dt.datetime", parse(value, Type.DATETIME))
    if isinstance(value, dt.datetime):
        return _without_zone(value)
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day)
    raise _not_a(value, Type.DATETIME)


def _fit_date(value: object) -> dt.date:
    if isinstance(value, str):
        return cast("dt.date", parse(value, Type.DATE))
    if isinstance(value, dt.datetime):
        moment = _without_zone(value)
        if moment.time() != dt.time.min:
            raise ValueError(f"{iso(moment)} has a time of day, so it is not a date")
        return moment.date()
    if isinstance(value, dt.date):
        return value
    raise _not_a(value, Type.DATE)


def _fit_decimal(value: object, type: Type) -> Decimal:
    if isinstance(value, str):
        return cast("Decimal", parse(value, type))
    if isinstance(value, float) and math.isfinite(value):
        return _exact(Decimal(repr(value)), type)  # the number as it was written
    if isinstance(value, Decimal) and value.is_finite():
        return _exact(value, type)
    if isinstance(value, int) and not isinstance(value, bool):
        return _exact(Decimal(value), type)
    raise _not_a(value, type)


def _fit_interval(value: object) -> dt.timedelta:
    if isinstance(value, str):
        return cast("dt.timedelta", parse(value, Type.INTERVAL))
    if isinstance(value, dt.timedelta):
        return dt.timedelta(value.days, value.seconds, value.microseconds)
    raise _not_a(value, Type.INTERVAL)


def _parse_interval(text: str) -> dt.timedelta:
    """`1 day 02:30:00`, `90 minutes`, `-2 hours`: the sign is that of the whole."""
    sign, rest = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    total = dt.timedelta(0)
    try:
        for count, unit in re.findall(r"([0-9]+) *([a-z]+?)s?(?![a-z])", rest):
            total += int(count) * _UNITS[unit]
        clock = re.search(r"([0-9]{1,2}):([0-9]{2})(?::([0-9.]+))?", rest)
        if clock is not None:
            hours, minutes, seconds = clock.groups()
            total += dt.timedelta(hours=int(hours), minutes=int(minutes))
            total += dt.timedelta(microseconds=int(Decimal(seconds or 0).scaleb(6)))
        return sign * total
    except OverflowError:
        raise ValueError(f"{quote_value(text)} is an interval beyond 999999999 days") from None


def _interval_text(value: dt.timedelta) -> str:
    sign, size = ("-", -value) if value < dt.timedelta(0) else ("", value)
    seconds = size - dt.timedelta(size.days)
    clock = (
        f"{seconds.seconds // 3600:02}:{seconds.seconds // 60 % 60:02}:{seconds.seconds % 60:02}"
    )
    fraction = f".{size.microseconds:06}".rstrip("0") if size.microseconds else ""
    days = f"{size.days} day{'' if size.days == 1 else 's'} " if size.days else ""
    return f"{sign}{days}{clock}{fraction}"


def _fit_binary(value: object) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(cast("bytes", value))
    if isinstance(value, str):
        return cast("bytes", parse(value, Type.BINARY))
    raise _not_a(value, Type.BINARY)


def _fit_nested(value: object, type: Type) -> Packed:
    if isinstance(value, Packed):
        return value if value.type is type else pack(inside(unpack(value), type), type)
    return pack(inside(value, type), type)


def inside(value: object, type: Type) -> Any:
    """A list or a struct, with all values in it of their types; None for what is missing."""
    if isinstance(value, Packed):
        value = unpack(value)
    if not type.is_nested:
        try:
            return fit(value, type)
        except Missing:
            return None
    if value is None:
        return None
    if type.kind is Kind.LIST:
        if hasattr(value, "tolist"):  # an array of NumPy
            value = cast("Any", value).tolist()
        if not isinstance(value, list | tuple) or isinstance(value, Struct):
            raise _not_a(value, type)
        items = cast("Sequence[object]", value)
        if type.element is None:
            if items:
                raise _not_a(value, type)
            return ()
        return tuple(inside(each, type.element) for each in items)
    if isinstance(value, Struct) or hasattr(value, "asDict"):  # a Row of Spark
        value = value.asdict() if isinstance(value, Struct) else cast("Any", value).asDict()
    if not isinstance(value, Mapping):
        raise _not_a(value, type)
    named = cast("Mapping[str, object]", value)
    return tuple(inside(named.get(name), own) for name, own in type.fields)


def _from_json(text: str, type: Type) -> object:
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        raise _not_a(text, type) from None


def _exact(number: Decimal, type: Type) -> Decimal:
    """A number with as many digits after the point as its type has."""
    digits, scale = type.width
    try:
        made = number.quantize(Decimal(1).scaleb(-scale), context=_EXACTLY)
        if made.adjusted() < digits - scale:
            return _EXACTLY.add(made, Decimal(0))  # -0 + 0 is 0
    except (Inexact, InvalidOperation):
        pass
    raise ValueError(
        f"{_shorten(str(number))} does not fit in {type} "
        f"({digits - scale} digits before the point, {scale} after it)"
    )


def _fit_string(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{value!a} has characters that are not Unicode text") from None
    return str.__str__(value)  # of a member of an enum, the text and not its name


def _parse_datetime(text: str) -> dt.datetime:
    try:
        return _without_zone(dt.datetime.fromisoformat(text))
    except (ValueError, OverflowError) as problem:
        raise ValueError(f"{quote_value(text)} is not a datetime ({problem})") from None


def _parse_date(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError as problem:
        raise ValueError(f"{quote_value(text)} is not a date ({problem})") from None


def _without_zone(value: dt.datetime) -> dt.datetime:
    if value.tzinfo is None:
        return value
    return value.astimezone(dt.UTC).replace(tzinfo=None)


def _integer(text: str, type: Type) -> int:
    # Python refuses to convert thousands of digits; so many never fit in 64 bits anyway.
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > _LONG_DIGITS:
        raise ValueError(f"{quote_value(text)} does not fit in {_range(type)}")
    return _in_range(int(text), type)


def _in_range(number: int, type: Type) -> int:
    low, high = _limits(type)
    if low <= number <= high:
        return number
    raise ValueError(f"{_shorten(_text(number))} does not fit in {_range(type)}")


def _limits(type: Type) -> tuple[int, int]:
    assert type.range is not None, type
    return type.range


def _range(type: Type) -> str:
    low, high = _limits(type)
    return f"{type} ({low} to {high})"


def _too_large(text: str, type: Type) -> ValueError:
    return ValueError(f"{_shorten(text)} does not fit in {type}")


def _not_a(value: object, type: Type) -> ValueError:
    return ValueError(f"{quote_value(value)} is not {type.described}")


def quote_value(value: object) -> str:
    """A value for a message: short, and on one line."""
    return _shorten(_text(value) if isinstance(value, int | Decimal) else repr(value))


def shown(value: object) -> str:
    """A value as text that can be kept: whatever it is, and without what is not Unicode.

    >>> shown("tea"), shown("\\ud800")
    ('tea', '\\\\ud800')
    """
    text = _text(value) if isinstance(value, int | Decimal) else str(value)
    return text.encode(errors="backslashreplace").decode()


def _text(number: object) -> str:
    """A number as text; Python refuses to write thousands of digits."""
    if isinstance(number, int) and not isinstance(number, bool) and number.bit_length() > 4000:
        return f"a number of {int(number.bit_length() * 0.30103) + 1:,} digits"
    if isinstance(number, Decimal) and number.adjusted() > 1200 and not number.as_tuple().exponent:
        return f"a number of {number.adjusted() + 1:,} digits"
    return str(number)


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:50]}…{text[-1]}"
