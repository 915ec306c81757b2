"""Warnings about recursion that is allowed but may surprise."""

import pytest
from tests.analysis.support import compiled

ARC = "database({arc(A: integer, B: integer)}). "


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("n(1). n(Y) <- n(X), Y = X + 1.", ["W101"]),
        ("n(1). n(X + 1) <- n(X).", ["W101"]),
        ("n(1). n(Y) <- n(X), Y = X + 1, Y < 10.", []),
        ("n(1). n(Y) <- n(X), X < 10, Y = X + 1.", []),
        ("n(1). n(Y) <- n(X), Y = (X + 1) mod 7.", []),
        ("n(1). n(mmax<Y>) <- n(X), Y = X + 1.", []),
        ("n(1). n(X + 1) <- n(X), arc(X, _).", []),
        ("n(1). n(X + 1) <- n(X), arc(_, X + 1).", []),
        ("n(1, 1). n(X + 1, Y + 1) <- n(X, Y), arc(X, _).", ["W101"]),
        ("p(X, Y) <- arc(X, Y). p(X, Z) <- p(X, Y), arc(Y, Z).", []),
        ("d(1, 0). d(Y, mmin<E>) <- d(X, D), arc(X, Y), E = D + 1, D < 9.", []),
        ("d(1, 0). d(Y, mmin<E>) <- d(X, D), arc(X, Y), E = D + 1, D > 9.", ["W102"]),
        ("d(1, 0). d(Y, mmax<E>) <- d(X, D), arc(X, Y), E = D + 1, 9 > D.", ["W102"]),
        ("d(1, 0). d(Y, mmax<E>) <- d(X, D), arc(X, Y), E = D + 1, D ~= 9.", ["W102"]),
        ("p(X) <- p(X), arc(X, _).", ["W103"]),
    ],
)
def test_warnings(text: str, codes: list[str]) -> None:
    assert [w.code for w in compiled(ARC + text).warnings] == codes


def test_a_warning_says_where_and_what_to_do() -> None:
    (warning,) = compiled("n(1).\nn(X + 1) <- n(X).").warnings
    assert (
        warning.render()
        == """\
t.dl:2:3: warning[W101]: rule 2 computes new values of `n` from its own facts and may not terminate
  2 | n(X + 1) <- n(X).
    |   ^^^^^
  help: bound the value with a comparison, aggregate it with mmin or mmax, or run with a limit \
on rounds"""
    )
