"""Core form: what the rest of the compiler never has to think about again."""

import time

import pytest
from tests.analysis.support import compiled, refused, rule_text

P = "database({p(A: integer, B: integer)}). "


def core(rules: str) -> list[str]:
    return [rule_text(r) for r in compiled(P + rules).checked.rules]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("q(X) <- p(X, _), p(_, X).", ["q(X) <- p(X, _1), p(_2, X)."]),
        ("q(X) <- p(X, _), ~p(_, X).", ["q(X) <- p(X, _1), ~p(_, X)."]),
        ("q(X) <- p(X, Y + 1), p(Y, _).", ["q(X) <- p(X, _1), p(Y, _2), _1 = Y + 1."]),
        (
            "q(X, Y) <- p(X, _), if(X > 3 then Y = 1 else Y = 2).",
            ["q(X, Y) <- p(X, _1), Y = if(X > 3 then 1 else 2)."],
        ),
        (
            "q(X) <- p(X, Y), if(X > 3, Y < 2 then p(Y, _) else p(X, Y)).",
            [
                "q(X) <- p(X, Y), p(Y, _1), X > 3, Y < 2.",
                "q(X) <- p(X, Y), p(X, Y), X <= 3.",
                "q(X) <- p(X, Y), p(X, Y), X > 3, Y >= 2.",
            ],
        ),
        (
            "q(X, sum<Y> / count<_>) <- p(X, Y).",
            [
                "q_parts(X, sum<Y>, count<_>) <- p(X, Y).",
                "q(X, _2 / _3) <- q_parts(X, _2, _3).",
            ],
        ),
        (
            "q(X, count<Y>) <- p(X, Y), sort((Y, desc)), limit(2).",
            ["q_parts(X, count<_>) <- p(X, Y).", "q(X, _2) <- q_parts(X, _2)."],
        ),
        (
            "q(X, mmin<Y>) <- p(X, Y). q(X, 0) <- p(X, _).",
            ["q(X, mmin<Y>) <- p(X, Y).", "q(X, mmin<0>) <- p(X, _1)."],
        ),
    ],
)
def test_core_form(rule: str, expected: list[str]) -> None:
    assert core(rule) == expected


@pytest.mark.parametrize(
    ("rule", "code", "message"),
    [
        ("q(X, sum<Y> + Z) <- p(X, Y), p(Y, Z).", "C015", "`Z` is mixed with an aggregate"),
        ("q(avg<(X, Y)>) <- p(X, Y).", "C015", "`avg` takes one value"),
        ("q(min<max<X>>) <- p(X, _).", "C0", ""),
        ("q(count<_>).", "C015", "a fact cannot contain an aggregate"),
        ("q(X) <- p(X, _), limit(X).", "C022", "a limit must be a whole number"),
        ("q(X) <- p(X, _), limit(-1).", "C022", "a limit must be a whole number"),
        ("q(count<X>) <- p(X, Y), sort((Y, asc)), limit(1).", "C022", "cannot sort by `Y`"),
        ("q(X, mmin<Y>) <- p(X, Y). q(X, mmax<Y>) <- p(X, Y).", "C016", "aggregated by `mmax`"),
    ],
)
def test_refused(rule: str, code: str, message: str) -> None:
    told = refused(P + rule)
    assert code in told
    assert message in told


def test_parameters_become_constants() -> None:
    out = compiled(
        P + "q(X) <- p(X, {low}), X < $High, limit({n}).", params={"low": 3, "High": 9, "n": 2}
    )
    assert rule_text(out.checked.rules[0]) == "q(X) <- p(X, 3), X < 9."
    assert out.checked.rules[0].limit == 2


def test_an_unknown_parameter() -> None:
    told = refused(P + "q(X) <- p(X, {lwo}).", params={"low": 3})
    assert (
        told
        == """\
t.dl:1:53: error[C020]: no value was given for the parameter `lwo` (given: `low`)
  1 | database({p(A: integer, B: integer)}). q(X) <- p(X, {lwo}).
    |                                                     ^^^^^
  help: did you mean `low`?"""
    )


def test_many_choices_are_counted_before_they_are_made() -> None:
    """Twenty compile at once where they only compare, and are refused at once where they do not."""
    tests = ", ".join(f"if(A > {i} then B > {i} else B < {i})" for i in range(20))
    started = time.perf_counter()
    assert len(compiled(f"database({{e(A: integer, B: integer)}}). p(A) <- e(A, B), {tests}.")
               .checked.rules) == 1  # fmt: skip
    reads = ", ".join(f"if(A > {i} then e(B, {i}) else e({i}, B))" for i in range(60))
    assert "some 10^18 ways" in refused(
        f"database({{e(A: integer, B: integer)}}). p(A) <- e(A, B), {reads}."
    )
    assert time.perf_counter() - started < 5
