"""Programs of hundreds of rules and thousands of facts: no pass may be recursive or quadratic."""

import time
from typing import Any

import pytest

import caladan as cal
from caladan.analysis import types
from caladan.analysis.core import CoreRule

LONG = 400


@pytest.fixture(scope="module")
def chain() -> str:
    """Each relation is derived from the next, in the order that is worst for every pass."""
    rules = [f"p{i}(X, Y) <- p{i + 1}(X, Y), ~p{i + 1}(Y, X)." for i in range(LONG)]
    return "\n".join([*rules, f"p{LONG}(1, 2).", "query p0(X, Y)."])


def test_a_chain_of_relations(chain: str) -> None:
    out = cal.connect("embedded").run(chain)
    assert list(out.answer.rows()) == [(1, 2)]


@pytest.mark.parametrize(("stage", "cut"), [("pcg", "shown below"), ("plan", "see below")])
def test_deep_trees_are_drawn_in_parts(stage: str, cut: str, chain: str) -> None:
    db = cal.connect("embedded")
    text = db.explain(chain, stage=stage, engine="spark", strategy="frame")
    assert cut in text
    for i in range(LONG):
        assert f"p{i}" in text
    assert max(map(len, text.splitlines())) < 600


def test_types_spread_through_a_chain_in_few_visits_each(
    chain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    visited: list[int] = []
    offers = types._Inference.offers  # pyright: ignore[reportPrivateUsage]

    def counted(self: Any, rule: CoreRule, *known: Any) -> Any:
        visited.append(rule.number)
        return offers(self, rule, *known)

    monkeypatch.setattr(types._Inference, "offers", counted)  # pyright: ignore[reportPrivateUsage]
    cal.connect("embedded").explain(chain, stage="rules")
    assert LONG <= len(visited) < 6 * LONG


@pytest.mark.parametrize("engine", ["embedded", "reference"])
@pytest.mark.parametrize(
    "body",
    [
        ", ".join(f"e(X{i}, X{i + 1})" for i in range(200)),
        ", ".join(f"e(X0, X{i})" for i in range(1, 201)),
        "e(X0, X200), " + ", ".join(f"X0 ~= {i + 10}" for i in range(300)),
    ],
    ids=["a chain", "a star", "comparisons"],
)
def test_a_long_body(body: str, engine: str) -> None:
    """Planning looks at an atom once or twice, not once for every order of the others."""
    db = cal.connect(engine)
    db.add("e", [(1, 2), (2, 3), (3, 1)])
    started = time.monotonic()
    out = db.run(f"p(X0) <- {body}. query p(X).", timeout=60)
    assert out.answer.rows() == [(1,), (2,), (3,)]
    assert time.monotonic() - started < 25


@pytest.mark.parametrize("literal", ["e(X, Y)", "X < Y"])
def test_a_body_that_is_too_long_is_refused_at_once(literal: str) -> None:
    body = ", ".join([literal] * 2000)
    with pytest.raises(cal.CaladanError, match=r"C001.*this body is too long: more than"):
        cal.connect("embedded").check(f"p(X) <- e(X, Y), {body}.")
