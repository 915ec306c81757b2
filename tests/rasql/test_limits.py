"""SQL keeps to limits: the time of a run, Ctrl-C, and how deeply a text may be nested."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

import caladan as cal

LONG = "SELECT count(*) FROM n AS a, n AS b, n AS c WHERE a.A * b.A % 7 = c.A % 5"


@pytest.fixture
def db() -> cal.Session:
    session = cal.connect("embedded")
    session.add("n", {"A": list(range(3000))})
    session.sql("SELECT count(*) FROM n")  # libraries are loaded, so that only the query takes time
    return session


def test_a_timeout_ends_a_query(db: cal.Session) -> None:
    started = time.perf_counter()
    with pytest.raises(cal.Stopped) as caught:
        db.run(LONG, timeout=0.5)
    assert caught.value.diagnostics[0].code == "C042"
    assert "while evaluating SQL" in str(caught.value)
    assert time.perf_counter() - started < 10
    used = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - used < 0.4  # and DuckDB has stopped, too


def test_answers_before_the_end_stay(db: cal.Session) -> None:
    with pytest.raises(cal.Stopped) as caught:
        db.run(f"SELECT max(A) AS m FROM n; {LONG}", timeout=2)
    assert caught.value.result.answers[0].rows() == [(2999,)]


@pytest.mark.parametrize("timeout", [None, 100])
def test_ctrl_c_ends_a_query(db: cal.Session, timeout: float | None) -> None:
    timer = threading.Timer(0.7, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(cal.Stopped) as caught:
        db.run(LONG, timeout=timeout)
    assert caught.value.diagnostics[0].code == "C043"


DEEP = {
    "parentheses": "(" * 3000 + "1" + ")" * 3000,
    "not": "NOT " * 5000 + "true",
    "case": "CASE WHEN A = 1 THEN 1 ELSE " * 3000 + "0" + " END" * 3000,
    "subqueries": "(SELECT " * 3000 + "1" + ")" * 3000,
    "calls": "upper(" * 3000 + "'a'" + ")" * 3000,
}


@pytest.mark.parametrize("name", DEEP)
def test_too_deep_is_told(db: cal.Session, name: str) -> None:
    with pytest.raises(cal.CaladanError) as caught:
        db.sql(f"SELECT {DEEP[name]} FROM n")
    (found,) = caught.value.diagnostics
    assert found.code == "C001"
    assert "nested too deeply" in found.message
    assert found.place is not None


def test_what_programs_write_is_not_too_deep(db: cal.Session) -> None:
    case = "CASE WHEN A = 1 THEN 1 ELSE " * 60 + "0" + " END" * 60
    assert db.sql(f"SELECT max({case}) FROM n").rows() == [(1,)]
    inner = "(SELECT * FROM " * 200 + "n" + ") AS x" * 200
    assert db.sql(f"SELECT count(*) FROM {inner}").rows() == [(3000,)]
    parentheses = "(" * 150 + "1" + ")" * 150
    assert db.sql(f"SELECT {parentheses}").rows() == [(1,)]


def test_a_recursive_step_may_nest(db: cal.Session) -> None:
    case = "CASE WHEN t.A = 1 THEN 1 ELSE " * 60 + "0" + " END" * 60
    query = f"WITH recursive t(A) AS (SELECT 1) UNION (SELECT {case} FROM t) SELECT A FROM t"
    assert db.sql(query).rows() == [(1,)]


def summed(db: cal.Session, condition: str) -> cal.Relation:
    db.add("e", {"A": [1, 2, 3], "B": [2, 3, 4], "C": [1, 1, 1]})
    return db.sql(
        "WITH recursive t(A, sum() AS S) AS (SELECT A, C FROM e) UNION "
        f"(SELECT e.B, e.C FROM t, e WHERE t.A = e.A AND ({condition})) SELECT A, S FROM t"
    )


@pytest.mark.parametrize("rest", ["", " OR e.B > 4", " OR e.C = 7 OR e.C = 1.5"])
def test_many_equalities_are_a_list(db: cal.Session, rest: str) -> None:
    """Where a view adds up, alternatives exclude each other: 200 would have 20,000 parts."""
    started = time.process_time()
    equal = " OR ".join(f"e.A = {i}" for i in range(2, 202))
    assert sorted(summed(db, equal + rest).rows()) == [(1, 1), (2, 1), (3, 2), (4, 1)]
    assert time.process_time() - started < 20
    assert sorted(summed(db, f"NOT ({equal}{rest})").rows()) == [(1, 1), (2, 2), (3, 1)]


def test_too_many_alternatives_of_a_sum_are_told(db: cal.Session) -> None:
    started = time.process_time()
    with pytest.raises(cal.CaladanError) as caught:
        summed(db, " OR ".join(f"e.A + {i} > 2" for i in range(200)))
    assert caught.value.diagnostics[0].code == "C060"
    assert "2000 parts once they exclude each other" in str(caught.value)
    assert time.process_time() - started < 20


def test_a_timeout_covers_reading_for_sql(db: cal.Session, tmp_path: Path) -> None:
    data = tmp_path / "r.csv"
    data.write_text("".join(f"{i},x{i}\n" for i in range(1_000_000)))
    db.add("r", data)
    with pytest.raises(cal.Stopped, match="the time limit ended while reading `r`"):
        db.run("CREATE TABLE r(A integer, B string); SELECT count(*) FROM r", timeout=0.05)


def test_a_timeout_covers_the_translation_of_sql(db: cal.Session) -> None:
    many = " UNION ALL ".join(f"SELECT {i} AS a" for i in range(2000))
    started = time.process_time()
    with pytest.raises(cal.Stopped, match=r"the time limit ended while (reading|compiling)"):
        db.run(many, timeout=0.5)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("number", "told"),
    [
        ("9" * 10_000, "this number has more than 38 digits"),
        ("1e999", "this number is too large for a double"),
        ("1" + "0" * 400 + ".5", "this number is too large for a double"),
    ],
)
def test_numbers_that_nothing_holds(db: cal.Session, number: str, told: str) -> None:
    with pytest.raises(cal.CaladanError) as caught:
        db.sql(f"SELECT {number} AS a")
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("C003", told)
    assert found.place is not None


def test_a_table_is_declared_once(db: cal.Session) -> None:
    db.run("CREATE TABLE n(A integer); CREATE TABLE N(a integer); SELECT max(A) FROM n")
    with pytest.raises(cal.CaladanError, match="first declared here") as caught:
        db.run("CREATE TABLE n(A integer); CREATE TABLE n(B integer); SELECT 1 AS a")
    assert caught.value.diagnostics[0].code == "C017"
