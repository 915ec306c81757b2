"""Functions of Python in rules: the same answers on every engine, called no more than they must."""

import datetime as dt
import math
import threading
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

import caladan as cal
from caladan.join.search import Candidates, Frontier

PROGRAM = """
apart(A, B, D) <- city(A, X, Y), city(B, U, V), A < B, D = km(X, Y, U, V).
close(X, Y) <- n(X), n(Y), near(X, Y), X ~= Y.
far(X, Y) <- n(X), n(Y), ~near(X, Y).
loud(S) <- city(A, _, _), S = shout(A).
squares(X, Y, Z) <- n(X), Y = square(X), Z = plus(X, Y).
years(P, Z) <- born(P, D), Z = year(D).
steps(X) <- n(X), X < 2.
steps(Z) <- steps(X), Z = plus(X, 3), Z < 9.
total(sum<Y>) <- n(X), Y = square(X) + 1.
query apart(A, B, D). query close(X, Y). query far(X, Y). query loud(S). query squares(X, Y, Z).
query years(P, Z). query steps(X). query total(T).
"""

EXPECTED = [
    {("a", "b", 5.0), ("a", "c", 5.0), ("b", "c", 0.0)},
    {(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)},
    {(0, 2), (0, 3), (1, 3), (2, 0), (3, 0), (3, 1)},
    {("A!",), ("B!",), ("C!",)},
    {(0, 0, 0), (1, 1, 2), (2, 4, 6), (3, 9, 12)},
    {("x", 1999)},
    {(0,), (1,), (3,), (4,), (6,), (7,)},
    {(18,)},
]


def session(engine: Any) -> cal.Session:
    db = cal.connect(engine)
    db.define("km", lambda a, b, c, d: math.hypot(a - c, b - d), returns="double")
    db.define("near", lambda a, b: abs(a - b) < 2, returns="boolean")
    db.define("shout", lambda text: text.upper() + "!", returns="string")
    db.define("square", lambda x: x * x, returns="long", vectorized="numpy")
    db.define("plus", lambda x, y: pc.add(x, y), returns="long", vectorized="arrow")
    db.define("year", lambda day: day.year, returns="integer")
    db.define("ratio", lambda x: 6 // (x - 3), returns="long")
    db.add("city", [("a", 0.0, 0.0), ("b", 3.0, 4.0), ("c", 3.0, 4.0)])
    db.add("n", [(i,) for i in range(4)])
    db.add("born", [("x", dt.date(1999, 5, 1))])
    return db


def test_what_tasks_cannot_be_handed_is_told_at_once(spark: Any) -> None:
    lock = threading.Lock()
    with cal.connect(spark) as db:
        for held, what in ((lock, "_thread.lock"), (spark, "SparkContext")):
            with pytest.raises(cal.CaladanError, match=r"C050.*`f` cannot be sent") as problem:
                db.define("f", lambda x, held=held: (held, x)[1], returns="long")
            assert what in told(problem)
        db.define("f", lambda x: x + 1, returns="long")
        assert db.run("p(f(1)). query p(X).").answer.rows() == [(2,)]


def told(problem: pytest.ExceptionInfo[cal.CaladanError]) -> str:
    (diagnostic,) = problem.value.diagnostics
    return f"{diagnostic.code}: {diagnostic.message}"


FAILED = (
    "C073: `ratio` failed in rule 1, which derives `p`: "
    "ZeroDivisionError: integer division or modulo by zero"
)


@pytest.mark.parametrize("engine", ["reference", "embedded"])
def test_rules_call_functions(engine: str) -> None:
    db = session(engine)
    assert [set(answer.rows()) for answer in db.run(PROGRAM).answers] == EXPECTED
    with pytest.raises(cal.CaladanError) as failed:
        db.run("p(Y) <- n(X), Y = ratio(X). query p(Y).")
    assert told(failed) == FAILED


def test_rules_call_functions_on_spark(spark: Any) -> None:
    """In tasks, and in frames as UDFs."""
    db = session(spark)
    for strategy in ("single", "frame"):
        found = db.run(PROGRAM, strategy=strategy).answers
        assert [set(answer.rows()) for answer in found] == EXPECTED
        with pytest.raises(cal.CaladanError) as failed:
            db.run("p(Y) <- n(X), Y = ratio(X). query p(Y).", strategy=strategy).answer.rows()
        assert told(failed) == FAILED


@pytest.mark.parametrize("engine", ["reference", "embedded"])
def test_once_for_each_distinct_input(engine: str) -> None:
    inputs: list[object] = []

    def kind(value: object) -> str:
        inputs.append(value)
        return type(value).__name__

    db = cal.connect(engine)
    db.define("kind", kind, returns="string")
    db.add("n", [(i, i % 3) for i in range(100)])
    db.add("d", [(1.0,), (2.5,)])
    out = db.run("""
    whole(K) <- n(_, X), K = kind(X).
    fraction(K) <- d(X), K = kind(X).
    again(K) <- n(X, _), X < 3, K = kind(X).
    query whole(K). query fraction(K). query again(K).
    """)
    assert [answer.rows() for answer in out.answers] == [[("int",)], [("float",)], [("int",)]]
    assert sorted(map(repr, inputs)) == ["0", "1", "1.0", "2", "2.5"]


@pytest.mark.parametrize("search", ["jessica", "paul", "ghanima", "leto"])
def test_they_cut_the_search_of_a_cycle(search: Any) -> None:
    db = session("embedded")
    db.add("e", [(i, j) for i in range(6) for j in range(6) if i != j])
    text = "t(X, Y, Z) <- e(X, Y), e(Y, Z), e(Z, X), near(X, Y), ~near(Y, Z). query t(X, Y, Z)."
    assert set(db.run(text, search=search).answer.rows()) == {
        (x, y, z)
        for x in range(6)
        for y in range(6)
        for z in range(6)
        if abs(x - y) == 1 and abs(y - z) >= 2 and z != x
    }


@pytest.mark.parametrize(
    ("returns", "value", "reason"),
    [
        ("integer", None, "it gave None where integer is wanted"),
        ("integer", 2**40, "does not fit in integer"),
        ("string", 7, "it gave"),
        ("boolean", 1, "it gave"),
    ],
)
def test_what_they_give_is_looked_at(returns: str, value: object, reason: str) -> None:
    for engine in ("reference", "embedded"):
        db = cal.connect(engine)
        db.add("n", [(1,)])
        db.define("f", lambda _: value, returns=returns)
        with pytest.raises(cal.CaladanError) as failed:
            db.run("p(Y) <- n(X), Y = f(X). query p(Y).")
        assert told(failed).startswith("C073: `f` failed in rule 1, which derives `p`: ")
        assert reason in told(failed)


def test_columns_come_back_whole() -> None:
    db = cal.connect("embedded")
    db.add("n", [(1,), (2,)])
    db.define("f", lambda column: column[:1], returns="long", vectorized="numpy")
    with pytest.raises(cal.CaladanError, match="it must give 2 values for 2 rows"):
        db.run("p(Y) <- n(X), Y = f(X). query p(Y).")


def test_explain_marks_them() -> None:
    plan = session("embedded").explain("p(Y) <- n(X), Y = square(X). query p(Y).", stage="plan")
    assert "compute Y: Y = opaque square(X)" in plan


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p(X) <- n(X), square(X).", "`square` gives a long, which is neither true nor false"),
        ("p(Y) <- n(X), Y = square(X, X).", "`square` does not take 2 values"),
        (
            "p(Y) <- n(X), Y = square(X), Y = near(X, X).",
            "a long cannot be compared with a boolean",
        ),
    ],
)
def test_calls_are_checked(text: str, message: str) -> None:
    with pytest.raises(cal.CaladanError) as failed:
        session("embedded").run(text + " query p(Y).")
    assert message in str(failed.value)


