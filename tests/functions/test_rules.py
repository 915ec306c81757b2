"""Functions in rules: as literals, solved for an argument, in recursion, and where they fail."""

import datetime as dt
import re
from typing import Any

import pytest

import caladan as cal

ENGINES = ["reference", "embedded"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_function_that_gives_true_or_false_is_a_literal(engine: str) -> None:
    with cal.connect(engine) as db:
        db.add("q", [("spice",), ("water",)])
        found = db.run("""
        has(X) <- q(X), contains(X, "ice").
        lacks(X) <- q(X), ~contains(X, "ice").
        either(X) <- q(X), (starts_with(X, "w") ; X = "spice").
        query has(X). query lacks(X). query either(X).
        """)
        assert [sorted(a.rows()) for a in found.answers] == [
            [("spice",)], [("water",)], [("spice",), ("water",)],
        ]  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_a_relation_hides_the_function_of_its_name(engine: str) -> None:
    with cal.connect(engine) as db:
        db.add("contains", [("box", "coin")])
        assert db.run("p(Y) <- contains(X, Y). query p(Y).").answer.rows() == [("coin",)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("rule", "rows"),
    [
        ("p(Y) <- q(X, _), X = reverse(Y).", [("cba",)]),
        ("p(Y) <- q(_, N), N = bnot(Y).", [(-6,)]),
        ("p(Y) <- q(_, N), D = date_from_unix_date(N), D = date_from_unix_date(Y).", [(5,)]),
        ("p(Y) <- q(X, _), q(Y, _), reverse(X) = reverse(Y).", [("abc",)]),
    ],
)
def test_functions_are_solved_for_arguments(engine: str, rule: str, rows: list[Any]) -> None:
    with cal.connect(engine) as db:
        db.add("q", [("abc", 5)])
        assert db.run(f"{rule} query p(Y).").answer.rows() == rows


def test_others_are_not() -> None:
    with cal.connect("embedded") as db:
        db.add("q", [("ABC",)])
        with pytest.raises(cal.CaladanError, match="C013"):
            db.run("p(Y) <- q(X), X = upper(Y). query p(Y).")


@pytest.mark.parametrize("engine", ENGINES)
def test_recursion_through_functions(engine: str) -> None:
    """What the table says of growth decides the warning, and what it says of direction W104."""
    with cal.connect(engine) as db:
        db.add("arc", [(1, 2, 5), (2, 3, 4), (1, 3, 2)])
        found = db.run("""
        widest(X, mmax<W>) <- X = 1, W = 9.
        widest(Y, mmax<V>) <- widest(X, W), arc(X, Y, C), V = least(W, C).
        query widest(X, W).
        """)
        assert sorted(found.answer.rows()) == [(1, 9), (2, 5), (3, 4)]
        words = db.run('w("a"). w(Y) <- w(X), Y = upper(X). query w(X).')
        assert sorted(words.answer.rows()) == [("A",), ("a",)] and not words.warnings
        text = 'w("a"). w(Y) <- w(X), Y = repeat(X, 2), length(X) < 4. query w(X).'
        assert len(db.run(text).answer.rows()) == 3


@pytest.mark.parametrize("name", ["now", "rand", "current_date"])
def test_what_changes_is_no_function(name: str) -> None:
    with pytest.raises(cal.CaladanError, match="a rule gives the same for the same facts"):
        cal.connect("embedded").run(f"p({name}()). query p(X).")


SEVERAL = """
database({q(T: string, N: long)}).
count(X) <- X in range(1, 5).
below(T, X) <- q(T, N), X in range(0, N).
words(T, W) <- q(T, _), W in split(T, " ").
letters(C) <- q(T, _), W in split(T, " "), C in split(W, "").
both(X) <- q(_, N), X in range(0, N), X mod 2 = 0, Y = X + 1, Y < N.
either(X) <- q(_, N), (X in range(0, N) ; X = 100).
steps(X) <- X in range(0, 2).
steps(Y) <- steps(X), Y in range(X, X + 2), Y < 6.
far(count<X>) <- X in range(0, 3000, 3).
mine(T, D) <- q(T, N), D in divisors(N).
query count(X). query below(T, X). query words(T, W). query letters(C). query both(X).
query either(X). query steps(X). query far(N). query mine(T, D).
"""


def divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def several(engine: Any, **options: Any) -> list[Any]:
    with cal.connect(engine) as db:
        db.define("divisors", divisors, returns="long*")
        db.add("q", [("my spice", 6), ("melange", 3)])
        return [sorted(answer.rows()) for answer in db.run(SEVERAL, **options).answers]


EXPECTED = [
    [(1,), (2,), (3,), (4,)],
    sorted([("my spice", x) for x in range(6)] + [("melange", x) for x in range(3)]),
    [("melange", "melange"), ("my spice", "my"), ("my spice", "spice")],
    sorted({(letter,) for letter in "myspicemelange"}),
    [(0,), (2,), (4,)],
    [(x,) for x in (0, 1, 2, 3, 4, 5, 100)],
    [(x,) for x in range(6)],
    [(1000,)],
    [("melange", 1), ("melange", 3), *(("my spice", n) for n in (1, 2, 3, 6))],
]


@pytest.mark.parametrize("engine", ENGINES)
def test_functions_that_give_several_rows(engine: str) -> None:
    assert several(engine) == EXPECTED


def test_functions_that_give_several_rows_on_spark(spark: Any) -> None:
    assert several(spark, strategy="frame") == EXPECTED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p(range(1, 2)). query p(X).", "`range` gives several rows"),
        ("p(X) <- X in abs(1). query p(X).", "`abs` gives one value"),
        ("p(X) <- X in l, q(l). query p(X).", "expected a list, or a function that gives several"),
        ("p(X) <- X in range(0, N). query p(X).", "is not bound"),
        ("p(X) <- X in range(0, 1, 0). query p(X).", "a range needs a step that is not 0"),
    ],
)
def test_mistakes_with_several_rows(text: str, message: str) -> None:
    with pytest.raises(cal.CaladanError, match=re.escape(message)):
        cal.connect("embedded").run(text).answer.rows()


