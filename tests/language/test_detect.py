"""Which language a text is in; the languages that are still to come."""

import pytest

from caladan.language import LANGUAGES, detect, parse, unparse
from caladan.program import Program
from caladan.program.diagnostics import CaladanError


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("database({arc(A: integer)}).", "deals"),
        ("  database ( { arc(A: integer)}).", "deals"),
        ("tc(A, B) <- arc(A, B).", "deals"),
        ("% p(x) :- q(x).\ntc(A, B) <- arc(A, B).", "deals"),
        ("/* .decl */ tc(A, B) <- arc(A, B).", "deals"),
        ("p(':-', X) <- q(X).", "deals"),
        ("database({p(A: integer)}). p(X) :- q(X).", "deals"),
        ("p(1, 2).", "deals"),
        ("query tc(1, X).", "deals"),
        ("export tc(A, B).", "deals"),
        ("\ufeffp(1).", "deals"),
        ("select(1).", "deals"),
        ("with(X) <- p(X).", "deals"),
        ("create <- p(X).", "deals"),
        (".decl edge(x: number, y: number)", "souffle"),
        (".decl p(x: number)\np(x) :- q(x), x <-5.", "souffle"),
        ("path(x, y) :- edge(x, y).", "souffle"),
        ("// p(X) <- q(X).\npath(x, y) :- edge(x, y).", "souffle"),
        ("SELECT a FROM t WHERE a <-5", "rasql"),
        ("select(1)", "rasql"),
        ("-- a comment\nWITH recursive tc(a, b) AS (SELECT 1, 2) SELECT * FROM tc", "rasql"),
        ("create table t (a int)", "rasql"),
    ],
)
def test_detect(text: str, language: str) -> None:
    assert detect(text) == language
    assert language in LANGUAGES


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("", "<program>: error[C005]: the program is empty"),
        ("% nothing\n", "<program>: error[C005]: the program is empty"),
        (
            "% hm\n  what is 'this'",
            """\
<program>:2:3: error[C005]: cannot tell which language this is
  2 |   what is 'this'
    |   ^^^^
  help: DeALS has `<-` or `database({`, Soufflé `.decl` or `:-`, RaSQL begins with a SQL keyword; \
or set language=\"deals\"""",
        ),
    ],
)
def test_not_recognised(text: str, rendered: str) -> None:
    with pytest.raises(CaladanError) as caught:
        parse(text)
    assert str(caught.value) == rendered


@pytest.mark.parametrize(
    ("text", "language", "rendered"),
    [
        (
            "select 1",
            None,
            (
                "<program>: error[C050]: RaSQL needs the columns of its tables to become a "
                "Program\n  help: run it in a session: db.sql(text), or db.run(text)"
            ),
        ),
        (
            "p(1).",
            "deal",
            "error[C050]: there is no language `deal`\n  help: did you mean `deals`?",
        ),
        (
            "p(1).",
            "prolog!",
            """\
error[C050]: there is no language `prolog!`
  help: the languages are deals, souffle, rasql""",
        ),
    ],
)
def test_refused(text: str, language: str | None, rendered: str) -> None:
    with pytest.raises(CaladanError) as caught:
        parse(text, language=language)
    assert str(caught.value) == rendered
    assert caught.value.exit_code == 2


def test_language_overrides() -> None:
    assert parse("", language="deals") == Program()
    with pytest.raises(CaladanError, match="cannot be written as Soufflé yet"):
        unparse(Program(), "souffle")
