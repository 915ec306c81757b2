"""Spark's functions for DuckDB: what each is there, as macros.

`MACROS` has an entry for every function that embedded knows: a name as Spark has it, and what
stands behind `CREATE MACRO name`. A macro may have several bodies, for arguments of different
types; DuckDB takes the one that fits. A function without an entry is refused, so nothing is
answered by a function of DuckDB that happens to have the same name.

What the entries see to, again and again: the type of the result, NULL, arguments out of range, and
that a failure is an error, as Spark's ANSI mode has it. `needs(name)` lists the macros that a macro
uses. Bodies only speak of their parameters; no text of users ever stands in them.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

PREFIX: Final = "spark_"
"""Stands before a function's name, so that no macro hides one of DuckDB's own functions."""

_BLANKS: Final = "' ' || chr(9) || chr(10) || chr(11) || chr(12) || chr(13)"


def _whole(type: str) -> str:
    """A cast to whole numbers: fractions are cut off, text must be a whole number."""
    failing = f"error('the value ''' || a || ''' cannot be cast to {type.lower()}')"
    text = f"CASE WHEN regexp_full_match(trim(a, {_BLANKS}), '[+-]?[0-9]+') "
    text += f"THEN CAST(trim(a, {_BLANKS}) AS {type}) WHEN a IS NULL THEN NULL ELSE {failing} END"
    bodies = [f"(a VARCHAR) AS {text}"]
    bodies += [f"(a {each}) AS CAST(trunc(a) AS {type})" for each in ("FLOAT", "DOUBLE")]
    cut = f"CAST(split_part(CAST(a AS VARCHAR), '.', 1) AS {type})"
    bodies.append(f"(a DECIMAL(38, 18)) AS {cut}")
    plain = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
    bodies += [f"(a {each}) AS CAST(a AS {type})" for each in plain]
    return ", ".join(bodies)


def _fraction(type: str) -> str:
    """A cast to numbers with a point; text may be `NaN`, `Infinity`, or end in d or f."""
    plain = r"'[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?'"
    text = f"trim(a, {_BLANKS})"
    words = f"lower(ltrim({text}, '+-'))"
    failing = f"error('the value ''' || a || ''' cannot be cast to {type.lower()}')"
    parsed = (
        f"CASE WHEN regexp_full_match({text}, {plain}) THEN CAST(rtrim({text}, 'dDfF') AS {type}) "
        f"WHEN {words} IN ('inf', 'infinity') "
        f"THEN CAST(CASE WHEN starts_with({text}, '-') THEN '-inf' ELSE 'inf' END AS {type}) "
        f"WHEN lower({text}) = 'nan' THEN CAST('nan' AS {type}) "
        f"WHEN a IS NULL THEN NULL ELSE {failing} END"
    )
    plainly = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE")
    exact = f"(a DECIMAL(38, 18)) AS CAST(CAST(a AS VARCHAR) AS {type})"
    return ", ".join([f"(a VARCHAR) AS {parsed}", exact,
                      *(f"(a {each}) AS CAST(a AS {type})" for each in plainly)])  # fmt: skip


def _each(body: str, types: str) -> str:
    """The same body for several types of `a`."""
    return ", ".join(f"(a {type}) AS {body}" for type in types.split())


def _special(upper: bool) -> str:
    """Letters that become several, or depend on their neighbours, in the other case."""
    blocks = (range(0x80, 0x600), range(0x1E90, 0x2000), range(0xFB00, 0xFB18))
    letters = [chr(i) for block in blocks for i in block]
    found = [c for c in letters if len(c.upper() if upper else c.lower()) > 1 and c != "ß"]
    return "".join(found) + ("" if upper else "Σ")


_NUMBERS: Final = "TINYINT SMALLINT INTEGER BIGINT FLOAT DOUBLE"
_INTEGERS: Final = "TINYINT SMALLINT INTEGER BIGINT"

_UNITS: Final = (
    ("year", "'YEAR', 'YYYY', 'YY'"),
    ("quarter", "'QUARTER'"),
    ("month", "'MONTH', 'MM', 'MON'"),
    ("week", "'WEEK'"),
)
_TIMES: Final = (
    ("day", "'DAY', 'DD'"),
    ("hour", "'HOUR'"),
    ("minute", "'MINUTE'"),
    ("second", "'SECOND'"),
    ("milliseconds", "'MILLISECOND'"),
    ("microseconds", "'MICROSECOND'"),
)


def _cut(value: str, units: tuple[tuple[str, str], ...], type: str) -> str:
    cases = " ".join(
        f"WHEN upper(f) IN ({words}) THEN CAST(date_trunc('{unit}', {value}) AS {type})"
        for unit, words in units
    )
    return f"CASE {cases} END"


_DAYS: Final = " ".join(
    f"WHEN upper(n) IN ('{day[:2]}', '{day[:3]}', '{day}') THEN {i}"
    for i, day in enumerate(
        ["MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"], 1
    )
)

_DATE_TEXT: Final = (
    "CASE WHEN regexp_full_match(t, '[0-9]{4,6}(-[0-9]{1,2}(-[0-9]{1,2}([ T].*)?)?)?') "
    "THEN CAST(regexp_extract(t, '^[0-9]+') "
    "|| '-' || coalesce(nullif(regexp_extract(t, '^[0-9]+-([0-9]+)', 1), ''), '01') "
    "|| '-' || coalesce(nullif(regexp_extract(t, '^[0-9]+-[0-9]+-([0-9]+)', 1), ''), "
    "'01') AS DATE) "
    "WHEN t IS NULL THEN NULL ELSE error('the value ''' || t || ''' cannot be cast to date') END"
)

_TIME_TEXT: Final = (
    "CASE WHEN regexp_full_match(t, '[0-9]{4,6}-[0-9]{1,2}-[0-9]{1,2}"
    "([ T][0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}(\\.[0-9]{1,9})?)?)?') "
    "THEN CAST(spark_date_of_text(regexp_extract(t, '^[0-9-]+')) AS TIMESTAMP) "
    "+ to_hours(CAST('0' || regexp_extract(t, '[ T]([0-9]+)', 1) AS INTEGER)) "
    "+ to_minutes(CAST('0' || regexp_extract(t, '[ T][0-9]+:([0-9]+)', 1) AS INTEGER)) "
    "+ to_seconds(CAST('0' || regexp_extract(t, '[ T][0-9]+:[0-9]+:([0-9]+)', 1) AS INTEGER)) "
    "+ to_microseconds(CAST(rpad(left(regexp_extract(t, '\\.([0-9]+)', 1), 6), 6, '0') "
    "AS INTEGER)) "
    "WHEN t IS NULL THEN NULL "
    "ELSE error('the value ''' || t || ''' cannot be cast to timestamp') END"
)

_TEXT_OF_NUMBER: Final = (
    "CASE WHEN t = 'nan' THEN 'NaN' WHEN t = 'inf' THEN 'Infinity' WHEN t = '-inf' THEN "
    "'-Infinity' "
    "WHEN abs(CAST(t AS DOUBLE)) = 0 OR (abs(CAST(t AS DOUBLE)) >= 0.001 "
    "AND abs(CAST(t AS DOUBLE)) < 10000000) THEN t "
    "WHEN contains(t, 'e') THEN split_part(t, 'e', 1) "
    "|| CASE WHEN contains(t, '.') THEN 'E' ELSE '.0E' END "
    "|| CAST(CAST(split_part(t, 'e', 2) AS INTEGER) AS VARCHAR) "
    "ELSE CASE WHEN starts_with(t, '-') THEN '-' ELSE '' END "
    "|| CASE WHEN abs(CAST(t AS DOUBLE)) >= 1 "
    "THEN spark_scientific(rtrim(replace(ltrim(t, '-'), '.', ''), '0'), "
    "length(split_part(ltrim(t, '-'), '.', 1)) - 1) "
    "ELSE spark_scientific(ltrim(split_part(t, '.', 2), '0'), "
    "length(ltrim(split_part(t, '.', 2), '0')) - length(split_part(t, '.', 2)) - 1) END END"
)

_ROUNDED: Final = (
    "CASE WHEN isnan(a) OR abs(a) >= 1e15 THEN a ELSE "
    "CAST(CAST(round(CAST(CAST(a AS VARCHAR) AS DECIMAL(38, 22)), n) AS VARCHAR) AS DOUBLE) END"
)

MACROS: Final[dict[str, str]] = {
    # Casts
    "tinyint": _whole("TINYINT"),
    "smallint": _whole("SMALLINT"),
    "int": _whole("INTEGER"),
    "bigint": _whole("BIGINT"),
    "float": _fraction("FLOAT"),
    "double": _fraction("DOUBLE"),
    "boolean": (
        f"(a VARCHAR) AS CASE WHEN lower(trim(a, {_BLANKS})) IN ('t', 'true', 'y', 'yes', '1') "
        f"THEN true WHEN lower(trim(a, {_BLANKS})) IN ('f', 'false', 'n', 'no', '0') THEN false "
        "WHEN a IS NULL THEN NULL ELSE error('the value ''' || a || ''' cannot be cast to "
        "boolean') "
        "END, " + _each("a <> 0", f"{_NUMBERS} DECIMAL(38,18)") + ", (a BOOLEAN) AS a"
    ),
    "string": (
        "(a VARCHAR) AS a, "
        + _each("CAST(a AS VARCHAR)", f"BOOLEAN {_INTEGERS} HUGEINT DATE TIMESTAMP")
        + ", (a BLOB) AS decode(a), "
        + _each("spark_text_of_number(CAST(a AS VARCHAR))", "FLOAT DOUBLE")
    ),
    "text_of_number": f"(t) AS {_TEXT_OF_NUMBER}",
    "scientific": (
        "(d, e) AS left(d, 1) || '.' || CASE WHEN length(d) > 1 THEN substring(d, 2) ELSE '0' END "
        "|| 'E' || CAST(e AS VARCHAR)"
    ),
    "date": (
        f"(a VARCHAR) AS spark_date_of_text(trim(a, {_BLANKS})), "
        "(a DATE) AS a, (a TIMESTAMP) AS CAST(a AS DATE)"
    ),
    "date_of_text": f"(t) AS {_DATE_TEXT}",
    "timestamp_ntz": (
        f"(a VARCHAR) AS spark_timestamp_of_text(trim(a, {_BLANKS})), "
        "(a DATE) AS CAST(a AS TIMESTAMP), (a TIMESTAMP) AS a"
    ),
    "timestamp_of_text": f"(t) AS {_TIME_TEXT}",
    "binary": "(a VARCHAR) AS encode(a), (a BLOB) AS a",
    # Numbers
    "divisor": "(a) AS CASE WHEN a = 0 THEN error('division by zero') ELSE a END",
    "integral": _each("a", f"{_INTEGERS} HUGEINT"),
    "div": "(a, b) AS CAST(a // spark_divisor(b) AS BIGINT)",
    "pmod": (
        "(a, b) AS CASE WHEN a % spark_divisor(b) < 0 THEN (a % b + b) % b "
        "ELSE a % spark_divisor(b) END"
    ),
    "minus": (
        "(a DATE, b DATE) AS error('embedded: DATE - DATE is an interval: write datediff(a, b)'), "
        "(a TIMESTAMP, b TIMESTAMP) AS "
        "error('embedded: TIMESTAMP - TIMESTAMP is an interval: write timestampdiff(SECOND, "
        "b, a)'), "
        "(a, b) AS a - b"
    ),
    "later": "(a DATE, i) AS CAST(a + i AS DATE), (a TIMESTAMP, i) AS a + i",
    "abs": _each("abs(a)", _NUMBERS),
    "sign": "(a DOUBLE) AS CAST(sign(a) AS DOUBLE)",
    "signum": "(a DOUBLE) AS CAST(sign(a) AS DOUBLE)",
    "negative": _each("-a", _NUMBERS),
    "positive": _each("a", _NUMBERS),
    "round": (
        ", ".join(f"(a {t}, n) AS CAST(round(a, n) AS {t})" for t in _INTEGERS.split())
        + f", (a FLOAT, n) AS CAST({_ROUNDED} AS FLOAT), (a DOUBLE, n) AS {_ROUNDED}"
    ),
    "round_tens": ", ".join(f"(a {t}, n) AS CAST(round(a, n) AS {t})" for t in _NUMBERS.split()),
    "floor": _each("CAST(floor(a) AS BIGINT)", "FLOAT DOUBLE")
    + ", "
    + _each("CAST(a AS BIGINT)", _INTEGERS),
    "ceil": _each("CAST(ceil(a) AS BIGINT)", "FLOAT DOUBLE")
    + ", "
    + _each("CAST(a AS BIGINT)", _INTEGERS),
    "sqrt": "(a DOUBLE) AS CASE WHEN a < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt(a) END",
    "cbrt": "(a DOUBLE) AS cbrt(a)",
    "power": "(a DOUBLE, b DOUBLE) AS pow(a, b)",
    "exp": "(a DOUBLE) AS exp(a)",
    "ln": "(a DOUBLE) AS CASE WHEN a > 0 THEN ln(a) END",
    "log": (
        "(a DOUBLE) AS CASE WHEN a > 0 THEN ln(a) END, "
        "(b DOUBLE, a DOUBLE) AS CASE WHEN a > 0 AND b > 0 THEN ln(a) / ln(b) END"
    ),
    "log2": "(a DOUBLE) AS CASE WHEN a > 0 THEN log2(a) END",
    "log10": "(a DOUBLE) AS CASE WHEN a > 0 THEN log10(a) END",
    "sin": "(a DOUBLE) AS sin(a)",
    "cos": "(a DOUBLE) AS cos(a)",
    "tan": "(a DOUBLE) AS tan(a)",
    "cot": "(a DOUBLE) AS 1 / tan(a)",
    "sec": "(a DOUBLE) AS 1 / cos(a)",
    "csc": "(a DOUBLE) AS 1 / sin(a)",
    "asin": "(a DOUBLE) AS CASE WHEN abs(a) > 1 THEN CAST('NaN' AS DOUBLE) ELSE asin(a) END",
    "acos": "(a DOUBLE) AS CASE WHEN abs(a) > 1 THEN CAST('NaN' AS DOUBLE) ELSE acos(a) END",
    "atan": "(a DOUBLE) AS atan(a)",
    "atan2": "(a DOUBLE, b DOUBLE) AS atan2(a, b)",
    "sinh": "(a DOUBLE) AS sinh(a)",
    "cosh": "(a DOUBLE) AS cosh(a)",
    "tanh": "(a DOUBLE) AS tanh(a)",
    "degrees": "(a DOUBLE) AS degrees(a)",
    "radians": "(a DOUBLE) AS radians(a)",
    "pi": "() AS pi()",
    "e": "() AS exp(CAST(1 AS DOUBLE))",
    "hypot": "(a DOUBLE, b DOUBLE) AS sqrt(a * a + b * b)",
    "rint": "(a DOUBLE) AS round_even(a, 0)",
    "factorial": (
        "(a) AS CASE WHEN a BETWEEN 0 AND 20 THEN CAST(factorial(CAST(a AS INTEGER)) AS BIGINT) END"
    ),
    "bit_count": "(a BIGINT) AS CAST(bit_count(a) AS INTEGER), (a BOOLEAN) AS CAST(a AS INTEGER)",
    "bin": "(a BIGINT) AS bin(a)",
    "hex": "(a BIGINT) AS hex(a), (a VARCHAR) AS hex(a), (a BLOB) AS hex(a)",
    "unhex": "(a VARCHAR) AS unhex(a)",
    "isnan": "(a DOUBLE) AS coalesce(isnan(a), false)",
    "nanvl": "(a DOUBLE, b DOUBLE) AS CASE WHEN isnan(a) THEN b ELSE a END",
    "try_add": "(a, b) AS TRY(a + b)",
    "try_subtract": "(a, b) AS TRY(a - b)",
    "try_multiply": "(a, b) AS TRY(a * b)",
    "try_divide": "(a, b) AS CASE WHEN b = 0 THEN NULL ELSE a / b END",
    "rand": "() AS random()",
    # Conditions and NULL
    "isnull": "(a) AS a IS NULL",
    "isnotnull": "(a) AS a IS NOT NULL",
    "equal_null": "(a, b) AS a IS NOT DISTINCT FROM b",
    "nvl": "(a, b) AS coalesce(a, b)",
    "ifnull": "(a, b) AS coalesce(a, b)",
    "nvl2": "(a, b, c) AS CASE WHEN a IS NOT NULL THEN b ELSE c END",
    "nullif": "(a, b) AS nullif(a, b)",
    "zeroifnull": "(a) AS coalesce(a, 0)",
    "nullifzero": "(a) AS nullif(a, 0)",
    # Text
    "upper": (
        "(a VARCHAR) AS CASE WHEN strlen(a) = length(a) THEN upper(a) "
        f"WHEN regexp_matches(a, '[{_special(upper=True)}]') "
        "THEN error('embedded: upper of a letter that becomes several') "
        "ELSE upper(replace(a, 'ß', 'SS')) END"
    ),
    "lower": (
        "(a VARCHAR) AS CASE WHEN strlen(a) = length(a) THEN lower(a) "
        f"WHEN regexp_matches(a, '[{_special(upper=False)}]') "
        "THEN error('embedded: lower of a letter that depends on others') ELSE lower(a) END"
    ),
    "length": (
        "(a VARCHAR) AS CAST(length(a) AS INTEGER), (a BLOB) AS CAST(octet_length(a) AS INTEGER)"
    ),
    "octet_length": (
        "(a VARCHAR) AS CAST(strlen(a) AS INTEGER), (a BLOB) AS CAST(octet_length(a) AS INTEGER)"
    ),
    "bit_length": "(a VARCHAR) AS CAST(8 * strlen(a) AS INTEGER)",
    "slice": (
        "(s, b, e) AS CASE WHEN e > greatest(b, 0) "
        "THEN substring(s, greatest(b, 0) + 1, e - greatest(b, 0)) ELSE left(s, 0) END"
    ),
    "begin": (
        "(s, p) AS CASE WHEN p > 0 THEN CAST(p AS BIGINT) - 1 "
        "WHEN p < 0 THEN length(s) + CAST(p AS BIGINT) ELSE 0 END"
    ),
    "substring": (
        "(s VARCHAR, p) AS spark_slice(s, spark_begin(s, p), length(s)), "
        "(s VARCHAR, p, n) AS spark_slice(s, spark_begin(s, p), spark_begin(s, p) + n)"
    ),
    "left": "(s VARCHAR, n) AS left(s, greatest(n, 0))",
    "right": "(s VARCHAR, n) AS right(s, greatest(n, 0))",
    "trim": "(a VARCHAR) AS trim(a)",
    "ltrim": "(a VARCHAR) AS ltrim(a), (t VARCHAR, a VARCHAR) AS ltrim(a, t)",
    "rtrim": "(a VARCHAR) AS rtrim(a), (t VARCHAR, a VARCHAR) AS rtrim(a, t)",
    "btrim": "(a VARCHAR) AS trim(a), (a VARCHAR, t VARCHAR) AS trim(a, t)",
    "replace": (
        "(a VARCHAR, b VARCHAR) AS replace(a, b, ''), "
        "(a VARCHAR, b VARCHAR, c VARCHAR) AS replace(a, b, c)"
    ),
    "reverse": "(a VARCHAR) AS reverse(a)",
    "repeat": "(a VARCHAR, n) AS repeat(a, greatest(n, 0))",
    "space": "(n) AS repeat(' ', greatest(n, 0))",
    "lpad": (
        "(a VARCHAR, n, p VARCHAR) AS CASE WHEN n <= 0 THEN left(a, 0) "
        "WHEN length(a) >= n THEN left(a, n) "
        "WHEN p = '' THEN a ELSE lpad(a, CAST(n AS INTEGER), p) END"
    ),
    "rpad": (
        "(a VARCHAR, n, p VARCHAR) AS CASE WHEN n <= 0 THEN left(a, 0) "
        "WHEN length(a) >= n THEN left(a, n) "
        "WHEN p = '' THEN a ELSE rpad(a, CAST(n AS INTEGER), p) END"
    ),
    "instr": "(a VARCHAR, b VARCHAR) AS CAST(instr(a, b) AS INTEGER)",
    "locate": (
        "(b VARCHAR, a VARCHAR) AS CAST(instr(a, b) AS INTEGER), "
        "(b VARCHAR, a VARCHAR, p) AS CAST(CASE WHEN p < 1 THEN 0 "
        "WHEN instr(substring(a, p), b) = 0 THEN 0 ELSE instr(substring(a, p), b) + p - 1 "
        "END AS INTEGER)"
    ),
    "ascii": "(a VARCHAR) AS CAST(ascii(a) AS INTEGER)",
    "chr": "(n) AS CASE WHEN n < 0 THEN '' ELSE chr(CAST(n % 256 AS INTEGER)) END",
    "contains": "(a VARCHAR, b VARCHAR) AS contains(a, b)",
    "startswith": "(a VARCHAR, b VARCHAR) AS starts_with(a, b)",
    "endswith": "(a VARCHAR, b VARCHAR) AS ends_with(a, b)",
    "translate": "(a VARCHAR, b VARCHAR, c VARCHAR) AS translate(a, b, c)",
    "overlay": (
        "(a VARCHAR, r VARCHAR, p) AS left(a, p - 1) || r || substring(a, p + length(r)), "
        "(a VARCHAR, r VARCHAR, p, n) AS left(a, p - 1) || r || "
        "substring(a, p + CASE WHEN n < 0 THEN length(r) ELSE n END)"
    ),
    "split_part": (
        "(a VARCHAR, d VARCHAR, n) AS CASE WHEN n = 0 THEN error('the index 0 is invalid') "
        "WHEN d = '' THEN CASE WHEN n IN (1, -1) THEN a ELSE '' END ELSE split_part(a, d, n) END"
    ),
    "substring_index": (
        "(a VARCHAR, d VARCHAR, n) AS CASE WHEN n = 0 OR d = '' THEN left(a, 0) "
        "WHEN n > 0 THEN spark_joined(list_slice(string_split(a, d), 1, n), d) "
        "ELSE spark_joined(list_slice(string_split(a, d), "
        "greatest(len(string_split(a, d)) + n + 1, 1), len(string_split(a, d))), d) END"
    ),
    "regexp_substr": (
        "(a VARCHAR, p) AS CASE WHEN regexp_matches(a, p) THEN regexp_extract(a, p) END"
    ),
    "matched": (
        "(a VARCHAR, p) AS regexp_matches(a, p) OR (regexp_matches(a, '[\\n\\r\\x{85}\\x{2028}"
        "\\x{2029}]\\z') AND regexp_matches(regexp_replace(a, '(\\r\\n|[\\n\\r\\x{85}\\x{2028}"
        "\\x{2029}])\\z', ''), p))"
    ),
    "unbroken": (
        "(a VARCHAR, p) AS CASE WHEN regexp_matches(a, p) THEN error('embedded: a line break at "
        "the end of a text, and a regular expression with $') ELSE a END"
    ),
    "joined": "(l, d) AS list_reduce(l, lambda x, y: x || d || y)",
    "levenshtein": "(a VARCHAR, b VARCHAR) AS CAST(levenshtein(a, b) AS INTEGER)",
    "md5": "(a VARCHAR) AS md5(a)",
    "sha1": "(a VARCHAR) AS sha1(a)",
    "sha256": "(a VARCHAR) AS sha256(a)",
    "find_in_set": (
        "(a VARCHAR, b VARCHAR) AS CAST(CASE WHEN contains(a, ',') THEN 0 "
        "WHEN a IS NULL OR b IS NULL THEN NULL "
        "ELSE coalesce(list_position(string_split(b, ','), a), 0) END AS INTEGER)"
    ),
    "like": (
        r"(a VARCHAR, b VARCHAR) AS CASE WHEN regexp_full_match(b, '(?s)([^\\]|\\[\\_%])*') "
        r"THEN a LIKE b ESCAPE '\' WHEN b IS NULL THEN NULL "
        "ELSE error('the pattern ''' || b || ''' is invalid') END"
    ),
    "ilike": (
        r"(a VARCHAR, b VARCHAR) AS CASE WHEN regexp_full_match(b, '(?s)([^\\]|\\[\\_%])*') "
        r"THEN a ILIKE b ESCAPE '\' WHEN b IS NULL THEN NULL "
        "ELSE error('the pattern ''' || b || ''' is invalid') END"
    ),
    # Dates
    "year": "(a DATE) AS CAST(year(a) AS INTEGER)",
    "month": "(a DATE) AS CAST(month(a) AS INTEGER)",
    "day": "(a DATE) AS CAST(day(a) AS INTEGER)",
    "dayofweek": "(a DATE) AS CAST(dayofweek(a) + 1 AS INTEGER)",
    "weekday": "(a DATE) AS CAST(isodow(a) - 1 AS INTEGER)",
    "isodow": "(a DATE) AS CAST(isodow(a) AS INTEGER)",
    "dayofyear": "(a DATE) AS CAST(dayofyear(a) AS INTEGER)",
    "weekofyear": "(a DATE) AS CAST(week(a) AS INTEGER)",
    "yearofweek": "(a DATE) AS CAST(isoyear(a) AS INTEGER)",
    "quarter": "(a DATE) AS CAST(quarter(a) AS INTEGER)",
    "hour": "(a TIMESTAMP) AS CAST(hour(a) AS INTEGER)",
    "minute": "(a TIMESTAMP) AS CAST(minute(a) AS INTEGER)",
    "second": "(a TIMESTAMP) AS CAST(second(a) AS INTEGER)",
    "seconds": (
        "(a TIMESTAMP) AS CAST(CAST(microsecond(a) AS DECIMAL(8, 0)) "
        "* CAST('0.000001' AS DECIMAL(7, 6)) AS DECIMAL(8, 6))"
    ),
    "date_add": "(a DATE, n) AS a + CAST(n AS INTEGER)",
    "date_sub": "(a DATE, n) AS a - CAST(n AS INTEGER)",
    "datediff": "(a DATE, b DATE) AS CAST(a - b AS INTEGER)",
    "add_months": "(a DATE, n) AS CAST(a + to_months(CAST(n AS INTEGER)) AS DATE)",
    "last_day": "(a DATE) AS last_day(a)",
    "next_day": (
        f"(a DATE, n) AS a + CAST((CASE {_DAYS} "
        "ELSE error('the value ''' || n || ''' is no day of the week') END "
        "- isodow(a) + 6) % 7 + 1 AS INTEGER)"
    ),
    "trunc": f"(a DATE, f) AS {_cut('a', _UNITS, 'DATE')}",
    "date_trunc": (f"(f, a TIMESTAMP) AS {_cut('a', (*_UNITS, *_TIMES), 'TIMESTAMP')}"),
    "make_date": "(y, m, d) AS make_date(CAST(y AS BIGINT), CAST(m AS BIGINT), CAST(d AS BIGINT))",
    "make_timestamp": (
        "(y, m, d, h, i, s) AS make_timestamp(CAST(y AS BIGINT), CAST(m AS BIGINT), "
        "CAST(d AS BIGINT), CAST(h AS BIGINT), CAST(i AS BIGINT), CAST(s AS DOUBLE))"
    ),
    "unix_timestamp": "(a TIMESTAMP) AS CAST(epoch_us(a) // 1000000 AS BIGINT)",
    "within_month": "(a) AS epoch_us(a) - epoch_us(date_trunc('month', a))",
    "months": (
        "(a TIMESTAMP, b TIMESTAMP) AS spark_whole_months("
        "(year(b) - year(a)) * 12 + month(b) - month(a), "
        "spark_within_month(a), spark_within_month(b))"
    ),
    "whole_months": (
        "(m, a, b) AS CASE WHEN m > 0 AND b < a THEN m - 1 WHEN m < 0 AND b > a THEN m + 1 "
        "ELSE m END"
    ),
    "unix_date": "(a DATE) AS CAST(a - DATE '1970-01-01' AS INTEGER)",
    "date_from_unix_date": "(n) AS DATE '1970-01-01' + CAST(n AS INTEGER)",
    "from_seconds": "(n) AS CAST(make_timestamp(CAST(n AS BIGINT) * 1000000) AS TIMESTAMP)",
    "dayname": "(a DATE) AS left(dayname(a), 3)",
    "monthname": "(a DATE) AS left(monthname(a), 3)",
    "parsed": (
        "(a VARCHAR, r, f) AS CASE WHEN regexp_full_match(a, r) THEN CAST(strptime(a, f) AS "
        "TIMESTAMP) "
        "WHEN a IS NULL THEN NULL ELSE error('the value ''' || a || ''' cannot be parsed') END"
    ),
    "formatted": "(a TIMESTAMP, f) AS strftime(a, f)",
    "today": "() AS current_date",
    "moment": "() AS CAST(now() AS TIMESTAMP)",
    # Decimals: the whole number that a decimal is without its point, and division of such numbers,
    # rounded half up.
    "unscaled": "(a) AS CAST(replace(CAST(a AS VARCHAR), '.', '') AS HUGEINT)",
    "quotient": (
        "(a, b) AS CASE WHEN (a < 0) = (b < 0) THEN (abs(a) + abs(b) // 2) // "
        "abs(spark_divisor(b)) "
        "ELSE -((abs(a) + abs(b) // 2) // abs(spark_divisor(b))) END"
    ),
}


_OVERLOAD: Final = re.compile(r", (?=\((?:\w+(?: [A-Z]+(?:\(\d+, ?\d+\))?)?(?:, )?)*\) AS )")
_FAILURE: Final = re.compile(r"error\('the value ''' \|\| \w \|\| ''' cannot be cast to \w+'\)")

for _name in (
    "tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date", "binary",
    "date_of_text", "timestamp_ntz", "timestamp_of_text",
):  # fmt: skip
    _tried = _FAILURE.sub("NULL", MACROS[_name])
    MACROS[f"try_{_name}"] = re.sub(rf"{PREFIX}(\w+_of_text)\(", rf"{PREFIX}try_\1(", _tried)


@cache
def overloads(name: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    """The bodies of a macro, each with the types of its parameters; "" where any will do.

    >>> overloads("later")[0]
    (('DATE', ''), '(a DATE, i) AS CAST(a + i AS DATE)')
    """
    found: list[tuple[tuple[str, ...], str]] = []
    for text in _OVERLOAD.split(MACROS[name]):
        parameters = text[1 : text.index(") AS ")]
        words = [each.split(" ", 1) for each in re.split(r", (?![0-9])", parameters) if each]
        found.append((tuple(word[1] if len(word) > 1 else "" for word in words), text))
    return tuple(found)


@cache
def needs(name: str) -> tuple[str, ...]:
    """The macros that a macro uses, and the macro itself, each after those that it uses."""
    found: dict[str, None] = {}
    for other in re.findall(rf"\b{PREFIX}(\w+)\(", MACROS[name.partition(":")[0]]):
        found.update(dict.fromkeys(needs(other)))
    found[name] = None
    return tuple(found)


@cache
def repeated(name: str) -> tuple[bool, ...]:
    """Whether a macro, or one that it uses, writes an argument out more than once; for each.

    >>> repeated("nullif:0"), repeated("ltrim:0"), repeated("upper:0")
    ((False, False), (False,), (True,))
    """
    found: list[bool] = []
    for _, text in _bodies(name):
        head, _, body = text.partition(") AS ")
        for i, parameter in enumerate(re.findall(r"(\w+)(?: [A-Z][^,]*)?(?:, |$)", head[1:])):
            mention = re.compile(rf"\b{parameter}\b")
            used = [call for call in re.split(r"(?<=\))", body) if mention.search(call)]
            inner = [name for call in used for name in re.findall(rf"{PREFIX}(\w+)\(", call)]
            many = len(mention.findall(body)) > 1 or any(any(repeated(each)) for each in inner)
            found += [False] * (i + 1 - len(found))
            found[i] |= many
    return tuple(found)


def _bodies(name: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    stem, _, number = name.partition(":")
    return (overloads(stem)[int(number)],) if number else overloads(stem)


def spelled(name: str) -> str:
    """What a macro is called in DuckDB; `round:4` is the fifth body of `round`, by itself."""
    return PREFIX + name.replace(":", "_")


def definition(name: str) -> str:
    """The statement that makes a macro.

    A body by itself has no types: where types are to be found out, DuckDB goes through arguments
    twice, and through theirs four times, and so on.

    >>> definition("year:0")
    'CREATE TEMP MACRO spark_year_0(a) AS CAST(year(a) AS INTEGER)'
    """
    stem, _, number = name.partition(":")
    if not number:
        return f"CREATE TEMP MACRO {spelled(name)}{MACROS[stem]}"
    head, _, body = overloads(stem)[int(number)][1].partition(") AS ")
    names = re.sub(r"(\w+) [A-Z]+(?:\(\d+, ?\d+\))?", r"\1", head)
    return f"CREATE TEMP MACRO {spelled(name)}{names}) AS {body}"
