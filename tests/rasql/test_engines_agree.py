"""What is not recursive is SQL: DuckDB and Spark SQL give the same answers to it."""

from typing import Any

import pytest
from tests.programs.compare import difference

import caladan

DATA: dict[str, dict[str, list[Any]]] = {
    "t": {
        "A": [7, -7, 7, -7, 3, 3, None],
        "B": [2, 2, -2, -2, 3, 3, 1],
        "X": [1.5, -2.5, 0.0, None, 2.0, 2.0, 9.0],
        "S": ["Hello", "wörld", None, "", "abc", "abc", "Zz"],
    },
    "u": {"B": [2, 3, 9], "Name": ["two", "three", "nine"]},
}

QUERIES = {
    "division": "SELECT A, B, A / B, A div B, A % B FROM t WHERE B <> 0 ORDER BY A, B",
    "numbers with a point": "SELECT 0.1 + 0.2, 1.0 / 4, 2.50 * B FROM t ORDER BY 3 LIMIT 1",
    "text": "SELECT upper(S), lower(S), length(S), substring(S, 2, 3), S || '!', concat(S, 'x'), "
    "trim('  ' || S || ' '), replace(S, 'l', 'L'), locate('l', S) FROM t ORDER BY S, A, B",
    "escapes": r"SELECT 'it''s', 'a\nb', '\\', 'q\"q'",
    "nulls first": "SELECT A, S FROM t ORDER BY S, A, B",
    "nulls last": "SELECT X FROM t ORDER BY X DESC NULLS LAST",
    "distinct": "SELECT DISTINCT A, B FROM t",
    "bag": "SELECT A, B FROM t WHERE A = 3",
    "outer join": "SELECT t.B, Name FROM t LEFT JOIN u ON t.B = u.B",
    "full join": "SELECT t.A, u.Name FROM t FULL OUTER JOIN u ON t.A = u.B",
    "group by": "SELECT B, count(*), count(S), sum(A), avg(A), min(S), max(X) FROM t GROUP BY B",
    "having": "SELECT B, sum(A) AS total FROM t GROUP BY B HAVING sum(A) > 0 ORDER BY total DESC",
    "no group": "SELECT sum(A), count(DISTINCT B), avg(X) FROM t",
    "window": "SELECT A, X, row_number() OVER (PARTITION BY B ORDER BY A, X), "
    "sum(A) OVER (PARTITION BY B) FROM t WHERE A IS NOT NULL AND X IS NOT NULL",
    "subquery": "SELECT A FROM t WHERE B IN (SELECT B FROM u) AND X > (SELECT avg(X) FROM t)",
    "correlated": "SELECT A, B FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.B = t.B)",
    "with": "WITH w AS (SELECT B, sum(A) AS S FROM t GROUP BY B) SELECT w.S, u.Name FROM w, u "
    "WHERE w.B = u.B",
    "set operations": "SELECT B FROM t EXCEPT SELECT B FROM u",
    "union all": "SELECT B FROM t UNION ALL SELECT B FROM u",
    "case": "SELECT CASE WHEN A > 0 THEN 'p' WHEN A < 0 THEN 'n' END FROM t",
    "cast": "SELECT CAST(A AS STRING), CAST('3' AS INT), CAST(X AS INT), CAST(B AS DOUBLE) FROM t",
    "dates": "SELECT CAST('2024-02-03 04:05:06' AS TIMESTAMP), DATE '2024-02-03', "
    "year(DATE '2024-02-03')",
    "rounding": "SELECT round(X, 0), floor(X), ceil(X), abs(A) FROM t",
    "limit": "SELECT B FROM t ORDER BY B, A LIMIT 2 OFFSET 1",
    "same names": "SELECT t.B, u.B FROM t, u WHERE t.B = u.B AND t.A = 3",
    "any case": 'SELECT a, T."S" FROM T AS t WHERE b = 2',
}


def answer(engine: Any, sql: str) -> caladan.Relation:
    db = caladan.connect(engine)
    for name, data in DATA.items():
        db.add(name, data)
    return db.sql(sql)


def test_engines_agree(spark: Any) -> None:
    """In one test, for a session on Spark takes its time to start."""
    for name, sql in QUERIES.items():
        one, other = answer("reference", sql), answer(spark, sql)
        assert one.columns == other.columns, name
        different = difference(one.rows(), other.rows(), ordered="ORDER BY" in sql)
        assert different is None, f"{name}: {different}"
        assert [_wide(t) for t in one.types] == [_wide(t) for t in other.types], name


def _wide(type: str) -> str:
    """Whole numbers of all widths count as one type: the engines pick their own."""
    return "long" if type in ("byte", "short", "integer") else type


@pytest.mark.parametrize("sql", ["SELECT A / (B - 2) FROM t", "SELECT A % (B - 2) FROM t"])
@pytest.mark.parametrize("engine", ["reference", "spark"])
def test_division_by_zero(engine: str, sql: str, request: pytest.FixtureRequest) -> None:
    chosen = request.getfixturevalue("spark") if engine == "spark" else engine
    with pytest.raises(caladan.CaladanError) as caught:
        answer(chosen, sql).rows()
    assert "error[C040]: the SQL engine says: " in str(caught.value)
    assert "\n    |        ^^^^^^" in str(caught.value)