@pytest.mark.parametrize(
    ("name", "function", "settings", "message"),
    [
        ("Big", len, {"returns": "long"}, "a function cannot be called `Big`"),
        ("sum", len, {"returns": "long"}, "a function cannot be called `sum`"),
        ("f", 7, {"returns": "long"}, "`f` is a int, not a function"),
        ("f", len, {"returns": "strin"}, "`f` cannot return the type `strin`"),
        ("f", len, {"returns": "long", "vectorized": "cuda"}, 'vectorized is "numpy", "arrow"'),
    ],
)
def test_definitions_are_checked(name: str, function: Any, settings: Any, message: str) -> None:
    with pytest.raises(cal.CaladanError) as failed:
        cal.connect("embedded").define(name, function, **settings)
    assert told(failed).startswith("C050: " + message)


# ── What `find` takes ────────────────────────────────────────────────────────────────────────────


class Closer:
    """Two whole numbers are at most so far apart."""

    def __init__(self, left: str, right: str, reach: int) -> None:
        self.variables = frozenset((left, right))
        self.sides = (left, right)
        self.reach = reach

    def estimate(self, frontier: Any, var: str) -> Any:
        (other,) = self.variables - {var}
        return np.full(len(frontier), 2 * self.reach + 1) if other in frontier.columns else None

    def propose(self, frontier: Any, var: str) -> Any:
        (other,) = self.variables - {var}
        steps = np.arange(-self.reach, self.reach + 1)
        values = (frontier.columns[other][:, None] + steps).ravel()
        return Candidates.of(frontier, var, values, np.repeat(np.arange(len(frontier)), len(steps)))

    def confirm(self, candidates: Any) -> None:
        if self.variables <= candidates.bound:
            left, right = map(candidates.column, self.sides)
            candidates.keep(np.abs(left - right) <= self.reach)

    def influence(self, var: str) -> frozenset[str]:
        return self.variables - {var}


BROUGHT = """
q(X, Y) <- n(X), n(Y), few(X), odd(Y), closer(X, Y), ~pair(X, Y).
r(P) <- lives(P, T), town(T).
query q(X, Y).
query r(P).
"""


