"""`Session.prepare`: compiled once, run often, with the answers that `run` has."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, strategies as st

import caladan
from caladan import pipeline
from caladan.language import parse
from caladan.pipeline import STAGES, Request, compile_again, compile_until
from caladan.session.session import Session

ARC = "database({arc(A: integer, B: integer)}). "
REACHED = """
database({arc(A: integer, B: integer)}).
start({from}).
tc(A, B) <- arc(A, B), A < {most}.
tc(A, B) <- tc(A, C), arc(C, B).
r(X) <- start(X). r(Y) <- r(X), arc(X, Y), Y ~= {from}.
query tc({from}, B). query r(X).
"""
DATA = [(1, 2), (2, 3), (3, 4), (4, 1), (5, 6)]


def answers(result: Any) -> list[list[tuple[Any, ...]]]:
    return [sorted(answer.rows()) for answer in result.answers]


@pytest.fixture
def db() -> Session:
    found = caladan.connect("embedded")
    found.add("arc", DATA)
    return found


def counted() -> Any:
    """Counts how often the passes are gone through."""
    return patch.object(pipeline, "compile_until", side_effect=pipeline.compile_until)


def test_it_is_compiled_once_and_answers_as_a_run_does(db: Session) -> None:
    prepared = db.prepare(REACHED)
    asked = [{"from": start, "most": most} for start in (1, 2, 5, 9) for most in (2, 100)]
    with counted() as passes:
        found = [answers(prepared.run(params)) for params in asked]
    assert passes.call_count == 1
    assert found == [answers(db.run(REACHED, params)) for params in asked]


@given(st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3))
def test_other_values_give_the_program_that_would_be_compiled(
    one: int, two: int, three: int, four: int
) -> None:
    program = parse(REACHED + "start(1). start({most}). query tc({most}, {from}).")
    first = Request(program, {}, {"from": one, "most": two})
    second = Request(program, {}, {"from": three, "most": four})
    known = compile_until(STAGES[-1], first)
    with counted() as passes:
        again = compile_again(known, second)
    assert passes.call_count == 0
    fresh = compile_until(STAGES[-1], second)
    assert again.delta == fresh.delta
    assert again.made == fresh.made


@pytest.mark.parametrize(
    ("program", "values"),
    [
        ("p(X) <- arc(X, _), X > {v}. query p(X).", [1, 1.5, 2]),
        ("p({v}). query p(X).", [1, "text", 2**40]),
        ("p(X) <- arc(X, _), limit({v}). query p(X).", [1, 3, 2]),
    ],
)
def test_values_that_mean_another_program_are_compiled_anew(
    db: Session, program: str, values: list[Any]
) -> None:
    prepared = db.prepare(ARC + program)
    for value in (*values, *values):
        found = answers(prepared.run({"v": value}))
        assert found == answers(db.run(ARC + program, {"v": value}))


def test_what_it_uses_may_change(db: Session) -> None:
    prepared = db.prepare("p(X, Y) <- arc(X, Y). query p(X, Y).")
    assert answers(prepared.run()) == [sorted(DATA)]
    db.add("arc", [("a", "b")])
    assert answers(prepared.run()) == [[("a", "b")]]


def test_mistakes_are_those_of_a_run(db: Session) -> None:
    with pytest.raises(caladan.CaladanError, match="nothing"):
        db.prepare("p(X) <- nothing(X). query p(X).")
    prepared = db.prepare(REACHED)
    prepared.run({"from": 1, "most": 2})
    for params in ({"from": 1}, {"from": 1, "mots": 2}, {"from": "a", "most": 2}):
        with pytest.raises(caladan.CaladanError) as told:
            prepared.run(params)
        with pytest.raises(caladan.CaladanError) as expected:
            db.run(REACHED, params)
        assert str(told.value) == str(expected.value)


def test_scripts_are_read_once(db: Session) -> None:
    db.add("road", {"A": [1, 2, 3, 4, 5], "B": [2, 3, 4, 1, 6]})
    query = "SELECT A, B FROM road WHERE A > :least ORDER BY A"
    prepared = db.prepare(query, language="rasql")
    assert [prepared.run({"least": n}).answer.count() for n in (0, 4)] == [5, 1]


def test_on_spark(spark: Any) -> None:
    db = caladan.connect(spark)
    db.add("arc", DATA)
    prepared = db.prepare(REACHED)
    with counted() as passes:
        found = [answers(prepared.run({"from": n, "most": 100})) for n in (1, 5)]
    assert passes.call_count == 1
    assert found[1] == [[(5, 6)], [(5,), (6,)]]
