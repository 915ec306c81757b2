"""Functions of dates and datetimes, which have no time zone: they are in UTC where that matters.

Years go from 1 to 9999; what leaves them is an error. Spark's own functions are called where they
do not go through the time zone of a session.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

from caladan.program.functions.row import FunctionRow
from caladan.program.types import Type
from caladan.program.values import parse, quote_value

_EPOCH: Final = dt.datetime(1970, 1, 1)
_DAY_ONE: Final = dt.date(1970, 1, 1)
_FIRST: Final = (dt.date.min - _DAY_ONE).days
_LAST: Final = (dt.date.max - _DAY_ONE).days
_SECOND: Final = dt.timedelta(seconds=1)
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _check_range(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose dates may leave the years that there are: that is a ValueError."""

    def evaluate(*values: Any) -> Any:
        try:
            return function(*values)
        except OverflowError:
            raise ValueError("the date is out of range (years 1 to 9999)") from None

    return evaluate


def _add_months(date: dt.date, count: int) -> dt.date:
    year, month = divmod(date.year * 12 + date.month - 1 + count, 12)
    if not 1 <= year <= 9999:
        raise OverflowError
    last = calendar.monthrange(year, month + 1)[1]
    return date.replace(year=year, month=month + 1, day=min(date.day, last))


def _last_day(date: dt.date) -> dt.date:
    return date.replace(day=calendar.monthrange(date.year, date.month)[1])


def _next_day(date: dt.date, name: str) -> dt.date:
    found = [i for i, day in enumerate(_DAYS) if name.lower() in (day, day[:3], day[:2])]
    if not found:
        raise ValueError(f"{quote_value(name)} is not a day of the week")
    return date + dt.timedelta(days=(found[0] - date.weekday() - 1) % 7 + 1)


def _make_date(year: int, month: int, day: int) -> dt.date:
    try:
        return dt.date(year, month, day)
    except (ValueError, OverflowError) as problem:
        raise ValueError(f"there is no date {year}-{month}-{day} ({problem})") from None


def _make_datetime(
    year: int, month: int, day: int, hour: int, minute: int, second: float
) -> dt.datetime:
    whole = int(second)
    try:
        rest = round((second - whole) * 1_000_000)
        return dt.datetime(year, month, day, hour, minute, whole) + dt.timedelta(microseconds=rest)
    except (ValueError, OverflowError) as problem:
        raise ValueError(
            f"there is no datetime {year}-{month}-{day} {hour}:{minute}:{second} ({problem})"
        ) from None


# ── Units ────────────────────────────────────────────────────────────────────────────────────────

_UNITS: Final = {
    **dict.fromkeys(("year", "years", "yyyy", "yy"), "year"),
    **dict.fromkeys(("quarter", "quarters"), "quarter"),
    **dict.fromkeys(("month", "months", "mon", "mm"), "month"),
    **dict.fromkeys(("week", "weeks"), "week"),
    **dict.fromkeys(("day", "days", "dd"), "day"),
    **dict.fromkeys(("hour", "hours"), "hour"),
    **dict.fromkeys(("minute", "minutes"), "minute"),
    **dict.fromkeys(("second", "seconds"), "second"),
}
_SHORTEST: Final = ("year", "quarter", "month", "week")
_MONTHS: Final = {"year": 12, "quarter": 3, "month": 1}
_LENGTHS: Final = {
    "week": dt.timedelta(weeks=1), "day": dt.timedelta(days=1), "hour": dt.timedelta(hours=1),
    "minute": dt.timedelta(minutes=1), "second": _SECOND,
}  # fmt: skip


def _unit(name: str, known: tuple[str, ...] = (*_MONTHS, *_LENGTHS)) -> str:
    found = _UNITS.get(name.lower())
    if found not in known:
        raise ValueError(f"{quote_value(name)} is not a unit of time here: {', '.join(known)}")
    return found


