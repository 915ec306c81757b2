"""Macros for text, dates and times; `meaning.py` says what macros are."""

from __future__ import annotations

from typing import Final


def _special(upper: bool) -> str:
    """Letters that become several, or depend on their neighbours, in the other case."""
    blocks = (range(0x80, 0x600), range(0x1E90, 0x2000), range(0xFB00, 0xFB18))
    letters = [chr(i) for block in blocks for i in block]
    found = [c for c in letters if len(c.upper() if upper else c.lower()) > 1 and c != "ß"]
    return "".join(found) + ("" if upper else "Σ")


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


TEXTS: Final[dict[str, str]] = {
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
    "reverse": (  # DuckDB's leaves an accent with its letter
        "(a VARCHAR) AS CASE WHEN length(a) = length_grapheme(a) THEN reverse(a) "
        "ELSE array_to_string(list_transform(range(length(a), 0, -1), "
        "lambda i: substring(a, i, 1)), '') END"
    ),
    "repeat": "(a VARCHAR, n) AS repeat(a, greatest(n, 0))",
    "space": "(n) AS repeat(' ', greatest(n, 0))",
    **{
        name: "(a VARCHAR, n, p VARCHAR) AS CASE WHEN n <= 0 THEN left(a, 0) "
        "WHEN length(a) >= n THEN left(a, n) "
        f"WHEN p = '' THEN a ELSE {name}(a, CAST(n AS INTEGER), p) END"
        for name in ("lpad", "rpad")
    },
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
    "levenshtein": (  # DuckDB's is about bytes
        "(a VARCHAR, b VARCHAR) AS CASE WHEN strlen(a) = length(a) AND strlen(b) = length(b) "
        "THEN CAST(levenshtein(a, b) AS INTEGER) WHEN a IS NOT NULL AND b IS NOT NULL "
        "THEN error('embedded: levenshtein of letters beyond ASCII') END"
    ),
    "md5": "(a VARCHAR) AS md5(a)",
    "sha1": "(a VARCHAR) AS sha1(a)",
    "sha256": "(a VARCHAR) AS sha256(a)",
    "find_in_set": (
        "(a VARCHAR, b VARCHAR) AS CAST(CASE WHEN contains(a, ',') THEN 0 "
        "WHEN a IS NULL OR b IS NULL THEN NULL "
        "ELSE coalesce(list_position(string_split(b, ','), a), 0) END AS INTEGER)"
    ),
    **{
        name: r"(a VARCHAR, b VARCHAR) AS CASE WHEN regexp_full_match(b, '(?s)([^\\]|\\[\\_%])*') "
        rf"THEN a {name.upper()} b ESCAPE '\' WHEN b IS NULL THEN NULL "
        "ELSE error('the pattern ''' || b || ''' is invalid') END"
        for name in ("like", "ilike")
    },
    # Dates
    **{
        part: f"(a {type}) AS CAST({part}(a) AS INTEGER)"
        for type, parts in (
            ("DATE", "year month day isodow dayofyear quarter"),
            ("TIMESTAMP", "hour minute second"),
        )
        for part in parts.split()
    },
    "dayofweek": "(a DATE) AS CAST(dayofweek(a) + 1 AS INTEGER)",
    "weekday": "(a DATE) AS CAST(isodow(a) - 1 AS INTEGER)",
    "weekofyear": "(a DATE) AS CAST(week(a) AS INTEGER)",
    "yearofweek": "(a DATE) AS CAST(isoyear(a) AS INTEGER)",
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
}
