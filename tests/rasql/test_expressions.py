"""Expressions of SQL mean the same on DuckDB as on Spark, in value and type, or are refused.

The expressions stand in expressions.sql. Spark is asked many at a time: a query takes it a while.
"""

import datetime as dt
import math
import time
from collections.abc import Iterator
from decimal import Decimal
from itertools import groupby
from typing import Any

import pytest
from tests.rasql.table import TABLE, Case, cases, query, rest

import caladan

ALL = cases()
AGREEING = [case for case in ALL if not case.refused and case.section != "errors"]
REFUSED = [case for case in ALL if case.refused]
FAILING = [case for case in ALL if case.section == "errors"]
_AT_A_TIME = 60


def session(engine: Any) -> caladan.Session:
    db = caladan.connect(engine)
    db.add("t", TABLE)
    return db


def asked(db: caladan.Session, found: list[Case]) -> caladan.Relation:
    selected = ", ".join(query(case, f"c{i}") for i, case in enumerate(found))
    return db.sql(f"SELECT {selected} {rest(found[0].section)}")


def batches() -> Iterator[list[Case]]:
    for _, group in groupby(AGREEING, key=lambda case: case.section):
        listed = list(group)
        for i in range(0, len(listed), _AT_A_TIME):
            yield listed[i : i + _AT_A_TIME]


def test_there_are_many() -> None:
    assert len(AGREEING) > 500
    assert len({case.text for case in AGREEING if case.section != "decimals"}) > 500


def test_engines_agree(spark: Any) -> None:
    """In one test, for a session on Spark takes its time to start."""
    here, there = session("embedded"), session(spark)
    different: list[str] = []
    for batch in batches():
        one, other = asked(here, batch), asked(there, batch)
        mine, theirs = one.rows(), other.rows()
        for i, case in enumerate(batch):
            if one.types[i] != other.types[i]:
                different.append(f"{case.text}: {one.types[i]} here, {other.types[i]} on Spark")
            elif not all(same(a[i], b[i]) for a, b in zip(mine, theirs, strict=True)):
                values = [[row[i] for row in rows] for rows in (mine, theirs)]
                different.append(f"{case.text}: {values[0]} here, {values[1]} on Spark")
    assert not different, "\n".join(different)


def same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12) or (math.isnan(one) and math.isnan(other))
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.text)
def test_refused_by_name(case: Case) -> None:
    with pytest.raises(caladan.CaladanError) as caught:
        asked(session("embedded"), [case]).rows()
    (found,) = caught.value.diagnostics
    assert found.code == "C062"
    assert found.place is not None
    assert "on embedded" in found.message or "embedded:" in found.message


@pytest.mark.parametrize("case", FAILING, ids=lambda case: case.text)
def test_errors_are_errors(case: Case) -> None:
    """What fails on Spark fails here; that Spark does was seen when the case was written."""
    with pytest.raises(caladan.CaladanError) as caught:
        asked(session("embedded"), [case]).rows()
    assert caught.value.diagnostics[0].code in ("C040", "C062", "C063")


AROUND = {
    "a view's column": "WITH w AS (SELECT CAST(I AS DECIMAL(10, 2)) AS D FROM t) "
    "SELECT D / 3, D * D FROM w ORDER BY 1, 2",
    "a subquery's": "SELECT s.A + 1 FROM (SELECT N AS A FROM t) AS s ORDER BY 1",
    "columns with other names": "WITH w(A, B) AS (SELECT I, N FROM t) "
    "SELECT A * B FROM w ORDER BY 1",
    "a union": "SELECT A / 2 FROM (SELECT N AS A FROM t UNION SELECT N FROM t) AS u ORDER BY 1",
    "a star": "SELECT w.N - 1 FROM (SELECT * FROM t) AS w ORDER BY 1",
    "correlated": "SELECT K, (SELECT sum(u.N) FROM t AS u WHERE u.G = t.G) + N FROM t ORDER BY K",
    "a mean by group": "SELECT G, avg(N), sum(N) FILTER (WHERE Q), avg(DISTINCT N) FROM t "
    "GROUP BY G ORDER BY G",
    "rollup": "SELECT G, sum(I) FROM t GROUP BY ROLLUP (G) ORDER BY G, 2",
    "semi join": "SELECT K FROM t LEFT SEMI JOIN t AS u ON t.I = u.I2 ORDER BY K",
    "having": "SELECT G, round(avg(X), 1) AS m FROM t GROUP BY G HAVING round(avg(X), 1) > 0 "
    "ORDER BY round(avg(X), 1)",
    "grouped by a function": "SELECT year(D), count(*) FROM t GROUP BY year(D) ORDER BY year(D)",
    "ordered by a function": "SELECT S FROM t ORDER BY length(S) DESC, upper(S)",
    "grouped by calls in calls": "SELECT pmod(I + I2, 3) AS a, upper(trim(max(S))) FROM t "
    "WHERE I > 0 GROUP BY pmod(I + I2, 3) HAVING upper(trim(max(S))) > 'A' "
    "ORDER BY pmod(I + I2, 3)",
    "calls of aggregates": "SELECT G, pmod(max(I) + 1, min(I2) + 9) FROM t GROUP BY G "
    "ORDER BY pmod(max(I) + 1, min(I2) + 9), G",
    "joined by calls in calls": "SELECT t.K, u.K FROM t JOIN t AS u "
    "ON upper(trim(t.S)) = upper(concat(u.S, '')) ORDER BY 1, 2",
    "calls of windows and subqueries": "SELECT K, lower(reverse(max(S) OVER (PARTITION BY G))), "
    "upper(trim((SELECT max(u.S) FROM t AS u WHERE u.G = t.G))) FROM t ORDER BY K",
    "by number": "SELECT G, count(*) FROM t GROUP BY 1 ORDER BY 1 DESC LIMIT 3 OFFSET 1",
    "all but": "SELECT * EXCEPT (F, P) FROM t ORDER BY K",
    "lists": "SELECT K FROM t WHERE (G, I2) IN (SELECT G, I2 FROM t WHERE Q) ORDER BY K",
    "values": "SELECT A + 1, B || '!' FROM (VALUES (1, 'x'), (2, 'y')) AS v(A, B) ORDER BY 1",
    "nothing at all": "SELECT count(*), sum(I), avg(N), max(S), round(avg(X), 2) "
    "FROM t WHERE K > 99",
}


