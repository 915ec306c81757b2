"""What people coming from other languages write is met with help, and the docs show all of it."""

from pathlib import Path

import pytest

import caladan as cal
from caladan.language import deals, parse
from caladan.language.deals import slips
from caladan.program.diagnostics import CaladanError, did_you_mean

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "notations.md").read_text("utf-8")

HELP = [
    (r"p(A) <- arc(A, B), \+ arc(B, A).", "for negation write `~`"),
    ("p(A) <- arc(A, B), NOT arc(B, A).", "for negation write `~`"),
    ("p(A) <- arc(c1=A, c2=B).", "name columns with `:`"),
    ("p(C) <- arc(A, B), C := A + B.", "for equal write `=`"),
    ("p(C) <- arc(A, B), C = A ^ B.", "for a power write"),
    ("p(C) <- arc(A, B), C = A ** B.", "for a power write"),
    ("p(A) <- arc(A, B), B in {1, 2}.", "for one of several values write"),
    ("p(A) <- arc(A, B), B like 'x%'.", "pattern"),
    ("p(A) <- arc(A, B), B between 1 and 2.", "for a range write two comparisons"),
    ("p(A) <- arc(A, B), B is null.", "rules only see values that are there|missing value"),
    ("?- arc(1, X).", "to ask write `query"),
    ("arc(A, B) -> p(A).", "the head of a rule comes first"),
    ("arc(A, B) => p(A).", "the head of a rule comes first"),
    ("p(C) <- arc(A, B), C = A > B ? A : B.", r"for a choice write `if\("),
    ("p(C) <- arc(A, B), C = if(A > B, A, B).", r"for a choice write `if\("),
    ("p(A) <- arc(A, B), A // 2 = 1.", "for whole division write `div`"),
    ("p(A, COUNT<B>) <- arc(A, B).", "did you mean `count`"),
    ("p(X) <- arc(A, B), X = frobnicate(A).", "functions.md lists all"),
    ("p(A) <- arc(A, B), split_them_all(A) = 1.", "there are .*`split_part`.*md lists all"),
]


@pytest.mark.parametrize(("text", "help"), HELP, ids=[text for text, _ in HELP])
def test_help(text: str, help: str) -> None:
    with pytest.raises(CaladanError, match=help):
        parse(text, language="deals")


@pytest.mark.parametrize(
    ("name", "help"),
    [
        ("frobnicate", "the aggregates are .*avg, .*sum.*; db.aggregate adds one"),
        ("average", "it is called `avg` here"),
        ("cuont", "did you mean `count`"),
    ],
)
def test_unknown_aggregates(name: str, help: str) -> None:
    with cal.connect("reference") as db, pytest.raises(CaladanError, match=help):
        db.run(f"q(1, 2). p(A, {name}<B>) <- q(A, B). query p(A, B).")


def test_every_notation_is_on_the_page() -> None:
    for symbol in slips.SYMBOLS:
        assert symbol.replace("|", r"\|") in PAGE, symbol
    for word in slips.WORDS:
        assert f"{word} " in PAGE or f"`{word}`" in PAGE, word
    for first, second in slips.PAIRS:
        assert f"{first}{second}" in PAGE or f"{first} {second}" in PAGE, (first, second)


def test_names_from_elsewhere_lead_to_names_that_exist_or_nowhere() -> None:
    cursor_functions = deals.cursor.Cursor(deals.cursor.SourceText("x", ""), None).known_functions
    for name in slips.FUNCTIONS:
        if name not in cursor_functions:
            with pytest.raises(CaladanError) as raised:
                parse(f"p(X) <- q(A), X = {name}(A).", language="deals")
            told = str(raised.value)
            called = told.partition("it is called `")[2].partition("`")[0]
            assert called in cursor_functions or not called


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("% Soufflé\n.decl arc(a: number)\n", "2:1", "Soufflé, which"),
        ("arc(1, 2).\ntc(X, Y) :- arc(X, Y).\n", "2:10", "Soufflé or Prolog, which"),
    ],
)
def test_souffle_and_prolog_are_told_by_their_place(text: str, column: str, what: str) -> None:
    with pytest.raises(CaladanError, match="C051") as raised:
        parse(text, name="a.dl")
    lines = str(raised.value).splitlines()
    assert lines[0].startswith(f"a.dl:{column}: error[C051]: this is {what}")
    assert "docs/reference/notations.md" in lines[-1]


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("acr", ["arc", "tc"], "arc"),
        ("COUNT", ["count"], "count"),
        ("fromat", ["format"], "format"),
        ("custmer_ordrs", ["customer_orders"], "customer_orders"),
        ("to_string", ["substring"], None),
        ("p", ["q"], None),
        ("pq", ["pr"], "pr"),
        ("sum", ["min", "max"], None),
        ("arc", [], None),
    ],
)
def test_only_near_names_are_suggested(name: str, known: list[str], near: str | None) -> None:
    assert did_you_mean(name, known) == (None if near is None else f"did you mean `{near}`?")
