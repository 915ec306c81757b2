"""Subqueries as values in a recursive step, where they do not depend on the recursion."""

from typing import Any

import pytest

import caladan as cal

WITH = "WITH recursive tc(A, B) AS (SELECT A, B FROM arc) UNION "
STEP = "(SELECT tc.A, arc.B FROM tc, arc WHERE tc.B = arc.A AND {}) "
AFTER = "SELECT A, B FROM tc ORDER BY A, B"

QUERIES: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "compared": (
        WITH + STEP.format("arc.B < (SELECT max(A) FROM lim)") + AFTER,
        [(1, 2), (1, 3), (2, 3), (3, 4)],
    ),
    "within arithmetic": (
        WITH + STEP.format("arc.B + 1 <= (SELECT max(A) FROM lim) * 1 + 1") + AFTER,
        [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)],
    ),
    "selected": (
        (
            "WITH recursive d(B, min() AS C) AS (SELECT 1, 0) UNION "
            "(SELECT arc.B, d.C + (SELECT min(A) FROM lim) FROM d, arc WHERE d.B = arc.A) "
            "SELECT B, C FROM d ORDER BY B"
        ),
        [(1, 0), (2, 2), (3, 4), (4, 6)],
    ),
    "NULL decides nothing": (
        WITH + STEP.format("arc.B < (SELECT max(A) FROM lim WHERE A > 99)") + AFTER,
        [(1, 2), (2, 3), (3, 4)],
    ),
    "summed": (
        (
            "WITH recursive n(A, sum() AS N) AS (SELECT 1, 1) UNION "
            "(SELECT arc.B, n.N * (SELECT min(A) FROM lim) FROM n, arc WHERE n.A = arc.A) "
            "SELECT A, N FROM n ORDER BY A"
        ),
        [(1, 1), (2, 2), (3, 4), (4, 8)],
    ),
}


def session() -> cal.Session:
    db = cal.connect("embedded")
    db.add("arc", {"A": [1, 2, 3], "B": [2, 3, 4]})
    db.add("lim", {"A": [2, 4]})
    return db


@pytest.mark.parametrize("name", QUERIES)
def test_scalar(name: str) -> None:
    query, rows = QUERIES[name]
    assert session().sql(query).rows() == rows


def test_several_rows_are_an_error() -> None:
    with pytest.raises(cal.CaladanError, match=r"error\[C062\]"):
        session().sql(WITH + STEP.format("arc.B < (SELECT A FROM lim)") + AFTER)


def test_null_cannot_be_carried() -> None:
    query = "WITH recursive d(B) AS (SELECT 1) UNION "
    query += "(SELECT (SELECT max(A) FROM lim WHERE A > 99) FROM d) SELECT B FROM d"
    with pytest.raises(cal.CaladanError, match=r"error\[C064\]"):
        session().sql(query)


@pytest.mark.parametrize(
    "condition",
    [
        "arc.B < (SELECT max(tc.B) FROM tc)",
        "arc.B < (SELECT max(lim.A) FROM lim WHERE lim.A > tc.A)",
    ],
)
def test_what_depends_on_the_recursion_is_refused(condition: str) -> None:
    with pytest.raises(cal.CaladanError, match="a subquery that depends on the recursion"):
        session().sql(WITH + STEP.format(condition) + AFTER)