FAILURES = [
    ("cast(S, long)", "C073", "`cast` failed in rule 1, which derives `p`: 'spice' is not an int"),
    ('cast(I, byte)', "C073", "300 does not fit in byte"),
    ("ln(Z)", "C073", "there is no logarithm of 0.0"),
    ("pmod(I, Z)", "C040", "division by zero in rule 1"),
    ("exp(I * 10)", "C041", "a number too large for a double in rule 1"),
    ("abs(L)", "C041", "an integer of more than 64 bits in rule 1"),
    ('regexp_matches(S, "(")', "C073", "'(' is not a regular expression"),
    ("date_add(D, 9000000)", "C073", "the date is out of range (years 1 to 9999)"),
    ("make_date(2023, 2, I)", "C073", "there is no date 2023-2-300"),
    ('to_date(S, "yyyy")', "C073", "'spice' is not written as yyyy"),
    ('trunc(D, "era")', "C073", "'era' is not a unit of time here"),
    ("split_part(S, \",\", Z)", "C073", "there is no part 0"),
    ("clamp(I, 5, 1)", "C073", "the least value 5 is more than the most, 1"),
    ("factorial(I)", "C073", "the factorial of 300"),
    ("unhex(S)", "C073", "'spice' has letters that are not hexadecimal digits"),
]  # fmt: skip


def failing(db: cal.Session) -> None:
    db.add("d", [("spice", 300, 0, -(2**63), dt.date(2024, 2, 29))])


def problem_of(db: cal.Session, expression: str, **options: Any) -> str:
    with pytest.raises(cal.CaladanError) as failed:
        db.run(f"p(X) <- d(S, I, Z, L, D), X = {expression}. query p(X).", **options).answer.rows()
    (diagnostic,) = failed.value.diagnostics
    return f"{diagnostic.code} {diagnostic.message}"


@pytest.mark.parametrize(("expression", "code", "message"), FAILURES)
def test_failures(expression: str, code: str, message: str) -> None:
    told: set[str] = set()
    for engine in ENGINES:
        with cal.connect(engine) as db:
            failing(db)
            told.add(problem_of(db, expression))
    assert len(told) == 1
    (found,) = told
    assert found.startswith(code) and message in found


def test_failures_on_spark(spark: Any) -> None:
    with cal.connect("embedded") as db, cal.connect(spark) as other:
        failing(db)
        failing(other)
        for expression, _, _ in FAILURES:
            assert problem_of(other, expression, strategy="frame") == problem_of(db, expression)
