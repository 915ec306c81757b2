"""Best values with witnesses: the least of those that final values allow, on every engine."""

import math
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.spark.mesh.engine import PartsEngine

import caladan
from caladan.session.session import Session

PROGRAM = """database({{arc(A: integer, B: integer, W: {type})}}).
near(X, {best}<D, P>) <- X = 0, D = {start}, P = -1.
near(Y, {best}<{value}, X>) <- near(X, C, _), arc(X, Y, W).
query near(X, D, P)."""

Arcs = list[tuple[int, int, Any]]
SHAPES: dict[str, tuple[str, Any, str, Any]] = {
    "shortest": ("mmin", 0, "C + W", lambda c, w: c + w),
    "widest": ("mmax", 9, "if(C < W then C else W)", min),
    "least of the largest": ("mmin", 0, "if(C > W then C else W)", max),
}


def expected(name: str, arcs: Arcs) -> list[tuple[Any, ...]]:
    """Best values by relaxation, then the least predecessor that gives them."""
    best, start, _, step = SHAPES[name]
    better = (lambda a, b: a < b) if best == "mmin" else (lambda a, b: a > b)
    values: dict[int, Any] = {0: start}
    for _ in range(len(arcs) + 1):
        for a, b, w in arcs:
            if a in values and (b not in values or better(step(values[a], w), values[b])):
                values[b] = step(values[a], w)
    rows: list[tuple[Any, ...]] = []
    for node, value in values.items():
        before = [
            a for a, b, w in arcs if b == node and a in values and step(values[a], w) == value
        ]
        rows.append((node, value, min([*before, *([-1] if node == 0 and value == start else [])])))
    return sorted(rows)


places = st.integers(0, 5)
whole = st.lists(st.tuples(places, places, st.integers(0, 3)), max_size=14)


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=25)
@given(arcs=whole, tasks=st.integers(1, 3), halves=st.booleans())
def test_predecessors(name: str, arcs: Arcs, tasks: int, halves: bool) -> None:
    best, start, value, _ = SHAPES[name]
    type = "double" if halves else "integer"
    if halves:
        arcs, start = [(a, b, w / 2) for a, b, w in arcs], float(start)
    program = PROGRAM.format(type=type, best=best, start=start, value=value)
    for db in (
        caladan.connect("reference"),
        caladan.connect("embedded"),
        Session(PartsEngine(tasks)),
    ):
        db.add("arc", arcs)
        found = sorted(db.run(program).answer.rows())
        assert found == expected(name, arcs)
        assert not any(math.isnan(row[1]) for row in found)


MISTAKES = {
    "decides": "p(X, mmin<D, P>) <- a(X, D, P).\n"
    "p(Y, mmin<D, Q>) <- p(X, D, P), a(X, Y, Q), P < 3.",
    "joins": "p(X, mmin<D, P>) <- a(X, D, P).\np(P, mmin<D, X>) <- p(X, D, P).",
    "is a constant": "p(X, mmin<D, P>) <- a(X, D, P).\np(Y, mmin<D, X>) <- p(X, D, 3), a(X, Y, _).",
    "is an amount": "p(X, mmin<D, P>) <- a(X, D, P).\np(Y, mmin<P, X>) <- p(X, D, P), a(X, Y, _).",
    "beside another": "p(X, mmin<D, P>, count<_>) <- a(X, D, P).",
    "within arithmetic": "p(X, min<D, P> + 1) <- a(X, D, P).",
    "with data": "a(X, mmin<D, P>) <- a(X, D, P).",
    "mutual": "p(X, mmin<D, P>) <- a(X, D, P).\nq(X, D) <- p(X, D, _).\n"
    "p(Y, mmin<D, X>) <- q(X, D), a(X, Y, _).",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_a_witness_may_not_do(mistake: str) -> None:
    db = caladan.connect("embedded")
    db.add("a", [(1, 2, 3)])
    declared = "database({a(A: integer, B: integer, C: integer)}).\n"
    with pytest.raises(caladan.CaladanError, match="C015"):
        db.run(declared + MISTAKES[mistake])


def test_heads_that_disagree() -> None:
    db = caladan.connect("embedded")
    db.add("a", [(1, 2, 3)])
    with pytest.raises(caladan.CaladanError, match="C016"):
        db.run(
            "database({a(A: integer, B: integer, C: integer)}).\n"
            "p(X, mmin<D, P>) <- a(X, D, P).\np(X, mmax<D, P>) <- a(X, D, P)."
        )


def test_bound_goals_and_queries() -> None:
    db = caladan.connect("embedded")
    db.add("arc", [(0, 1, 1), (0, 2, 1), (1, 3, 1), (2, 3, 1)])
    program = PROGRAM.format(type="integer", best="mmin", start=0, value="C + W")
    out = db.run(program)
    assert set(out) == {"near"}
    assert db.query("near(3, D, P)").rows() == [(3, 2, 1)]
