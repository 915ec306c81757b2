"""Values at the ends of their types: nothing the engine uses as a mark may be one of them."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, reject, settings, strategies as st
from tests.differential.running import run
from tests.embedded.test_differential import WAYS
from tests.programs.compare import difference
from tests.strategies.extremes import LEAST, MOST, extremes
from tests.strategies.random_thresholds import random_thresholds
from tests.strategies.recursions import Recursion

import caladan
from caladan.program import thresholds
from caladan.program.thresholds import Thresholds

UNLISTED = {"shape": 0, "folded": 0, "listed": 0, "shape_matrix": 1 << 20, "shape_empty": 1 << 20}
"""Closures of a few facts are matrices that are never listed."""

NAN, INF = float("nan"), float("inf")
STAR = [(1000, 1001 + i) for i in range(1200)]
"""Edges enough for a shape, over which nothing is derived."""


def check(given: Recursion, chosen: Thresholds | None = None) -> None:
    """Fail unless the embedded engine answers what the reference engine does."""
    try:
        wanted = run("reference", given.text, given.facts)
    except caladan.CaladanError:
        reject()
    with thresholds.override(chosen):
        got = run("embedded", given.text, given.facts)
    for one, other in zip(got, wanted, strict=True):
        assert (different := difference(one, other)) is None, different


def answer(text: str, **facts: Any) -> list[tuple[Any, ...]]:
    """The answer of the only goal."""
    (found,) = run("embedded", text, facts)
    return sorted(found)


@given(given=extremes(), way=st.sampled_from([*WAYS, *["never listed"] * 5]))
def test_any_value_in_each_way(given: list[Recursion], way: str) -> None:
    for each in given:
        check(each, Thresholds(**WAYS.get(way, UNLISTED)))


@given(given=extremes(), chosen=random_thresholds())
def test_any_value_with_any_thresholds(given: list[Recursion], chosen: Thresholds) -> None:
    for each in given:
        check(each, chosen)


@given(given=extremes(padding=1200))
@settings(max_examples=max(5, settings().max_examples // 4))
def test_any_value_with_thresholds_as_they_are(given: list[Recursion]) -> None:
    """Over a graph large enough for shapes, kernels and layouts that are never listed."""
    for each in given:
        check(each)


# ── Answers that were wrong ──────────────────────────────────────────────────────────────────────

LOOPS = """r(X, Y) <- e(X, Y). r(X, Z) <- r(X, Y), e(Y, Z).
    p(1). p(D) <- p(A), t(A, D), r(I, I). query p(A)."""


@pytest.mark.parametrize(
    ("more", "wanted"),
    [([(5000, 5001), (5001, 5000)], [(1,), (2,), (3,)]), ([(2000, MOST)], [(1,)])],
)
def test_a_repeated_variable_over_a_layout(more: list[Any], wanted: list[Any]) -> None:
    chain = [(i, i + 1) for i in range(2000)]
    assert answer(LOOPS, e=chain + more, t=[(1, 2), (2, 3)]) == wanted


@pytest.mark.parametrize(
    "body", ["e(X, Y), n(M), X = M", f"e(X, Y), X = {MOST}", "e(X, Y), e(X, Z), Y = Z, n(X)"]
)
def test_an_equation_finds_the_last_integer(body: str) -> None:
    text = f"q(X, Y) <- {body}. query q(X, Y)."
    assert answer(text, e=[(MOST, 1), (MOST - 1, 2)], n=[(MOST,)]) == [(MOST, 1)]


@pytest.mark.parametrize(
    ("function", "given", "wanted"),
    [
        ("mmax", [(1000, LEAST), (999, 3)], 3),
        ("mmax", [(1000, LEAST), (999, MOST)], MOST),
        ("mmin", [(1000, MOST), (999, LEAST)], LEAST),
        ("mmin", [(1000, NAN), (999, 1.0)], 1.0),
        ("mmin", [(1000, NAN), (999, INF)], INF),
        ("mmax", [(1000, -INF), (999, 1.0)], 1.0),
    ],
)
def test_the_best_label(function: str, given: list[Any], wanted: Any) -> None:
    text = "l(X, m<V>) <- s(X, V). l(Y, m<V>) <- l(X, V), g(X, Y). query l(X, V)."
    found = answer(text.replace("m<", f"{function}<"), s=given, g=[(999, 1000), *STAR])
    assert [value for _, value in found] == [wanted] * 1202


def test_not_a_number_is_the_largest_label() -> None:
    text = "l(X, mmax<V>) <- s(X, V). l(Y, mmax<V>) <- l(X, V), g(X, Y). query l(X, V)."
    found = answer(text, s=[(1000, NAN), (1000, INF)], g=STAR)
    assert len(found) == 1201
    assert all(value != value for _, value in found)


def test_nothing_is_below_the_least_integer() -> None:
    text = "q(U, T, max<S>) <- ev(U, T), ev(U, S), S < T. query q(U, T, S)."
    facts = [(0, LEAST), (0, LEAST + 1), (0, LEAST + 2)]
    assert answer(text, ev=facts) == [(0, LEAST + 1, LEAST), (0, LEAST + 2, LEAST + 1)]


# ── No such mark anywhere ────────────────────────────────────────────────────────────────────────

SOURCES = Path(caladan.__file__).parent
OWNER = SOURCES / "columns" / "ranks.py"


def marks(tree: ast.AST) -> Iterator[ast.AST]:
    """What makes a mark of a rank, or goes wrong at one end of them."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name("np"), attr="iinfo"):
                yield node  # the ends of 64 bits have names
            case ast.Call(ast.Attribute(ast.Name("np"), "argsort" | "searchsorted"), arguments):
                yield from (
                    each for each in arguments
                    if isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.USub)
                )  # fmt: skip
            case ast.Call(ast.Attribute(ast.Name("np"), "abs"), [argument]):
                if "float64" not in ast.dump(argument) and "ldexp" not in ast.dump(argument):
                    yield node  # of the least integer it is negative
            case ast.BinOp(ast.Constant(1), ast.LShift(), ast.Constant(63)):
                yield node
            case ast.BinOp(ast.Constant(2), ast.Pow(), ast.Constant(63)):
                yield node
            case _:
                pass


@pytest.mark.parametrize("folder", ["columns", "join", "fixpoint"])
def test_ranks_alone_knows_the_ends_of_ranks(folder: str) -> None:
    """Whoever needs them takes them from columns/ranks.py, which says what they may be used for."""
    allowed = {OWNER, SOURCES / "columns" / "kernels" / "machine.py"}
    found = [
        f"{path.relative_to(SOURCES)}:{node.lineno}"
        for path in sorted((SOURCES / folder).rglob("*.py"))
        if path not in allowed
        for node in marks(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.expr)
    ]
    assert found == []


def test_marks_are_seen() -> None:
    text = "np.iinfo(x); np.argsort(-x); np.abs(x); 1 << 63; np.abs(x.astype(np.float64))"
    assert len(list(marks(ast.parse(text)))) == 4