def test_queries_around_expressions(spark: Any) -> None:
    here, there = session("embedded"), session(spark)
    for name, sql in AROUND.items():
        one, other = here.sql(sql), there.sql(sql)
        assert one.types == other.types, name
        rows = zip(one.rows(), other.rows(), strict=True)
        assert all(same(a, b) for x, y in rows for a, b in zip(x, y, strict=True)), name


def test_expressions_that_rules_feed() -> None:
    """The query after a recursion and what goes into it are translated like any other."""
    db = session("embedded")
    answer = db.sql(
        "WITH recursive n(A) AS (SELECT pmod(I, 5) FROM t WHERE dayofweek(D) > 1) UNION "
        "(SELECT n.A + 1 FROM n WHERE n.A < 3) SELECT A, left('abc', -A), A div 2 FROM n ORDER BY A"
    )
    assert answer.rows() == [(0, "", 0), (1, "", 0), (2, "", 1), (3, "", 1)]


# A call around a call: what is inside first, what stands around it, and what 60 of them give for
# the first row, where it is not what one gives.
NESTED = {
    "upper(·)": ("S", "HELLO"),
    "lower(·)": ("S", "hello"),
    "trim(·)": ("S", "Hello"),
    "trim(lower(replace(·, 'l', 'L')))": ("S", "hello"),
    "replace(·, 'l', 'L')": ("S", "HeLLo"),
    "concat(·, 'x')": ("S", "Hello" + "x" * 60),
    "substring(·, -3)": ("S", "llo"),
    "lpad(·, 4, 'x')": ("S", "Hell"),
    "regexp_replace(·, 'l$', '')": ("S", "Hello"),
    "regexp_substr(·, '[a-z]+')": ("S", "ello"),
    "coalesce(·, 'x')": ("S", "Hello"),
    "abs(·)": ("I", 7),
    "pmod(·, 5)": ("I", 2),
    "mod(·, 5)": ("I", 2),
    "(· - K)": ("I", -53),
    "(· div 2)": ("I", 0),
    "round(·, 1)": ("X", 1.5),
    "sqrt(·)": ("X", 1.0),
    "(· / 2)": ("X", 1.5 / 2**60),
    "floor(·)": ("X", 1),
    "CAST(CAST(· AS STRING) AS INT)": ("I", 7),
    "CAST(CAST(· AS DOUBLE) AS INT)": ("I", 7),
    "pmod(·, 5) ": ("N", Decimal("1.5")),
    "date_add(·, 1)": ("D", dt.date(2024, 4, 29)),
    "add_months(·, 1)": ("D", dt.date(2029, 2, 28)),
    "trunc(·, 'MM')": ("D", dt.date(2024, 2, 1)),
    "date_trunc('DAY', ·)": ("M", dt.datetime(2024, 2, 29)),
    "CASE WHEN · > 1 THEN 1 ELSE 2 END": ("I", 2),
}  # fmt: skip


@pytest.mark.parametrize("name", NESTED)
def test_calls_nest(name: str) -> None:
    """What a call writes for DuckDB grows with the text, however deep: nothing is said twice."""
    column, expected = NESTED[name]
    nested = column
    for _ in range(60):
        nested = name.replace("·", nested)
    started = time.process_time()
    answer = session("embedded").sql(f"SELECT {nested} FROM t WHERE K = 1")
    assert answer.rows()[0][0] == expected
    assert time.process_time() - started < 20  # it is less than one; doubling would take years


def test_what_changes_is_looked_at_once() -> None:
    same = "SELECT length(upper(uuid())), lower(upper(uuid())) RLIKE '^[0-9a-f-]{36}$' FROM t"
    assert session("embedded").sql(same).rows() == [(36, True)] * 7


def test_what_nests_too_deeply_is_told() -> None:
    nested = "CAST(CAST(" * 180 + "I" + " AS STRING) AS INT)" * 180
    with pytest.raises(caladan.CaladanError, match="nested too deeply") as caught:
        session("embedded").sql(f"SELECT {nested} FROM t")
    assert caught.value.diagnostics[0].code == "C001"
    assert caught.value.diagnostics[0].place is not None


def test_a_line_break_that_a_match_ends_before_is_told() -> None:
    """Where a match ends matters to what is replaced, so nothing is answered there."""
    with pytest.raises(caladan.CaladanError, match="a line break at the end"):
        session("embedded").sql("SELECT regexp_replace(S || chr(10), 'o$', '') FROM t").rows()


def test_distances_of_texts_are_about_letters_not_bytes() -> None:
    with pytest.raises(caladan.CaladanError, match="levenshtein of letters beyond ASCII") as caught:
        session("embedded").sql("SELECT levenshtein(S, 'abc') FROM t").rows()
    assert caught.value.diagnostics[0].code == "C062"
