"""Equations between variables of atoms: each side is looked up from the other, either way round."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from tests.differential.running import run
from tests.programs.compare import difference

import caladan
from caladan.session.session import Session

FACTS = "database({a(X: integer, Y: integer), b(X: integer, Y: integer, Z: integer)}).\n"
small = st.integers(-3, 5)
variable = st.sampled_from("XYZVW")
ENGINES = ("embedded", "reference")
EQUATIONS = (
    "{0} = {1} + 1", "{0} - {1} = 2", "{0} * 2 = {1} + 1", "3 - {0} = 2 * {1}", "-{0} = {1}",
    "{0} + {1} = {2}", "{0} * -3 = {1}", "2 * ({0} - 1) = 4 * {1} + {2}", "{0} * {1} = {2}",
)  # fmt: skip


@st.composite
def cycles(draw: st.DrawFn) -> str:
    """A cycle of two to three atoms that an equation closes, perhaps with more about it."""
    equation = draw(st.sampled_from(EQUATIONS[:8])).format("W", "Z", draw(st.sampled_from("XY")))
    middle = draw(st.sampled_from(("a(Y, Z)", "b(Y, Z, _)", "b(Y, V, Z), V < 3", "b(Z, Y, Y)")))
    last = draw(st.sampled_from(("a(W, X)", "b(W, X, _)", "a(W, X), a(W, _)", "b(X, W, X)")))
    parts = draw(st.permutations(["a(X, Y)", middle, last, equation]))
    return f"t(X, Y, Z, W) <- {', '.join(parts)}."


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """Two to four atoms, and one or two equations over their variables."""
    atoms = draw(st.lists(st.sampled_from((("a", 2), ("b", 3))), min_size=2, max_size=4))
    named = [(name, [draw(variable) for _ in range(arity)]) for name, arity in atoms]
    known = sorted({each for _, arguments in named for each in arguments})
    either = st.sampled_from(known)
    said = [f"{name}({', '.join(arguments)})" for name, arguments in named]
    for _ in range(draw(st.integers(1, 2))):
        chosen = draw(st.sampled_from(EQUATIONS))
        said.append(chosen.format(draw(either), draw(either), draw(either)))
    head = draw(st.lists(either, min_size=1, max_size=3, unique=True))
    form = draw(st.sampled_from(("t({0})", "t(count<{1}>)", "t({1}, sum<{1}>)")))
    return f"{form.format(', '.join(head), head[0])} <- {', '.join(said)}."


@settings(max_examples=40)
@example("t(V) <- a(X, Z), b(Y, Z, V), V + X = Y.", [(0, 0), (2, 0)], [(0, 0, 0), (3, 0, 1)])
@given(
    bodies() | cycles(),
    st.lists(st.tuples(small, small), min_size=1, max_size=12),
    st.lists(st.tuples(small, small, small), min_size=1, max_size=12),
)
def test_like_the_reference(body: str, a: list[tuple[int, ...]], b: list[tuple[int, ...]]) -> None:
    facts = {"a": a, "b": b}
    assert not difference(
        run("embedded", FACTS + body, facts), run("reference", FACTS + body, facts)
    )


def hub(n: int, engine: str = "embedded") -> Session:
    db = caladan.connect(engine)
    i, zero = np.arange(1, n + 1), np.zeros(n, int)
    db.add("e", {"A": np.concatenate([zero, i, i]), "B": np.concatenate([i, zero, i + 1])})
    db.add("f", {"A": i, "B": i, "C": zero})
    return db


@pytest.mark.parametrize(
    "body",
    [
        "e(X, Y), e(Y, Z), e(W, X), W = Z + 1",
        "e(X, Y), e(Y, Z), e(W, X), Z = 3 - W",
        "e(X, Y), e(Y, Z), e(W, X), 2 * W = Z + 1",
        "e(X, Y), e(Y, Z), f(W, V, _), e(W, X), 2 * W - 1 = 3 * Z + V - W",
        "e(X, Y), e(Y, Z), e(W, X), e(Z, _), W - X = Z",
    ],
)
def test_a_cycle_that_an_equation_closes_stays_linear(body: str) -> None:
    """A triangle over a hub; pairs of its edges are millions."""
    n = 3_000
    out = hub(n).run(f"t(X, Z) <- {body}.")
    (rule,) = out.stats.cliques[-1].rules
    assert sum(each.proposed for each in rule.search) < 60 * n
    assert "meet in" in str(rule.plans)
    answers = [set(hub(12, each).run(f"t(X, Z) <- {body}.")["t"].rows()) for each in ENGINES]
    assert answers[0] == answers[1]


def test_values_that_nobody_has_are_not_looked_up() -> None:
    """What an equation gives for a column whose values are all known may be none of them."""
    db = caladan.connect("embedded")
    db.add("a", [(1, 10**12), (2, 5), (3, -(2**63))])
    db.add("b", [(10**12 + 1, 1), (4, 2), (7, 3)])
    rule = "t(X, Y) <- a(X, Z), b(W, Y), W - 1 = Z."
    assert list(db.run(rule)["t"].rows()) == [(1, 1)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("r(Y), city(X), Y = shout(X)", {("a", "A!"), ("b", "B!")}),
        ("city(X), r(Y), length(Y) = length(X) + 1", {(x, y) for x in "ab" for y in ("A!", "B!")}),
        ("d(X), f(Y), X = Y * 2.0", {(2.0, 1.0), (3.5, 1.75), (0.0, 0.0)}),
        ("f(Y), d(X), X = Y * 2", {(2.0, 1.0), (3.5, 1.75), (0.0, 0.0)}),
        ("n(X), f(Y), X = Y * 2", {(2, 1.0)}),
        ("n(X), n(Y), X = Y * 2 + 0.0", {(2, 1), (4, 2)}),
        ("n(X), n(Y), X - 1.0 = Y", {(2, 1)}),
        ("n(X), n(Y), X / 2 = Y", {(2, 1), (4, 2)}),
    ],
)
def test_equations_of_other_values_are_tested(body: str, expected: set[tuple[Any, ...]]) -> None:
    db = caladan.connect("embedded")
    db.add("r", [("A!",), ("B!",), ("z",)])
    db.add("city", [("a",), ("b",)])
    db.add("d", [(2.0,), (3.5,), (0.0,), (9.0,)])
    db.add("f", [(1.0,), (1.75,), (0.0,)])
    db.add("n", [(1,), (2,), (4,)])
    db.define("shout", lambda text: text.upper() + "!", returns="string")
    assert set(db.run(f"t(X, Y) <- {body}.")["t"].rows()) == expected