def _truncate(date: dt.date, unit: str) -> dt.date:
    """The first day of a year, quarter, month or week."""
    if unit == "week":
        return date - dt.timedelta(days=date.weekday())
    month = {"year": 1, "quarter": (date.month - 1) // 3 * 3 + 1}.get(unit, date.month)
    return date.replace(month=month, day=1)


def _trunc(date: dt.date, unit: str) -> dt.date:
    return _truncate(date, _unit(unit, _SHORTEST))


def _date_trunc(unit: str, moment: dt.datetime) -> dt.datetime:
    unit = _unit(unit)
    if unit in _SHORTEST:
        return dt.datetime.combine(_truncate(moment.date(), unit), dt.time.min)
    return moment - (moment - dt.datetime.min) % _LENGTHS[unit]


def _timestampadd(unit: str, count: int, moment: dt.datetime) -> dt.datetime:
    unit = _unit(unit)
    if unit in _MONTHS:
        day = _add_months(moment.date(), count * _MONTHS[unit])
        return dt.datetime.combine(day, moment.time())
    return moment + _LENGTHS[unit] * count


def _timestampdiff(unit: str, start: dt.datetime, end: dt.datetime) -> int:
    """How many whole units lie between two moments."""
    unit = _unit(unit)
    if unit in _LENGTHS:
        whole = abs(end - start) // _LENGTHS[unit]
        return whole if end >= start else -whole
    sign, first, last = (1, start, end) if end >= start else (-1, end, start)
    months = (last.year - first.year) * 12 + last.month - first.month
    if (last.day, last.time()) < (first.day, first.time()):
        months -= 1
    return sign * (months // _MONTHS[unit])


# ── Text ─────────────────────────────────────────────────────────────────────────────────────────

_TOKENS: Final = re.compile(r"'(?:[^']|'')*'|([a-zA-Z])\1*|[^a-zA-Z']+")
_PARTS: Final[dict[str, tuple[str, Callable[[dt.datetime], str]]]] = {
    "yyyy": (r"(?P<year>\d{4})", lambda m: f"{m.year:04}"),
    "y": (r"(?P<year>\d{4})", lambda m: str(m.year)),
    "yy": (r"(?P<short>\d{2})", lambda m: f"{m.year % 100:02}"),
    "MM": (r"(?P<month>\d{2})", lambda m: f"{m.month:02}"),
    "M": (r"(?P<month>\d{1,2})", lambda m: str(m.month)),
    "MMM": (r"(?P<named>[A-Za-z]{3})", lambda m: calendar.month_abbr[m.month]),
    "MMMM": (r"(?P<named>[A-Za-z]+)", lambda m: calendar.month_name[m.month]),
    "dd": (r"(?P<day>\d{2})", lambda m: f"{m.day:02}"),
    "d": (r"(?P<day>\d{1,2})", lambda m: str(m.day)),
    "HH": (r"(?P<hour>\d{2})", lambda m: f"{m.hour:02}"),
    "H": (r"(?P<hour>\d{1,2})", lambda m: str(m.hour)),
    "mm": (r"(?P<minute>\d{2})", lambda m: f"{m.minute:02}"),
    "ss": (r"(?P<second>\d{2})", lambda m: f"{m.second:02}"),
    "SSS": (r"(?P<fraction>\d{3})", lambda m: f"{m.microsecond // 1000:03}"),
    "SSSSSS": (r"(?P<fraction>\d{6})", lambda m: f"{m.microsecond:06}"),
    "E": (r"[A-Za-z]{3}", lambda m: calendar.day_abbr[m.weekday()]),
    "EEE": (r"[A-Za-z]{3}", lambda m: calendar.day_abbr[m.weekday()]),
    "EEEE": (r"[A-Za-z]+", lambda m: calendar.day_name[m.weekday()]),
}
"""The letters of patterns: what they read, and what they write."""


@cache
def _pattern(pattern: str) -> tuple[re.Pattern[str], tuple[Callable[[dt.datetime], str], ...]]:
    reads: list[str] = []
    writes: list[Callable[[dt.datetime], str]] = []
    place = 0
    while place < len(pattern):
        found = _TOKENS.match(pattern, place)
        text = found[0] if found else pattern[place]
        if found is None or (found[1] and text not in _PARTS):
            raise ValueError(
                f"{quote_value(text)} has no meaning in the pattern {quote_value(pattern)}: there "
                f"are {' '.join(_PARTS)}, and text in quotes"
            )
        if found[1]:
            reads.append(_PARTS[text][0])
            writes.append(_PARTS[text][1])
        else:
            plain = text[1:-1].replace("''", "'") or "'" if text[0] == "'" else text
            reads.append(re.escape(plain))
            writes.append(lambda _, plain=plain: plain)
        place = found.end()
    try:
        return re.compile("".join(reads), re.ASCII), tuple(writes)
    except re.error:
        raise ValueError(f"the pattern {quote_value(pattern)} has a part twice") from None


def _date_format(moment: dt.datetime, pattern: str) -> str:
    return "".join(write(moment) for write in _pattern(pattern)[1])


def _to_datetime(text: str, pattern: str | None = None) -> dt.datetime:
    if pattern is None:
        found = parse(text, Type.DATETIME)
        assert isinstance(found, dt.datetime)
        return found
    found = _pattern(pattern)[0].fullmatch(text)
    if found is None:
        raise ValueError(f"{quote_value(text)} is not written as {pattern}")
    given = {name: value for name, value in found.groupdict().items() if value is not None}
    year = int(given.get("year") or 2000 + int(given.get("short", "-30")))
    month = int(given.get("month", "1"))
    if "named" in given:
        short = [name.lower() for name in calendar.month_abbr]
        month = (
            short.index(given["named"][:3].lower()) if given["named"][:3].lower() in short else 0
        )
    try:
        return dt.datetime(
            year, month, int(given.get("day", "1")), int(given.get("hour", "0")),
            int(given.get("minute", "0")), int(given.get("second", "0")),
            int(given.get("fraction", "0").ljust(6, "0")),
        )  # fmt: skip
    except ValueError as problem:
        raise ValueError(f"{quote_value(text)} is not a date ({problem})") from None


def _to_date(text: str, pattern: str | None = None) -> dt.date:
    if pattern is None:
        found = parse(text, Type.DATE)
        assert isinstance(found, dt.date)
        return found
    return _to_datetime(text, pattern).date()


# ── Columns ──────────────────────────────────────────────────────────────────────────────────────


def _is_array(value: Any) -> bool:
    return hasattr(value, "buffers")


def _days(column: Any) -> Any:
    """A column of dates as NumPy's days."""
    import numpy as np

    return np.asarray(column.view("int32")).astype("datetime64[D]")


def _dates(days: Any) -> Any:
    """NumPy's days as a column of dates; None if one is out of range."""
    import numpy as np
    import pyarrow as pa

    numbers = days.astype("datetime64[D]").astype(np.int64)
    if len(numbers) and not _FIRST <= numbers.min() <= numbers.max() <= _LAST:
        return None
    return pa.array(numbers.astype(np.int32)).view(pa.date32())


def _arrow_part(name: str, **options: Any) -> Callable[..., Any]:
    return lambda pc, value: getattr(pc, name)(value, **options)


def _arrow_date_add(sign: int) -> Callable[..., Any]:
    def add(_pc: Any, date: Any, count: Any) -> Any:
        import numpy as np

        if not _is_array(date):
            return None
        numbers = np.asarray(count) if _is_array(count) else np.int64(count)
        if np.any(np.abs(numbers.astype(np.float64)) > 4_000_000):
            return None
        return _dates(_days(date).astype(np.int64) + sign * numbers)

    return add


def _arrow_date_diff(_pc: Any, end: Any, start: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    sides = [
        _days(each).astype(np.int64) if _is_array(each) else (each - _DAY_ONE).days
        for each in (end, start)
    ]
    return pa.array(sides[0] - sides[1])


def _arrow_trunc(_pc: Any, date: Any, unit: Any) -> Any:
    import numpy as np

    if not _is_array(date) or _is_array(unit):
        return None
    unit, days = _unit(unit, _SHORTEST), _days(date)
    if unit == "week":
        return _dates(days - (days.astype(np.int64) + 3) % 7)
    if unit == "quarter":
        months = days.astype("datetime64[M]").astype(np.int64)
        return _dates((months - months % 3).astype("datetime64[M]"))
    return _dates(days.astype("datetime64[Y]" if unit == "year" else "datetime64[M]"))


def _arrow_last_day(_pc: Any, date: Any) -> Any:
    return _dates((_days(date).astype("datetime64[M]") + 1).astype("datetime64[D]") - 1)


def _arrow_date_trunc(pc: Any, unit: Any, moment: Any) -> Any:
    if _is_array(unit) or not _is_array(moment):
        return None
    return pc.floor_temporal(moment, unit=_unit(unit))


def _arrow_to_unix(pc: Any, moment: Any) -> Any:
    import pyarrow as pa

    return pc.floor(pc.divide(pc.cast(pc.cast(moment, pa.int64()), pa.float64()), 1e6))


def _spark_dates(make: Callable[..., Any]) -> Callable[..., Any]:
    """Spark's dates of functions that count: null where they leave the years there are."""

    def evaluate(sf: Any, date: Any, count: Any) -> Any:
        near = sf.abs(count) <= 4_000_000
        made = make(sf, date, sf.when(near, count).cast("int"))
        days = sf.unix_date(made)
        return sf.when(near & (days >= _FIRST) & (days <= _LAST), made)

    return evaluate


_time = partial(FunctionRow, family="Time")
_BY_VALUE: Final = {"arrow": "it is called once for each distinct value"}
_ZONE: Final = "Spark's function depends on the time zone of the session"
_PATTERNS: Final = "Spark accepts other patterns"


def _part(
    name: str, summary: str, example: tuple[str, int], arrow: Callable[..., Any],
    scalar: Callable[[Any], int], *, takes: str = "date", duckdb: str | None = None,
    aliases: tuple[str, ...] = (), moves: str = "?",
) -> FunctionRow:  # fmt: skip
    """A row of a function that gives a part of a date or a datetime."""
    both = takes == "date"
    return _time(
        name=name, aliases=aliases, summary=summary, example=example, scalar=scalar, arrow=arrow,
        signature="(date) -> long | (datetime) -> long" if both else "(datetime) -> long",
        spark=name, duckdb=duckdb or name, moves=moves,
    )  # fmt: skip


ROWS: Final = (
    _part("year", "The year.", ('year("2024-02-29")', 2024), _arrow_part("year"),
          lambda d: d.year, moves="+"),
    _part("quarter", "The quarter of a year, from 1.", ('quarter("2024-02-29")', 1),
          _arrow_part("quarter"), lambda d: (d.month + 2) // 3),
    _part("month", "The month, from 1.", ('month("2024-02-29")', 2), _arrow_part("month"),
          lambda d: d.month),
    _part("day", "The day of the month, from 1.", ('day("2024-02-29")', 29), _arrow_part("day"),
          lambda d: d.day, aliases=("dayofmonth", "day_of_month")),
    _part("weekofyear", "The week of the year by ISO 8601.",
          ('weekofyear("2024-02-29")', 9), _arrow_part("iso_week"), lambda d: d.isocalendar()[1],
          aliases=("week_of_year",)),
    _part("dayofweek", "The day of the week; Sunday is 1.",
          ('dayofweek("2024-02-29")', 5),
          _arrow_part("day_of_week", count_from_zero=False, week_start=7),
          lambda d: d.isoweekday() % 7 + 1, duckdb="dayofweek({0}) + 1", aliases=("day_of_week",)),
    _part("weekday", "The day of the week; Monday is 0.",
          ('weekday("2024-02-29")', 3), _arrow_part("day_of_week"), dt.date.weekday,
          duckdb="isodow({0}) - 1"),
    _part("dayofyear", "The day of the year, from 1.", ('dayofyear("2024-02-29")', 60),
          _arrow_part("day_of_year"), lambda d: d.timetuple().tm_yday, aliases=("day_of_year",)),
    _part("hour", "The hour, from 0.", ('hour("2024-02-29T13:14:15")', 13), _arrow_part("hour"),
          lambda m: m.hour, takes="datetime"),
    _part("minute", "The minute, from 0.", ('minute("2024-02-29T13:14:15")', 14),
          _arrow_part("minute"), lambda m: m.minute, takes="datetime"),
    _part("second", "The second, from 0, without its fraction.",
          ('second("2024-02-29T13:14:15")', 15), _arrow_part("second"), lambda m: m.second,
          takes="datetime"),
    _time(
        name="dayname", signature="(date) -> string", summary="The short name of the weekday.",
        example=('dayname("2024-02-29")', "Thu"), scalar=lambda d: calendar.day_abbr[d.weekday()],
        spark="dayname", duckdb="left(dayname({0}), 3)", lacks=_BY_VALUE,
    ),
    _time(
        name="monthname", signature="(date) -> string", summary="The short name of the month.",
        example=('monthname("2024-02-29")', "Feb"), scalar=lambda d: calendar.month_abbr[d.month],
        spark="monthname", duckdb="left(monthname({0}), 3)", lacks=_BY_VALUE,
    ),
    _time(
        name="last_day", signature="(date) -> date", summary="The last day of the month.",
        example=('last_day("2024-02-10")', dt.date(2024, 2, 29)), scalar=_last_day,
        arrow=_arrow_last_day, spark="last_day", duckdb="last_day", moves="+",
    ),
    _time(
        name="next_day", signature="(date, string) -> date",
        summary="The first day of that name after a date.",
        example=('next_day("2024-02-29", "Mon")', dt.date(2024, 3, 4)),
        scalar=_check_range(_next_day), fails=True, moves="+?", grows=True,
        lacks={**_BY_VALUE, "spark": "Spark reports errors differently", "duckdb": "it has none"},
    ),
    _time(
        name="date_add", aliases=("dateadd",), signature="(date, long) -> date",
        summary="The date n days later.",
        example=('date_add("2024-02-28", 2)', dt.date(2024, 3, 1)),
        scalar=_check_range(lambda d, n: d + dt.timedelta(days=n)), arrow=_arrow_date_add(1),
        spark=_spark_dates(lambda sf, d, n: sf.date_add(d, n)), fails=True,
        duckdb="{0} + CAST({1} AS INTEGER)", moves="+", grows=True,
    ),
    _time(
        name="date_sub", signature="(date, long) -> date",
        summary="The date n days earlier.",
        example=('date_sub("2024-03-01", 1)', dt.date(2024, 2, 29)),
        scalar=_check_range(lambda d, n: d - dt.timedelta(days=n)), arrow=_arrow_date_add(-1),
        spark=_spark_dates(lambda sf, d, n: sf.date_sub(d, n)), fails=True,
        duckdb="{0} - CAST({1} AS INTEGER)", moves="+-", grows=True,
    ),
    _time(
        name="date_diff", aliases=("datediff",), signature="(date, date) -> long",
        summary="The number of days from the second date to the first.",
        example=('date_diff("2024-03-01", "2024-02-28")', 2), scalar=lambda end, start:
        (end - start).days, arrow=_arrow_date_diff, spark="datediff",
        duckdb="date_diff('day', {1}, {0})", moves="+-",
    ),
    _time(
        name="add_months", signature="(date, long) -> date",
        summary="The date n months later, or the last day of a shorter month.",
        example=('add_months("2024-01-31", 1)', dt.date(2024, 2, 29)),
        scalar=_check_range(_add_months), fails=True, moves="+", grows=True,
        spark=_spark_dates(
            lambda sf, d, n: sf.add_months(d, sf.when(sf.abs(n) <= 130_000, n))),
        duckdb="CAST({0} + to_months(CAST({1} AS INTEGER)) AS DATE)", lacks=_BY_VALUE,
    ),
    _time(
        name="make_date", signature="(long, long, long) -> date",
        summary="The date of a year, a month and a day.",
        example=("make_date(2024, 2, 29)", dt.date(2024, 2, 29)), scalar=_make_date, fails=True,
        duckdb="make_date",
        lacks={**_BY_VALUE, "spark": "Spark reports errors differently"},
    ),
    _time(
        name="make_timestamp", sql=("make_timestamp_ntz",),
        signature="(long, long, long, long, long, double) -> datetime",
        summary="The datetime of a year, a month, a day, an hour, a minute and a second.",
        example=("make_timestamp(2024, 2, 29, 13, 14, 15.5)",
                 dt.datetime(2024, 2, 29, 13, 14, 15, 500_000)),
        scalar=_make_datetime, fails=True, duckdb="make_timestamp",
        lacks={**_BY_VALUE, "spark": "Spark reports errors differently"},
    ),
    _time(
        name="trunc", signature="(date, string) -> date",
        summary="The first day of the year, quarter, month or week of a date.",
        example=('trunc("2024-02-29", "month")', dt.date(2024, 2, 1)), scalar=_check_range(_trunc),
        arrow=_arrow_trunc, fails=True, spark="trunc", duckdb="CAST(date_trunc({1}, {0}) AS DATE)",
        moves="+?",
    ),
    _time(
        name="date_trunc", signature="(string, datetime) -> datetime",
        summary="The start of the year, quarter, month, week, day, hour, minute or second of a "
        "datetime.",
        example=('date_trunc("hour", "2024-02-29T13:14:15")', dt.datetime(2024, 2, 29, 13)),
        scalar=_check_range(_date_trunc), arrow=_arrow_date_trunc, fails=True, duckdb="date_trunc",
        lacks={"spark": _ZONE}, moves="?+",
    ),
    _time(
        name="timestampadd", signature="(string, long, datetime) -> datetime",
        summary="The datetime n units later; the units are those of `date_trunc`.",
        example=('timestampadd("hour", 2, "2024-02-29T23:00:00")', dt.datetime(2024, 3, 1, 1)),
        scalar=_check_range(_timestampadd), fails=True, moves="?++", grows=True,
        lacks={**_BY_VALUE, "spark": "Spark needs a literal unit",
               "duckdb": "it has one function for each unit"},
    ),
    _time(
        name="timestampdiff", signature="(string, datetime, datetime) -> long",
        summary="The number of whole units from the first datetime to the second.",
        example=('timestampdiff("hour", "2024-02-29T12:30:00", "2024-02-29T15:00:00")', 2),
        scalar=_timestampdiff, fails=True, duckdb="date_sub", moves="?-+",
        lacks={**_BY_VALUE, "spark": "Spark needs a literal unit"},
    ),
    _time(
        name="to_unix", aliases=("unix_seconds",), sql=("unix_timestamp", "to_unix_timestamp"),
        signature="(datetime) -> long",
        summary="The whole seconds since 1970-01-01, in UTC.",
        example=('to_unix("1970-01-02T00:00:01")', 86_401),
        scalar=lambda m: (m - _EPOCH) // _SECOND, arrow=_arrow_to_unix,
        duckdb="CAST(floor(epoch({0})) AS BIGINT)", lacks={"spark": _ZONE}, moves="+",
    ),
    _time(
        name="from_unix", aliases=("timestamp_seconds",), signature="(long) -> datetime",
        summary="The datetime this many seconds after 1970-01-01, in UTC.",
        example=("from_unix(86401)", dt.datetime(1970, 1, 2, 0, 0, 1)),
        scalar=_check_range(lambda n: _EPOCH + dt.timedelta(seconds=n)), fails=True,
        duckdb="make_timestamp({0} * 1000000)", lacks={**_BY_VALUE, "spark": _ZONE}, moves="+",
    ),
    _time(
        name="unix_date", signature="(date) -> long",
        summary="The days since 1970-01-01.", example=('unix_date("1970-01-11")', 10),
        scalar=lambda d: (d - _DAY_ONE).days,
        arrow=lambda pc, d: _arrow_date_diff(pc, d, _DAY_ONE), spark="unix_date",
        duckdb="date_diff('day', DATE '1970-01-01', {0})", moves="+",
    ),
    _time(
        name="date_from_unix_date", signature="(long) -> date",
        summary="The date this many days after 1970-01-01.",
        example=("date_from_unix_date(10)", dt.date(1970, 1, 11)),
        scalar=_check_range(lambda n: _DAY_ONE + dt.timedelta(days=n)), fails=True,
        spark=lambda sf, n: sf.when(
            (n >= _FIRST) & (n <= _LAST), sf.date_from_unix_date(
                sf.when((n >= _FIRST) & (n <= _LAST), n).cast("int"))),
        duckdb="DATE '1970-01-01' + CAST({0} AS INTEGER)", lacks=_BY_VALUE, moves="+",
        inverse={0: "unix_date"},
    ),
    _time(
        name="date_format", signature="(datetime, string) -> string",
        summary="A datetime as text of a pattern: y yy yyyy M MM MMM MMMM d dd H HH mm ss SSS "
        "SSSSSS E EEE EEEE, and text in quotes.",
        example=('date_format("2024-02-29T13:14:15", "dd.MM.yyyy HH:mm")', "29.02.2024 13:14"),
        scalar=_date_format, fails=True,
        lacks={**_BY_VALUE, "spark": _PATTERNS, "duckdb": "its patterns are C's"},
    ),
    _time(
        name="to_date", signature="(string, string?) -> date",
        summary="Parses a date, in ISO form or by a pattern (see `date_format`).",
        example=('to_date("29.02.2024", "dd.MM.yyyy")', dt.date(2024, 2, 29)), scalar=_to_date,
        fails=True, lacks={**_BY_VALUE, "spark": _PATTERNS, "duckdb": "its patterns are C's"},
    ),
    _time(
        name="to_timestamp", sql=("to_timestamp_ntz",), signature="(string, string?) -> datetime",
        summary="Parses a datetime, in ISO form or by a pattern (see `date_format`).",
        example=('to_timestamp("29.02.2024 13:14", "dd.MM.yyyy HH:mm")',
                 dt.datetime(2024, 2, 29, 13, 14)),
        scalar=_to_datetime, fails=True,
        lacks={**_BY_VALUE, "spark": _PATTERNS, "duckdb": "its patterns are C's"},
    ),
)  # fmt: skip
