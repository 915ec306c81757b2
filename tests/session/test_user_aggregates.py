"""Aggregates that users add: the same answers on every engine, inside recursion and outside."""

import math
from typing import Any

import numpy as np
import pytest

import caladan as cal

PROGRAM = """
r(G, hcf<X>, hcf_columns<X>, product<Y>, product<X>) <- p(_, G, X, Y).
l(G, longest<T>) <- t(_, G, T).
empty(product<X>) <- p(X, "nobody", _, _).
none(hcf<X>) <- p(X, "nobody", _, _).
d(X, hcf<W>) <- arc(X, _, W).
d(Y, hcf<V>) <- d(X, V), arc(X, Y, _).
n(X, hcf_columns<W>) <- arc(X, _, W).
n(Y, hcf_columns<V>) <- n(X, V), arc(X, Y, _).
w(1, "").
w(Y, longest_so_far<S>) <- w(X, T), word(X, Y, U), S = concat(T, U).
query r(A, B, C, D, E). query l(A, B). query empty(A). query none(A). query d(A, B). query n(A, B).
query w(A, B).
"""

EXPECTED: dict[str, set[tuple[Any, ...]]] = {
    "r": {("a", 6, 6, 1.875, 6480), ("b", 5, 5, 4.0, 150), ("c", 7, 7, 7.0, 7)},
    "l": {("a", "yy"), ("b", "q")},
    "empty": {(1,)},
    "none": set(),
    "d": {(1, 1), (2, 1), (3, 1), (4, 5)},
    "n": {(1, 1), (2, 1), (3, 1), (4, 5)},
    "w": {(1, ""), (2, "ab"), (3, "abcd")},
}


def longer(one: str, other: str) -> str:
    return max(one, other, key=lambda text: (len(text), text))


def session(engine: Any) -> cal.Session:
    db = cal.connect(engine)
    db.aggregate("hcf", math.gcd, idempotent=True, monotone=True)
    db.aggregate("hcf_columns", np.gcd, idempotent=True, monotone=True, vectorized="numpy")
    db.aggregate("product", lambda one, other: one * other, identity=1)
    db.aggregate("longest", longer, idempotent=True)
    db.aggregate("longest_so_far", longer, idempotent=True, monotone=True)
    db.add("p", [(1, "a", 12, 1.5), (2, "a", 18, 2.5), (3, "a", 30, 0.5), (4, "b", 10, 1.0),
                 (5, "b", 15, 4.0), (6, "c", 7, 7.0)])  # fmt: skip
    db.add("t", [(1, "a", "x"), (2, "a", "yy"), (3, "a", "z"), (4, "b", "q")])
    db.add("arc", [(1, 2, 12), (2, 3, 18), (3, 1, 30), (4, 3, 5)])
    db.add("word", [(1, 2, "a"), (1, 2, "ab"), (2, 3, "cd"), (1, 3, "z")])
    return db


@pytest.mark.parametrize("strategy", ["reference", "embedded", "single", "meshed", "frame"])
def test_the_same_answers_on_every_engine(strategy: str, request: pytest.FixtureRequest) -> None:
    is_spark = strategy in ("single", "meshed", "frame")
    engine = request.getfixturevalue("spark") if is_spark else strategy
    with session(engine) as db:
        out = db.run(PROGRAM, strategy=strategy if is_spark else None)
        assert {name: set(out[name].rows()) for name in EXPECTED} == EXPECTED


def test_they_follow_their_data() -> None:
    with session("embedded") as db, db.watch(PROGRAM) as live:
        db.insert("p", [(7, "a", 4, 1.0)])
        assert ("a", 2, 2, 1.875, 25920) in set(live["r"].rows())
        db.delete("p", [(7, "a", 4, 1.0)])
        assert set(live["r"].rows()) == EXPECTED["r"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": "min"}, "an aggregate cannot be called `min`"),
        ({"name": "Gcd"}, "an aggregate cannot be called `Gcd`"),
        ({"monotone": True}, "`gcd` cannot be used in recursion"),
        ({"combine": 3}, "`gcd` is a int, not a function"),
        ({"vectorized": "arrow"}, 'vectorized is "numpy" or None'),
    ],
)
def test_what_cannot_be_added(given: dict[str, Any], told: str) -> None:
    wanted = {"name": "gcd", "combine": math.gcd, **given}
    with cal.connect("embedded") as db, pytest.raises(cal.CaladanError, match=told):
        db.aggregate(wanted.pop("name"), wanted.pop("combine"), **wanted)


@pytest.mark.parametrize("engine", ["reference", "embedded"])
@pytest.mark.parametrize(
    ("combine", "told"),
    [
        (lambda one, other: one / 0, "ZeroDivisionError: division by zero"),
        (lambda one, other: str(one), "it made '1', a str, of 1 and 2"),
    ],
)
def test_a_function_that_fails_is_named(engine: str, combine: Any, told: str) -> None:
    with cal.connect(engine) as db:
        db.aggregate("bad", combine)
        db.add("p", [(1,), (2,)])
        with pytest.raises(cal.CaladanError, match=f"C073.*`bad` failed in rule 1.*{told}"):
            db.run("q(bad<X>) <- p(X). query q(X).")


def test_one_that_is_not_monotone_stays_out_of_recursion() -> None:
    with session("embedded") as db, pytest.raises(cal.CaladanError, match="C014"):
        db.run("d(1, 1). d(Y, product<V>) <- d(X, V), arc(X, Y, _). query d(X, Y).")


def test_an_unknown_aggregate_is_told() -> None:
    with session("embedded") as db, pytest.raises(cal.CaladanError) as problem:
        db.run("q(medain<X>) <- p(X, _, _, _). query q(X).")
    assert "there is no aggregate `medain`" in str(problem.value)
    assert "did you mean `median`?" in str(problem.value)
