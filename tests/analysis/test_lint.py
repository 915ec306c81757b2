"""Warnings about rules that are allowed, and probably not what their author meant."""

from __future__ import annotations

import pytest

import caladan as cal
from caladan.analysis.lint import lint, warn_of_unneeded
from caladan.language import parse


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ("p(X) <- q(X, Y).", ["W105 `Y`"]),
        ("p(X) <- q(X, _), r(_Y).", []),
        ("p(X) <- q(X, N), N = Ann.", ["W105 `Ann`"]),
        ("p(count<X>) <- q(X, Y), sort(Y), limit(3).", []),
        ("p(X) <- q(X, Y), if(X > 1 then r(Y) else s(Z)).", ["W105 `Z`"]),
        ("q('Ann', 1). p(N) <- q(Ann, N), r(Ann).", ["W106 `Ann`"]),
        ("p(org: X) <- q(id: X, vat: Vat).", ["W105 `Vat`"]),
    ],
)
def test_variables(rules: str, found: list[str]) -> None:
    warned = lint(parse(rules).rules)
    assert [f"{each.code} `{each.message.split('`')[1]}`" for each in warned] == found


def test_rules_that_no_goal_needs() -> None:
    program = parse("a(X) <- q(X). b(X) <- a(X). c(X) <- b(X), c(X). query b(X).")
    assert [each.message for each in warn_of_unneeded(program)] == ["no goal needs `c`"]
    assert warn_of_unneeded(parse("a(X) <- q(X).")) == ()


def test_a_session_warns_of_each_rule_once() -> None:
    with cal.connect("reference") as db:
        db.add("q", [(1, 2)])
        with pytest.warns(cal.CaladanWarning, match="`Y` occurs only once"):
            out = db.run("p(X) <- q(X, Y).")
        assert [warning.code for warning in out.warnings] == ["W105"]
        assert db.run("r(X) <- p(X). query r(X).").warnings == ()
