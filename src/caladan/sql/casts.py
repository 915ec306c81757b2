"""Macros for casts, numbers, conditions and decimals; `meaning.py` says what macros are."""

from __future__ import annotations

from typing import Final

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


_NUMBERS: Final = "TINYINT SMALLINT INTEGER BIGINT FLOAT DOUBLE"

_INTEGERS: Final = "TINYINT SMALLINT INTEGER BIGINT"

_OF_DOUBLES: Final = (
    "cbrt", "exp", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "degrees", "radians",
)  # fmt: skip
"""Functions that both have, of doubles."""

_ROUNDED: Final = (
    "CASE WHEN isnan(a) OR abs(a) >= 1e15 THEN a ELSE "
    "CAST(CAST(round(CAST(CAST(a AS VARCHAR) AS DECIMAL(38, 22)), n) AS VARCHAR) AS DOUBLE) END"
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

CASTS: Final[dict[str, str]] = {
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
    **dict.fromkeys(("sign", "signum"), "(a DOUBLE) AS CAST(sign(a) AS DOUBLE)"),
    "negative": _each("-a", _NUMBERS),
    "positive": _each("a", _NUMBERS),
    "round": (
        ", ".join(f"(a {t}, n) AS CAST(round(a, n) AS {t})" for t in _INTEGERS.split())
        + f", (a FLOAT, n) AS CAST({_ROUNDED} AS FLOAT), (a DOUBLE, n) AS {_ROUNDED}"
    ),
    "round_tens": ", ".join(f"(a {t}, n) AS CAST(round(a, n) AS {t})" for t in _NUMBERS.split()),
    **{
        name: _each(f"CAST({name}(a) AS BIGINT)", "FLOAT DOUBLE")
        + f", {_each('CAST(a AS BIGINT)', _INTEGERS)}"
        for name in ("floor", "ceil")
    },
    "sqrt": "(a DOUBLE) AS CASE WHEN a < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt(a) END",
    "power": "(a DOUBLE, b DOUBLE) AS pow(a, b)",
    "ln": "(a DOUBLE) AS CASE WHEN a > 0 THEN ln(a) END",
    "log": (
        "(a DOUBLE) AS CASE WHEN a > 0 THEN ln(a) END, "
        "(b DOUBLE, a DOUBLE) AS CASE WHEN a > 0 AND b > 0 THEN ln(a) / ln(b) END"
    ),
    "log2": "(a DOUBLE) AS CASE WHEN a > 0 THEN log2(a) END",
    "log10": "(a DOUBLE) AS CASE WHEN a > 0 THEN log10(a) END",
    "cot": "(a DOUBLE) AS 1 / tan(a)",
    "sec": "(a DOUBLE) AS 1 / cos(a)",
    "csc": "(a DOUBLE) AS 1 / sin(a)",
    "asin": "(a DOUBLE) AS CASE WHEN abs(a) > 1 THEN CAST('NaN' AS DOUBLE) ELSE asin(a) END",
    "acos": "(a DOUBLE) AS CASE WHEN abs(a) > 1 THEN CAST('NaN' AS DOUBLE) ELSE acos(a) END",
    "atan2": "(a DOUBLE, b DOUBLE) AS atan2(a, b)",
    **{name: f"(a DOUBLE) AS {name}(a)" for name in _OF_DOUBLES},
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
    **dict.fromkeys(("nvl", "ifnull"), "(a, b) AS coalesce(a, b)"),
    "nvl2": "(a, b, c) AS CASE WHEN a IS NOT NULL THEN b ELSE c END",
    "nullif": "(a, b) AS nullif(a, b)",
    "zeroifnull": "(a) AS coalesce(a, 0)",
    "nullifzero": "(a) AS nullif(a, 0)",
    # Decimals: the whole number that a decimal is without its point, and division of such numbers,
    # rounded half up.
    "unscaled": "(a) AS CAST(replace(CAST(a AS VARCHAR), '.', '') AS HUGEINT)",
    "quotient": (
        "(a, b) AS CASE WHEN (a < 0) = (b < 0) THEN (abs(a) + abs(b) // 2) // "
        "abs(spark_divisor(b)) "
        "ELSE -((abs(a) + abs(b) // 2) // abs(spark_divisor(b))) END"
    ),
}
