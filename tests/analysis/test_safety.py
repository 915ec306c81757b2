"""Every variable a rule needs must be bound; equalities bind in either direction."""

import pytest
from tests.analysis.support import compiled, refused

P = "database({p(A: integer, B: integer)}). "


@pytest.mark.parametrize(
    "rule",
    [
        "q(X) <- p(X, _).",
        "q(Y) <- p(X, _), Y = X.",
        "q(Y) <- p(X, _), X = Y.",
        "q(5) <- p(_, _).",
        "q(X) <- X = 5.",
        "q(X) <- 5 = X.",
        "q(Z) <- Z = Y + 1, Y = X + 1, p(X, _).",
        "q(Z) <- p(X, Y), X = Y + Z.",
        "q(Z) <- p(X, Y), X = Y - Z.",
        "q(Z) <- p(X, Y), X - 3 = -(Z) + Y.",
        "q(X) <- p(X, _), ~p(X, _).",
        "q(X) <- p(X, Y), if(Y > 3 then X > 1 else X > 2).",
    ],
)
def test_safe(rule: str) -> None:
    compiled(P + rule)


@pytest.mark.parametrize(
    ("rule", "variable", "where"),
    [
        ("q(Y) <- p(X, _).", "Y", "in the head"),
        ("q(X) <- p(X, _), ~p(X, Y).", "Y", "in the negated `p`"),
        ("q(X) <- p(X, _), Y > 3.", "Y", "in a comparison"),
        ("q(X) <- p(X, _), Y = Z + 1.", "Y", "in a comparison"),
        ("q(X).", "X", "in the head"),
        ("q(min<Y>) <- p(X, _).", "Y", "in the head"),
        ("q(X) <- p(X, _), sort((Y, desc)).", "Y", "in a sort"),
        ("q(Z) <- p(X, Y), X = Y * Z.", "Z", "in a comparison"),
    ],
)
def test_unsafe(rule: str, variable: str, where: str) -> None:
    told = refused(P + rule)
    assert "C013" in told
    assert f"variable `{variable}` {where}" in told


def test_anonymous_in_a_head() -> None:
    assert "`_` in the head of rule 1 has no value" in refused(P + "q(_) <- p(X, _).")


def test_all_unsafe_variables_are_told_at_once() -> None:
    told = refused(P + "q(Y) <- p(X, _). r(Z) <- p(X, _).")
    assert told.count("C013") == 2
