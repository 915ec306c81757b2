"""Queries over recursive views read excerpts of them; they mean what they mean over whole views."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from tests.programs.compare import difference

import caladan

VALUES = st.integers(0, 4)
ARCS = st.lists(st.tuples(VALUES, VALUES, st.sampled_from(["x", "y"])), max_size=7)
HOLED = st.lists(st.tuples(st.none() | VALUES, st.none() | VALUES), max_size=5)
VIEW = """WITH recursive v(A, B, C) AS (SELECT A, B, C FROM arc) UNION
  (SELECT v.A, arc.B, v.C FROM v, arc WHERE v.B = arc.A) """
DECLARED = "CREATE TABLE arc(A integer, B long, C string); CREATE TABLE o(K integer, L integer); "

COLUMNS = st.sampled_from(["v.A", "v.B", "v.C", "v.B - v.A", "v.A % 2", "v.A + v.A * v.B"])
TESTS = st.one_of(
    st.sampled_from(["v.C = 'x'", "v.A < v.B", "v.B - v.A > 1", "NOT v.A = v.B", "v.C <> 'z'"]),
    st.builds("v.A > {}".format, VALUES),
    st.builds("v.B BETWEEN {} AND {}".format, VALUES, VALUES),
    st.builds("(v.A < {} OR v.B > {})".format, VALUES, VALUES),
    st.builds("v.B IN ({}, {})".format, VALUES, VALUES),
    st.builds("v.B + v.A <> {}".format, VALUES),
    st.just("EXISTS (SELECT 1 FROM o AS p WHERE p.K = v.A)"),
)
ON_OTHERS = st.sampled_from(["o.L > 1", "o.L IS NULL", "o.L < v.B", "v.A = o.L"])
AGGREGATES = st.sampled_from(
    [
        "count(*)",
        "count(1)",
        "count(v.B)",
        "count(DISTINCT v.B)",
        "count(DISTINCT v.C)",
        "sum(v.A)",
        "sum(v.B)",
        "avg(v.A)",
        "avg(v.B)",
        "min(v.B)",
        "max(v.A)",
        "max(v.C)",
        "sum(v.B - v.A)",
        "sum(DISTINCT v.B)",
        "max(v.A) - min(v.B)",
        "count(*) + 1",
        "count(*) FILTER (WHERE v.B > 2)",
        "max(v.B - v.A)",
        "min(v.A * 2)",
        "sum(v.A * v.A)",
        "count(DISTINCT v.B - v.A)",
        "avg(v.A + 1)",
        "avg(v.B - v.A)",
    ]
)
ON_OTHER_AGGREGATES = st.sampled_from(["count(o.L)", "sum(o.L)", "max(o.L)", "count(DISTINCT o.K)"])
FROMS = st.sampled_from(
    [
        *["v"] * 4,
        "v JOIN o ON v.A = o.K",
        "o, v",
        "o LEFT JOIN v ON v.B = o.K",
        "v LEFT JOIN o ON v.A = o.K",
        "v FULL JOIN o ON v.A = o.K AND v.B = o.L",
        "o JOIN v ON v.A = o.K AND v.B > o.L",
        "o JOIN v ON v.A = o.K AND o.L = v.B",
        "v JOIN v AS w ON v.B = w.A",
    ]
)


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A SELECT over the view `v` and perhaps the table `o`."""
    tables = draw(FROMS)
    with_other = " o" in f" {tables}"
    tests = draw(st.lists(TESTS | ON_OTHERS if with_other else TESTS, max_size=2))
    keys = draw(st.lists(COLUMNS | st.just("o.K") if with_other else COLUMNS, max_size=2))
    keys = list(dict.fromkeys(keys))
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    kind = draw(st.sampled_from(["grouped"] * 4 + ["distinct", "plain", "in", "scalar"]))
    match kind:
        case "distinct":
            return f"SELECT DISTINCT {', '.join(keys or ['v.B'])} FROM {tables}{where}"
        case "plain":
            return f"SELECT {', '.join(keys or ['*'])} FROM {tables}{where}"
        case "in":
            return f"SELECT K FROM o AS q WHERE K IN (SELECT v.B FROM {tables}{where})"
        case "scalar":
            one = draw(AGGREGATES)
            return f"SELECT q.K, (SELECT {one} FROM v WHERE v.A = q.K) AS n FROM o AS q"
        case _:
            some = AGGREGATES | ON_OTHER_AGGREGATES if with_other else AGGREGATES
            found = draw(st.lists(some, min_size=1, max_size=3, unique=True))
            numbers = [str(i + 1) for i in range(len(keys))]
            by = draw(st.sampled_from([keys, numbers]))
            group = f" GROUP BY {', '.join(by)}" if keys else ""
            if keys and draw(st.booleans()):
                group += " HAVING count(*) > 1"
            return f"SELECT {', '.join([*keys, *found])} FROM {tables}{where}{group}"


