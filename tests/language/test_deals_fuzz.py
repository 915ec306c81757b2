"""Whatever the text, the parser answers with a Program or a CaladanError, and soon."""

import time

import pytest
from hypothesis import given, strategies as st
from tests.language.strategies import programs

from caladan.language import detect, parse, parse_goal, unparse
from caladan.program import Program
from caladan.program.diagnostics import CaladanError, Span

PIECES = [
    "p(X)", "q", "X", "1", "1.5", "'a b'", '"', "'", "<-", ":-", "~", "~=", "=", "<", ">", ">=",
    "(", ")", "{", "}", ",", ".", ". ", "if(", "then", "else", "min<", "count<_>", "sort(",
    "limit(", "database({", "query", "export", "-", "+", "*", "/", "div", "mod", "%", "--", "/*",
    "*/", "\n",
    "$N", "{n}", "$", "_", ":", "integer", "99999999999999999999", "1e999", "\\", "\x00", "not",
    "!",
]  # fmt: skip


def survives(text: str) -> None:
    for read in (lambda: parse(text, language="deals"), lambda: parse(text), lambda: detect(text)):
        try:
            read()
        except CaladanError as error:
            assert error.diagnostics
            assert str(error)
            for diagnostic in error.diagnostics:
                if isinstance(diagnostic.place, Span):
                    assert 0 <= diagnostic.place.start <= diagnostic.place.end <= len(text)
    try:
        parse_goal(text)
    except CaladanError as error:
        assert str(error)


@given(st.text())
def test_any_text(text: str) -> None:
    survives(text)


@given(st.lists(st.sampled_from(PIECES), max_size=30), st.sampled_from(["", " "]))
def test_any_tokens(pieces: list[str], between: str) -> None:
    survives(between.join(pieces))


@given(programs(), st.data())
def test_damaged_programs(program: Program, data: st.DataObject) -> None:
    text = unparse(program)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 5)))
    survives(text[:start] + data.draw(st.sampled_from(["", *PIECES])) + text[end:])


DEEP = 5000


@pytest.mark.parametrize(
    "text",
    [
        "p(" + "(" * DEEP + "1" + ")" * DEEP + ").",
        "p(" + "-(" * DEEP + "1" + ")" * DEEP + ").",
        "p(" + "- " * DEEP + "X).",
        "p(" + "1 + 2 * (" * DEEP + "1" + ")" * DEEP + ").",
        "p(" + "if(X = 1 then 1 else " * DEEP + "1" + ")" * DEEP + ").",
        "p(" + "if(1 = " * DEEP + "1" + " then 1 else 2)" * DEEP + ").",
        "p(X) <- " + "if(X = 1 then q else " * DEEP + "r" + ")" * DEEP + ".",
        "p(X) <- " + "if(X = 1 then " * DEEP + "r" + " else q)" * DEEP + ".",
        "p(X) <- " + "(" * DEEP,
        "p(" + " + ".join(["1"] * DEEP) + ").",
        "p(X) <- X = " + " * ".join(["Y"] * DEEP) + ".",
        "p(min<" + "(" * DEEP + "X" + ")" * DEEP + ">).",
        "p(X) <- " + ", ".join(["q(X)"] * DEEP) + ".",
    ],
)
def test_deep_nesting(text: str) -> None:
    with pytest.raises(CaladanError) as caught:
        parse(text, language="deals")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "C001"
    assert diagnostic.message in (
        "nested too deeply: more than 64 levels",
        "this expression is too long: more than 200 operators",
        "this body is too long: more than 200 atoms",
    )


@pytest.mark.parametrize(
    "text",
    [
        "p(" + "(" * 60 + "1" + ")" * 60 + ").",
        "p(" + " + ".join(["1"] * 200) + ").",
        "p(X) <- " + "if(X = 1 then q else " * 60 + "r" + ")" * 60 + ".",
        "p(" + ", ".join(["1 + 1"] * 1000) + ").",
        "p(X) <- " + ", ".join(["q(X)"] * 200) + ".",
        "p(X) <- " + ", ".join(["X = 1 + 1"] * 300) + ".",
    ],
)
def test_reasonable_nesting(text: str) -> None:
    program = parse(text)
    assert parse(unparse(program)) == program
    assert hash(program)
    assert repr(program)


def test_many_facts_and_many_errors_take_linear_time() -> None:
    facts = "\n".join(f"arc({i}, {i * 7})." for i in range(20_000))
    start = time.process_time()
    assert len(parse(facts).rules) == 20_000
    with pytest.raises(CaladanError) as caught:
        parse(facts.replace(")", ","))
    assert len(caught.value.diagnostics) == 20_000
    assert time.process_time() - start < 20
