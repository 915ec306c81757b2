"""Rules over random data with missing values agree with DuckDB where SQL says what they mean."""

import duckdb
import pyarrow as pa
from hypothesis import given, settings, strategies as st

import caladan as cal

VALUES = st.one_of(st.none(), st.integers(0, 3))
ROWS = st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=8)
PAIRS = {
    "p(A, C) <- a(A, B), b(B, C).": "SELECT DISTINCT a.x, b.y FROM a, b WHERE a.y = b.x",
    "p(A, B) <- a(A, B), B ~= 1.": "SELECT DISTINCT x, y FROM a WHERE y <> 1",
    "p(A, B) <- a(A, B), ~b(B, _).": "SELECT DISTINCT x, y FROM a WHERE NOT EXISTS "
    "(SELECT 1 FROM b WHERE b.x = a.y)",
    "p(A + B, coalesce(A, B)) <- a(A, B).": "SELECT DISTINCT x + y, coalesce(x, y) FROM a",
    "p(A, if(B > 1 then 1 else 0)) <- a(A, B).": "SELECT DISTINCT x, "
    "CASE WHEN y > 1 THEN 1 ELSE 0 END FROM a",
    "p(A, sum<B>, count<B>, count<_>, min<B>, max<B>) <- a(A, B).": "SELECT x, sum(y), count(y), "
    "count(*), min(y), max(y) FROM (SELECT DISTINCT * FROM a) GROUP BY x",
    "p(A, sum<B>, count<_>) <- a[_](A, B).": "SELECT x, sum(y), count(*) FROM a GROUP BY x",
    "p(A, B, C) <- a(A, B), b(B, C). p(A, B, null) <- a(A, B), ~b(B, _).": "SELECT DISTINCT a.x, "
    "a.y, b.y FROM a LEFT JOIN b ON a.y = b.x",
}


def table(rows: list[tuple[int | None, int | None]]) -> pa.Table:
    columns = zip("xy", zip(*rows, strict=True), strict=True)
    return pa.table({name: pa.array(column, pa.int64()) for name, column in columns})


@settings(max_examples=25)
@given(ROWS, ROWS)
def test_rules_and_sql_agree(
    a: list[tuple[int | None, int | None]], b: list[tuple[int | None, int | None]]
) -> None:
    with cal.connect("embedded") as db, duckdb.connect() as sql:
        for name, rows in (("a", a), ("b", b)):
            db.add(name, table(rows))
            sql.register(name, table(rows))
        for rule, query in PAIRS.items():
            assert set(db.run(rule)["p"].rows()) == set(sql.execute(query).fetchall()), rule
