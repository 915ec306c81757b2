"""Constants of a SELECT drive the evaluation of a recursive view; the view stays whole by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import caladan as cal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHAINS = [(10 * i + j, 10 * i + j + 1) for i in range(100) for j in range(9)]  # 100 of ten nodes
WHOLE = 100 * 45
TC = """WITH recursive tc(Src, Dst) AS (SELECT A, B FROM arc) UNION
  (SELECT tc.Src, arc.B FROM tc, arc WHERE tc.Dst = arc.A) """
RIGHT = """WITH recursive tc(Src, Dst) AS (SELECT A, B FROM arc) UNION
  (SELECT arc.A, tc.Dst FROM tc, arc WHERE arc.B = tc.Src) """


@pytest.fixture
def db() -> cal.Session:
    db = cal.connect("embedded")
    db.add("arc", {"A": [a for a, _ in CHAINS], "B": [b for _, b in CHAINS]})
    return db


BOUND: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "a source": (TC + "SELECT Dst FROM tc WHERE Src = 996", [(997,), (998,), (999,)]),
    "a target": (TC + "SELECT Src FROM tc WHERE Dst = 992", [(990,), (991,)]),
    "right-linear": (RIGHT + "SELECT Dst FROM tc WHERE Src = 998", [(999,)]),
    "the other way round": (TC + "SELECT Dst FROM tc WHERE (998 = tc.Src)", [(999,)]),
    "among others": (TC + "SELECT Dst FROM tc WHERE Src = 7 AND Dst > 8", [(9,)]),
    "a list": (TC + "SELECT Src, Dst FROM tc WHERE Src IN (8, 18)", [(8, 9), (18, 19)]),
    "renamed": (TC + "SELECT t.Dst FROM tc AS t WHERE t.SRC = 8", [(9,)]),
    "joined": (
        TC + "SELECT tc.Dst, arc.B FROM tc, arc WHERE arc.A = tc.Dst AND tc.Src = 7",
        [(8, 9)],
    ),
    "the side of an outer join that may be missing": (
        TC + "SELECT arc.B FROM arc LEFT JOIN tc ON arc.A = tc.Src WHERE tc.Src = 8",
        [(9,)],
    ),
    "several times": (
        TC + "SELECT a.Dst, b.Dst FROM tc a, tc b WHERE a.Src = 8 AND b.Src = 18",
        [(9, 19)],
    ),
    "in a subquery": (TC + "SELECT max(D) FROM (SELECT Dst AS D FROM tc WHERE Src = 3) x", [(9,)]),
    "counted": (TC + "SELECT count(*) FROM tc WHERE Src = 3", [(6,)]),
    "negative": (TC + "SELECT Dst FROM tc WHERE Src = -3", []),
}


@pytest.mark.parametrize("name", BOUND)
def test_only_what_is_asked_for_is_derived(db: cal.Session, name: str) -> None:
    query, expected = BOUND[name]
    with db.run(query) as out:
        assert out.answer.rows() == expected
        assert out.stats.facts < 100
        assert out["tc"].count() == WHOLE
        assert out["tc"].columns == ("Src", "Dst")
        assert out["tc"].count() == WHOLE  # and is kept
        assert out.stats.facts < 100  # which are those of the run


WHOLES = {
    "a comparison": "SELECT count(*) FROM tc WHERE Src <= 1000",
    "one of two": "SELECT count(*) FROM tc WHERE Src = 1 OR Dst = 1000 OR Src > 0 OR Dst > 0",
    "text, which SQL converts": "SELECT count(*) FROM tc WHERE Src = '1' OR Src <> '1'",
    "elsewhere without": "SELECT count(*) FROM tc a, tc b WHERE a.Src = 1 AND b.Dst = a.Dst",
    "of another table": "SELECT count(*) FROM tc, arc x WHERE x.A = 1",
    "in HAVING": "SELECT Src, count(*) FROM tc GROUP BY Src HAVING Src = 1",
    "outside": "SELECT A FROM arc WHERE A = 1 AND EXISTS (SELECT 1 FROM tc WHERE Dst = B)",
}


@pytest.mark.parametrize("name", WHOLES)
def test_all_of_it_where_all_is_needed(db: cal.Session, name: str) -> None:
    with db.run(TC + WHOLES[name]) as out:
        assert [c.facts for c in out.stats.cliques if c.recursive] == [WHOLE]


def test_what_another_view_reads_is_evaluated_whole(db: cal.Session) -> None:
    query = TC + ", far(S) AS (SELECT Src FROM tc WHERE Dst = 9) SELECT Dst FROM tc WHERE Src = 8"
    with db.run(query) as out:
        assert out.answer.rows() == [(9,)]
        assert [c.facts for c in out.stats.cliques if c.recursive] == [WHOLE]


def test_views_that_nobody_reads_wait(db: cal.Session) -> None:
    query = """WITH recursive odd(X, Y) AS (SELECT A, B FROM arc) UNION
      (SELECT even.X, arc.B FROM even, arc WHERE even.Y = arc.A),
      even(X, Y) AS (SELECT odd.X, arc.B FROM odd, arc WHERE odd.Y = arc.A)
      SELECT Y FROM odd WHERE X = 4"""
    with db.run(query) as out:
        assert out.answer.rows() == [(5,), (7,), (9,)]
        assert out.stats.facts < 20
        assert out["odd"].count() == 100 * (9 + 7 + 5 + 3 + 1)
        assert out["even"].count() == 100 * (8 + 6 + 4 + 2)


def test_a_constant_that_no_fact_can_have(db: cal.Session) -> None:
    with db.run(TC + "SELECT Dst FROM tc WHERE Src = 99999999999999999999") as out:
        assert out.answer.rows() == []
        assert out.stats.facts == WHOLE


def test_a_parameter_is_a_constant(db: cal.Session) -> None:
    out = db.run(TC + "SELECT Dst FROM tc WHERE Src = :start", {"start": 998})
    assert out.answer.rows() == [(999,)]
    assert out.stats.facts < 10


def test_explain_shows_the_goal(db: cal.Session) -> None:
    query = TC + "SELECT Dst FROM tc WHERE Src = 1"
    assert "query tc(1, Dst)." in db.explain(query, "rules")
    assert "demand_tc_bf(1)" in db.explain(query, "plan")


def test_a_closed_session_says_so(db: cal.Session) -> None:
    out = db.run(TC + "SELECT Dst FROM tc WHERE Src = 1")
    db.close()
    with pytest.raises(cal.CaladanError, match="the session is closed"):
        out["tc"].count()


def test_on_spark(spark: SparkSession) -> None:
    with cal.connect(spark) as db:
        db.add("arc", {"A": [a for a, _ in CHAINS], "B": [b for _, b in CHAINS]})
        with db.run(TC + "SELECT Dst FROM tc WHERE Src = 998") as out:
            assert out.answer.rows() == [(999,)]
            assert out.stats.facts < 10
            assert out["tc"].count() == WHOLE
