"""Names and arities."""

import pytest
from tests.analysis.support import compiled, refused

from caladan.program import Column, Type

ARC = "database({arc(A: integer, B: integer)}).\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "tc(X, Y) <- acr(X, Y).",
            """\
t.dl:2:13: error[C010]: unknown relation `acr`
  2 | tc(X, Y) <- acr(X, Y).
    |             ^^^^^^^^^
  help: did you mean `arc`?""",
        ),
        (
            "p(X) <- arc(X).",
            """\
t.dl:2:9: error[C011]: `arc` has 2 columns, but 1 argument is given
  2 | p(X) <- arc(X).
    |         ^^^^^^
  t.dl:1:11: declared here
  1 | database({arc(A: integer, B: integer)}).
    |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help: its columns are (A, B)""",
        ),
        (
            "p(X) <- arc(X, _). p(X, Y) <- arc(X, Y).",
            """\
t.dl:2:20: error[C011]: `p` has 1 column, but 2 arguments are given
  2 | p(X) <- arc(X, _). p(X, Y) <- arc(X, Y).
    |                    ^^^^^^^
  t.dl:2:1: first used here
  2 | p(X) <- arc(X, _). p(X, Y) <- arc(X, Y).
    | ^^^^""",
        ),
        (
            "query ark(X, Y).",
            """\
t.dl:2:7: error[C021]: query on `ark`, which has neither rules nor data
  2 | query ark(X, Y).
    |       ^^^^^^^^^
  help: did you mean `arc`?""",
        ),
        (
            "database({arc(A: string)}).",
            """\
t.dl:2:11: error[C017]: `arc` is declared twice, with different columns
  2 | database({arc(A: string)}).
    |           ^^^^^^^^^^^^^^
  t.dl:1:11: first declared here
  1 | database({arc(A: integer, B: integer)}).
    |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
        ),
        (
            "query arc(X + 1, Y).",
            """\
t.dl:2:11: error[C023]: an argument of a goal on `arc` must be a variable or a constant
  2 | query arc(X + 1, Y).
    |           ^^^^^
  help: compute the value in a rule, or pass it as a parameter""",
        ),
        (
            "query arc('a', Y).",
            """\
t.dl:2:11: error[C012]: column A of `arc` is integer: 'a' is not an integer
  2 | query arc('a', Y).
    |           ^^^""",
        ),
    ],
)
def test_told(text: str, told: str) -> None:
    assert refused(ARC + text) == told


def test_data_that_was_added_need_not_be_declared() -> None:
    catalog = {"arc": (Column("src", Type.STRING), Column("dst", Type.STRING))}
    out = compiled("p(X) <- arc(X, _). query p(X).", catalog=catalog)
    assert out.checked.relations["p"].types == (Type.STRING,)
    assert out.checked.relations["arc"].takes_data


def test_the_same_declaration_twice_is_fine() -> None:
    compiled(ARC + ARC + "query arc(X, Y).")


def test_goal_columns() -> None:
    out = compiled(ARC + "query arc(X, X). query arc(1, Z). query arc(_, Z). query arc(1, A).")
    names = [[c.name for c in g.columns] for g in out.checked.goals]
    assert names == [["X", "X_2"], ["A", "Z"], ["A", "Z"], ["A_2", "A"]]


def test_a_rule_that_is_wrong_does_not_hide_the_errors_of_others() -> None:
    told = refused(ARC + "p(A, C) <- arc(A, B). r(A) <- arc(A). t(A) <- nope(A). query s(X).")
    assert [c for c in ("C010", "C011", "C013", "C021") if c in told] == [
        "C010",
        "C011",
        "C013",
        "C021",
    ]