def answer(db: caladan.Session, query: str) -> tuple[list[str], list[tuple[Any, ...]]] | str:
    """The types and rows of an answer, or the code of what is wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", caladan.CaladanWarning)
            found = db.sql(query)
            arrow = found.arrow()
    except caladan.CaladanError as problem:
        return problem.diagnostics[0].code
    types = [f"{field.name}: {field.type}" for field in arrow.schema]
    return types, [tuple(row) for row in zip(*(c.to_pylist() for c in arrow.columns), strict=True)]


@given(ARCS, HOLED, queries())
@example([], [(0, 0)], "SELECT o.K, count(*) FROM o, v GROUP BY o.K")
@example([], [], "SELECT count(*), sum(v.B), avg(v.A), max(v.C), count(DISTINCT v.B) FROM v")
@example(
    [(0, 1, "x")],
    [(None, 1)],
    "SELECT o.K, count(*), count(v.B) FROM o LEFT JOIN v ON v.A = o.K GROUP BY o.K",
)
def test_whole_views_agree(arcs: Any, holed: Any, query: str) -> None:
    for engine in ("embedded", "reference"):
        db = caladan.connect(engine)
        a, b, c = (list(column) for column in zip(*arcs, strict=True)) if arcs else ([], [], [])
        db.add("arc", {"A": a, "B": b, "C": c})
        db.add("o", {"K": [k for k, _ in holed], "L": [value for _, value in holed]})
        whole = caladan.connect(engine)
        whole.add("o", {"K": [k for k, _ in holed], "L": [value for _, value in holed]})
        whole.add("v", db.sql(DECLARED + VIEW + "SELECT * FROM v").arrow())
        expected = answer(whole, "CREATE TABLE o(K integer, L integer); " + query)
        found = answer(db, DECLARED + VIEW + query)
        if isinstance(expected, str) or isinstance(found, str):
            assert found == expected, query
            continue
        assert found[0] == expected[0], query
        different = difference(found[1], expected[1], ordered=False)
        assert different is None, f"{engine}: {query}: {different}"


@pytest.mark.parametrize(
    ("query", "rules"),
    [
        ("SELECT count(*) FROM v", "v_part(1, count<_>) <- v(_, _, _)."),
        ("SELECT DISTINCT C FROM v", "v_part(C) <- v(_, _, C)."),
        (
            "SELECT A, avg(B), count(DISTINCT C) FROM v WHERE B - A > 1 GROUP BY A",
            "v_part(A, avg<B>, countd<C>) <- v(A, B, C), B - A > 1.",
        ),
        (
            "SELECT K, avg(v.A), max(B) AS B FROM v JOIN o ON K = B GROUP BY K ORDER BY B",
            "v_part(B, sum<A>, count<_>, max<B>) <- v(A, B, _).",
        ),
        (
            "SELECT K FROM o WHERE EXISTS (SELECT * FROM v WHERE v.A = K AND C <> 'x')",
            "v_part(A) <- v(A, _, C), C ~= x.",
        ),
        (
            "SELECT B - A AS D, count(*), count(DISTINCT C) FROM v GROUP BY D ORDER BY D",
            "v_part(B - A, count<_>, countd<C>) <- v(A, B, C).",
        ),
        (
            "SELECT max(B - A), sum(A * B) FROM v",
            "v_part(1, max<B - A>, sum<A * B>) <- v(A, B, _).",
        ),
        (
            "SELECT o.L, v.B FROM o JOIN v ON v.A = o.K AND o.L > 1 WHERE v.B > 0 LIMIT 9",
            "v_part(A, B, C) <- v(A, B, C), o_keys(A), B > 0.",
        ),
        ("SELECT a.A FROM v AS a WHERE a.B >= 2 LIMIT 1", "v_part(A, B, C) <- v(A, B, C), B >= 2."),
    ],
)
def test_rules_say_what_is_needed(query: str, rules: str) -> None:
    db = caladan.connect("embedded")
    found = db.explain(DECLARED + VIEW + query, "rules")
    assert rules in found
    assert "query v(" not in found
    assert "v_part AS" in db.explain(DECLARED + VIEW + query, "sql")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM v",
        "SELECT A FROM v",  # as often as it comes
        "SELECT A, B, C, count(*) FROM v GROUP BY A, B, C",
        "SELECT sum(o.L) FROM v, o",  # of each row as often as it is joined
        "SELECT count(*) FROM v JOIN v AS w ON v.A = w.B",
        "SELECT A, row_number() OVER (ORDER BY B) FROM v",
        "SELECT n.* FROM (SELECT count(*) FROM v) AS n",  # whose column the engine names
        "SELECT sum(A / B) FROM v",
        "SELECT A, B - A, C, count(*) FROM v GROUP BY 1, 2, 3",
    ],
)
def test_a_view_is_read_as_it_is(query: str) -> None:
    db = caladan.connect("embedded")
    found = db.explain(DECLARED + VIEW + query, "rules")
    assert "query v(A, B, C)." in found
    assert "v_part" not in found


def test_values_of_a_scalar_subquery_are_as_many_as_they_are() -> None:
    db = caladan.connect("embedded")
    db.add("arc", {"A": [1, 2], "B": [3, 3], "C": ["x", "x"]})
    assert db.sql(VIEW + "SELECT 1 WHERE 3 IN (SELECT B FROM v)").rows() == [(1,)]
    with pytest.raises(caladan.CaladanError, match="C062"):
        db.sql(VIEW + "SELECT 1 WHERE (SELECT B FROM v) IN (3, 4)").rows()


def test_a_view_stays_whole_by_its_name() -> None:
    db = caladan.connect("embedded")
    db.add("arc", {"A": [1, 2, 3], "B": [2, 3, 4], "C": ["x", "x", "y"]})
    with db.run(VIEW + "SELECT count(*) FROM v") as out:
        assert out.answer.rows() == [(6,)]
        assert out["v"].count() == 6
        assert out["v"].columns == ("A", "B", "C")


def test_an_excerpt_hides_no_table() -> None:
    db = caladan.connect("embedded")
    db.add("arc", {"A": [1, 2], "B": [2, 3], "C": ["x", "x"]})
    db.add("v_part", {"A": [1, 1, 7]})
    query = VIEW + "SELECT count(*) FROM v JOIN v_part ON v.A = v_part.A"
    assert db.sql(query).rows() == [(4,)]
