"""Long texts and large programs: twice the text is about twice the work.

Work is counted in calls of functions, in all threads, never in seconds.
"""

import sys
import threading
from collections.abc import Callable
from types import FrameType

import pytest

import caladan
from caladan.program.diagnostics import CaladanError


def calls(work: Callable[[], object]) -> int:
    """How many functions of the package, and of the parser of SQL, are called."""
    number = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal number
        name = frame.f_code.co_filename
        number += event == "call" and ("caladan" in name or "sqlglot" in name)

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # pyright: ignore[reportArgumentType]
    return number


def recursive(condition: str = "Src < 5", value: str = "Src + 1", gap: str = " ") -> str:
    return (
        "WITH recursive r(Src) AS (SELECT c1 FROM e) UNION "
        f"(SELECT {value} FROM r{gap}WHERE {condition}) SELECT * FROM r"
    )


def nested(depth: int) -> str:
    return recursive(value="abs(" * depth + "Src + 1" + ")" * depth)


def greatest(count: int) -> str:
    return recursive(value=f"greatest({', '.join(f'Src + 1 - {i}' for i in range(count))})")


def listed(count: int) -> str:
    return recursive(f"Src < 5 AND Src IN ({', '.join(map(str, range(count)))})")


def listed_plainly(count: int) -> str:
    return f"SELECT c1 FROM e WHERE c1 IN ({', '.join(map(str, range(count)))})"


def joined(count: int) -> str:
    return recursive(" AND ".join(["Src < 5", *(f"Src <> {i + 10}" for i in range(count))]))


def joined_plainly(count: int) -> str:
    return f"SELECT c1 FROM e WHERE {' AND '.join(f'c1 <> {i + 10}' for i in range(count))}"


def blanks(count: int) -> str:
    return recursive(gap=" " * count)


def lines(count: int) -> str:
    return "\n" * count + recursive()


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (nested, 12), (greatest, 12), (listed, 400), (listed_plainly, 400), (joined, 60),
        (joined_plainly, 60), (blanks, 20_000), (lines, 5_000),
    ],
)  # fmt: skip
def test_sql_of_twice_the_length(text: Callable[[int], str], size: int) -> None:
    db = caladan.connect("embedded")
    db.add("e", [(1, 2), (2, 3), (-3, 4)])
    db.sql(text(size)).rows()  # loads what is needed

    def ask(length: int) -> Callable[[], object]:
        return lambda: db.sql(text(length)).rows()

    once = calls(ask(size + 1))
    assert calls(ask(2 * size + 1)) < 2.5 * once


def cycle(length: int) -> str:
    """One recursion through so many relations."""
    steps = [f"r{i + 1}(X, Y) <- r{i}(X, Y)." for i in range(length)]
    return "\n".join(
        ["r0(X, Y) <- e(X, Y).", *steps, f"r0(X, Y) <- r{length}(X, Y).", "query r0(X, Y)."]
    )


def test_a_cycle_through_twice_the_relations() -> None:
    def ask(length: int) -> int:
        db = caladan.connect("embedded")
        db.add("e", [(1, 2), (2, 3)])
        text = cycle(length)
        return calls(lambda: db.run(text).answer.rows())

    ask(60)  # loads what is needed
    once = ask(120)
    assert ask(240) < 2.5 * once


@pytest.mark.parametrize(
    "value",
    [
        "concat(T, 'x')", "upper(concat(T, 'x'))", "trim(lower(concat(T, 'x')))",
        "if(T = 'z' then T else upper(concat('x', T)))", "replace(upper(concat(T, T)), 'A', 'B')",
    ],
)  # fmt: skip
def test_growth_is_seen_under_a_wrapper(value: str) -> None:
    db = caladan.connect("embedded")
    with pytest.warns(caladan.CaladanWarning, match="W101"), pytest.raises(CaladanError):
        db.run(f"p(a). p({value}) <- p(T). query p(T).", max_rounds=5)


@pytest.mark.parametrize("value", ["upper(T)", "trim(lower(T))", "if(T = 'a' then 'b' else T)"])
def test_what_cannot_grow_is_not_warned_of(value: str) -> None:
    with caladan.connect("reference") as db:
        assert db.check(f"p(a). p({value}) <- p(T). query p(T).") == ()
