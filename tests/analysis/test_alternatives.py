"""Alternatives in bodies: what becomes of them, and what they have in common."""

from __future__ import annotations

import time

import pytest

import caladan as cal
from caladan.language import parse
from caladan.language.deals.printer import unparse
from caladan.pipeline import compile_program
from caladan.program import Atom, Comparison, Constant, Disjunction, Variable

PAIRS = "e(A: integer, B: integer), f(A: integer, B: integer)"
DATA = f"database({{a(X: integer), b(X: integer), {PAIRS}}}).\n"
X, Y = Variable("X"), Variable("Y")


def rules(text: str) -> list[str]:
    """The core rules of a program, without their columns."""
    checked = compile_program(parse(DATA + text), {}, {}).checked
    return [
        f"{rule.head} <- {', '.join('~' * a.negated + a.relation for a in rule.atoms)}"
        for rule in checked.rules
    ]


def test_they_are_parsed() -> None:
    (rule,) = parse(DATA + "p(X) <- a(X), (b(X) ; e(X, Y), (Y) > 3).").rules
    past = Comparison(">", Y, Constant(3))
    assert rule.body == (
        Atom("a", (X,)),
        Disjunction(((Atom("b", (X,)),), (Atom("e", (X, Y)), past))),
    )
    assert rule.body[1].span is not None
    assert rule.body[1].span.text == "(b(X) ; e(X, Y), (Y) > 3)"


def test_without_parentheses_they_are_the_whole_body() -> None:
    (rule,) = parse("p(X) <- a(X), X > 2 ; b(X) ; ~c(X), a(X).").rules
    assert isinstance(rule.body[0], Disjunction)
    assert [len(branch) for branch in rule.body[0].branches] == [2, 1, 2]


def test_they_are_printed_back() -> None:
    text = "p(X) <- a(X), (b(X) ; e(X, Y), (Y > 3 ; ~b(Y)), (Y + 1) * 2 < 9)."
    printed = unparse(parse(text))
    assert printed.strip() == text
    assert parse(printed) == parse(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("p(X) <- a(X), (b(X) ; ).", "expected an atom or a comparison, found `)`"),
        ("p(X) <- a(X), (b(X) ; X).", "expected an atom or a comparison, found a value"),
        ("p(X) <- a(X), (b(X) ; limit(3)).", "not to one of several branches"),
        ("p(X) <- a(X), limit(3) ; b(X).", "put alternatives in parentheses"),
        ("p(X) <- a(X), (b(X) ; e(X, Y).", "after a branch of a disjunction"),
        ("p(X); a(X).", "`;` separates the branches of a body, `.` ends it"),
        ("p(X) <- a(X) or b(X).", "for `or` write `;` in parentheses"),
        ("p(X, Y) <- a(X), (e(X, Y) ; b(X)).", "`Y`"),
    ],
)
def test_mistakes(text: str, told: str) -> None:
    with pytest.raises(cal.CaladanError) as raised:
        compile_program(parse(DATA + text), {}, {})
    assert told in str(raised.value)


def test_a_few_are_a_rule_each() -> None:
    assert rules("p(X) <- a(X), (b(X) ; e(X, Y), Y > 3).") == ["p <- a, b", "p <- a, e"]
    assert rules("p(X) <- a(X) ; b(X).") == ["p <- a", "p <- b"]


def test_lookups_are_one_step_of_a_recursion() -> None:
    step = "tc(A, B) <- e(A, B). tc(A, C) <- tc(A, B), (e(B, C) ; f(B, C), B > 1)."
    found = rules(step)
    assert found == ["tc <- e", "tc_either <- e", "tc_either <- f", "tc <- tc, tc_either"]
    cliques = compile_program(parse(DATA + step), {}, {}).delta.cliques
    assert [len(each.delta_rules) for each in cliques] == [0, 1]


def test_what_is_tested_is_joined_once() -> None:
    joined = "p(X, Z) <- e(X, Y), f(Y, Z), "
    once = ["p_joined <- e, f", "p <- p_joined", "p <- p_joined, ~b"]
    assert rules(joined + "(X > Z ; ~b(Z)).") == once
    assert rules(joined + "if(X > Z then X > 1 else ~b(Z)).") == once
    # Tests that only compare stay in one rule.
    assert rules(joined + "(X > Z ; X < Y, Z < 3).") == ["p <- e, f"]
    # A lookup, or a value, may be the better place to start from.
    assert rules(joined + "(X = 1 ; ~b(Z)).") == ["p <- e, f", "p <- e, f, ~b"]
    assert rules(joined + "(a(X), b(X) ; ~b(Z)).") == ["p <- e, f, a, b", "p <- e, f, ~b"]
    # What does not hang together would be multiplied out.
    assert rules("p(X, Y) <- a(X), b(Y), (X > Y ; ~e(X, Y)).") == ["p <- a, b", "p <- a, b, ~e"]


def test_alternatives_are_tested_as_soon_as_something_is_known() -> None:
    """Of 2,000 x 2,000 pairs that the atoms join, not one is made that no alternative wants."""
    some = "(X < 2, Z > 1997 ; X > 1997, Z < 2)"
    with cal.connect("embedded") as db:
        db.add("e", [(x, 0) for x in range(2000)])
        db.add("f", [(0, z) for z in range(2000)])
        db.add("b", [(1,)])
        for tested in (some, some.replace(";", ", ~b(Z) ;")):
            text = f"{DATA} p(X, Z) <- e(X, Y), f(Y, Z), {tested}. query p(X, Z)."
            out = db.run(text, max_facts=100, keep=False)
            assert len(out.answer.rows()) == 8
            assert out.stats.facts <= 16


def test_under_an_aggregate_solutions_are_distinct() -> None:
    assert rules("p(count<_>) <- a(X), (b(X) ; e(X, Y), f(Y, _)).") == [
        "p_body <- a, b",
        "p_body <- a, e, f",
        "p <- p_body",
    ]
    assert rules("p(count<_>) <- a(X), (X > 1 ; X < 3).") == ["p <- a"]
    with cal.connect("embedded") as db:
        db.add("e", [(1, 1), (1, 2), (2, 2)])
        db.add("a", [(1,), (2,), (3,)])
        db.add("b", [(1,), (3,)])
        counted = db.run(DATA + "p(count<_>) <- a(X), (b(X) ; e(X, Y)). query p(N).")
        assert counted.answer.rows() == [(3,)]
        # An underscore beside the alternatives tells solutions apart, as it does without them.
        counted = db.run(DATA + "p(X, count<_>) <- e(X, _), (b(X) ; a(X)). query p(X, N).")
        assert counted.answer.rows() == [(1, 2), (2, 1)]


def test_many_tests_are_one_and_many_lookups_are_refused() -> None:
    started = time.process_time()
    tests = " ; ".join(f"X > {i}, X < {i + 2}" for i in range(0, 4000, 2))
    assert rules(f"p(X) <- a(X), ({tests}).") == ["p <- a"]
    lookups = ", ".join(f"(e(X, {i}), b({i}) ; ~f(X, {i}))" for i in range(60))
    with pytest.raises(cal.CaladanError, match=r"C024.*some 10\^18 ways through the alternatives"):
        rules(f"p(X) <- a(X), {lookups}.")
    assert time.process_time() - started < 10
