"""Program → DeALS text: how it looks, that it reads back, what it refuses."""

import datetime as dt

import pytest
from hypothesis import given
from tests.language.strategies import programs

from caladan.language import parse, unparse
from caladan.program import (
    Arithmetic,
    Atom,
    Comparison,
    Constant,
    Expression,
    Goal,
    Head,
    Negative,
    Program,
    Rule,
    Variable,
)
from caladan.program.diagnostics import CaladanError

A, B = Variable("A"), Variable("B")


@given(programs())
def test_round_trip(program: Program) -> None:
    text = unparse(program)
    assert parse(text, language="deals") == program
    assert unparse(parse(text, language="deals")) == text


CANONICAL = """\
database({
    arc(A: integer, B: integer),
    person(Name: string)
}).

tc(A, B) <- arc(A, B).
tc(A, B) <- tc(A, C), arc(C, B), ~blocked(C), A ~= B.
best(X, min<D>, mcount<(Y, N)>, sum<C> / count<_>) <- p(X, Y, N, C, D), D > 0.
top(X, Z) <- score(X, Z), sort((Z, desc), (X, asc)), limit({n}).
sign(X, if(X < 0 then -1 else 1)) <- num(X), if(X = 0 then zero() else one(X), X > $Low).
name('New York', 'it\\'s', red, 'Red', 'if', true, -1, 1.0, (A + 1) * 2 - (B - 1)).

query tc(1, B).
export tc(A, B).
"""


def test_canonical_text() -> None:
    assert unparse(parse(CANONICAL)) == CANONICAL


def test_one_relation_stays_on_its_line() -> None:
    text = "database({arc(A: integer, B: integer)}).\n"
    assert unparse(parse(text)) == text


def test_nothing() -> None:
    assert unparse(Program()) == ""


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (Arithmetic("-", A, Constant(-5)), "A - (-5)"),
        (Arithmetic("*", Constant(-5), A), "-5 * A"),
        (Arithmetic("-", A, Negative(B)), "A - (-B)"),
        (Arithmetic("+", A, Arithmetic("+", A, B)), "A + (A + B)"),
        (Arithmetic("+", Arithmetic("+", A, B), A), "A + B + A"),
        (Arithmetic("*", A, Arithmetic("mod", A, B)), "A * (A mod B)"),
        (Arithmetic("+", A, Arithmetic("/", A, B)), "A + A / B"),
        (Negative(Constant(5)), "-(5)"),
        (Negative(Negative(A)), "-(-A)"),
        (Negative(Arithmetic("*", A, B)), "-(A * B)"),
        (Constant(1e16), "1e+16"),
        (Constant(dt.datetime(2024, 2, 29, 12, 30)), "'2024-02-29 12:30:00'"),
    ],
)
def test_parentheses_and_constants(node: Expression, text: str) -> None:
    assert unparse(Program(rules=(Rule(Head("p", (node,))),))) == f"p({text}).\n"


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (Program(rules=(Rule(Head("if", ())),)), "the relation `if`"),
        (Program(rules=(Rule(Head("a b", ())),)), "the relation `a b`"),
        (Program(rules=(Rule(Head("p", (Constant(float("inf")),))),)), "the number `inf`"),
        (Program(goals=(Goal(Atom("p", (Variable("x"),))),)), "the variable `x`"),
        (
            Program(rules=(Rule(Head("p", ()), (Comparison("=", A, Variable("")),)),)),
            "the variable ``",
        ),
    ],
)
def test_refused(program: Program, message: str) -> None:
    with pytest.raises(CaladanError) as caught:
        unparse(program)
    assert str(caught.value) == f"error[C050]: DeALS has no way to write {message}"