def bring(db: cal.Session) -> None:
    db.add("n", [(i,) for i in range(10)])
    db.add("lives", [("Paul", "Arrakeen"), ("Chani", "Tabr")])
    db.define("town", {"Tabr", "Caladan"})
    db.define("pair", {(2, 3), (3, 1)})
    db.define("few", cal.between(2, 4))
    db.define("odd", cal.predicate(lambda x: x % 2 == 1))
    db.define("closer", Closer("a", "b", 2), arguments=("a", "b"))


@pytest.mark.parametrize("search", [None, "paul", "leto"])
def test_sets_ranges_predicates_and_constraints_in_rules(search: str | None) -> None:
    db = cal.connect("embedded")
    bring(db)
    answers = [sorted(each.rows()) for each in db.run(BROUGHT, search=search).answers]
    assert answers == [[(2, 1), (3, 3), (3, 5), (4, 3), (4, 5)], [("Chani",)]]
    assert "meet in Y: n(Y), opaque closer(X, Y)" in db.explain(BROUGHT, stage="plan")


def test_they_are_in_rules_on_spark(spark: Any) -> None:
    db = cal.connect(spark)
    bring(db)
    answers = [sorted(each.rows()) for each in db.run(BROUGHT).answers]
    assert answers == [[(2, 1), (3, 3), (3, 5), (4, 3), (4, 5)], [("Chani",)]]


def test_the_order_of_a_constraints_arguments_must_be_said() -> None:
    db = cal.connect("embedded")
    with pytest.raises(cal.CaladanError, match="in which order the constraint takes"):
        db.define("closer", Closer("a", "b", 2))
    with pytest.raises(cal.CaladanError, match="the type that `f` returns is missing"):
        db.define("f", len)
    db.define("closer", Closer("a", "b", 2), arguments=("a", "b"))
    db.add("w", [("x", "y")])
    with pytest.raises(cal.CaladanError, match="a constraint sees whole numbers"):
        db.run("p(X) <- w(X, Y), closer(X, Y). query p(X).")


class Within:
    """Two numbers are at most `reach` apart: lists the numbers around one that is known."""

    def __init__(self, reach: int) -> None:
        self.variables = frozenset(("p", "q"))
        self.reach = reach

    def estimate(self, frontier: Frontier, var: str) -> Any:
        del var
        return np.full(len(frontier), 2 * self.reach + 1) if frontier.bound else None

    def propose(self, frontier: Frontier, var: str) -> Candidates:
        (known,) = frontier.columns.values()
        steps = np.arange(-self.reach, self.reach + 1)
        rows = np.repeat(np.arange(len(frontier)), len(steps))
        return Candidates.of(frontier, var, known[rows] + np.tile(steps, len(frontier)), rows)

    def confirm(self, candidates: Candidates) -> None:
        if self.variables <= candidates.bound:
            apart = candidates.column("p") - candidates.column("q")
            candidates.keep(np.abs(apart) <= self.reach)

    def influence(self, var: str) -> frozenset[str]:
        return self.variables - {var}


@pytest.mark.parametrize("search", [None, "paul"])
@pytest.mark.parametrize(
    "body",
    [
        "a(X), b(Y), within(X, Y)",
        "a(X), b(Y), within(Y, X), c(Y, _), X ~= Y",
        "a(X), c(Y, Z), within(X, Y), Z > 3",
        "c(X, _), c(Y, Z), b(Z), within(X, Y), ~a(Y)",
    ],
)
def test_a_constraint_proposes_in_rules(body: str, search: str | None) -> None:
    """No cross product is tested: of 9 million pairs some thousands are proposed."""
    db = cal.connect("embedded")
    n = 3_000
    db.add("a", [(i * 7,) for i in range(n)])
    db.add("b", [(i * 5,) for i in range(n)])
    db.add("c", [(i * 5, i % 11) for i in range(n)])
    db.define("within", Within(2), arguments=("p", "q"))
    out = db.run(f"t(X, Y) <- {body}.", search=search)
    (rule,) = out.stats.cliques[-1].rules
    assert 0 < sum(each.proposed for each in rule.search) < 60_000
    if search is None:
        assert any("opaque within(X, Y)" in step for plan in rule.plans for step in plan)
    a, b, c = ({i * k for i in range(n)} for k in (7, 5, 5))
    z = {i * 5: i % 11 for i in range(n)}
    left = c if body.startswith("c") else a
    pairs = {(x, y) for x in left for y in range(x - 2, x + 3) if y in b}
    if "X ~= Y" in body:
        pairs = {(x, y) for x, y in pairs if x != y}
    if "Z > 3" in body:
        pairs = {(x, y) for x, y in pairs if z[y] > 3}
    if "~a" in body:
        pairs = {(x, y) for x, y in pairs if y not in a and z[y] in b}
    assert set(out["t"].rows()) == pairs


@pytest.mark.parametrize("engine", ["reference", "embedded"])
def test_a_definition_hides_the_function_of_that_name(engine: str) -> None:
    with cal.connect(engine) as db:
        assert db.run('p(upper("a")). query p(X).').answer.rows() == [("A",)]
        db.define("upper", lambda text: text + text, returns="string")
        assert db.run('p(upper("a")). query p(X).').answer.rows() == [("aa",)]
