"""`find`: questions from Python, with values, text bodies and constraint objects."""

import datetime as dt
import itertools
import time
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import caladan as cal
from caladan.join.constraints.sets import OneOf
from caladan.join.estimates import GRADES
from caladan.join.search import Library, between, find, one_of, predicate
from caladan.program.diagnostics import CaladanError

LIVES = [
    ("paul", "arrakeen"),
    ("jessica", "arrakeen"),
    ("leto", "caladan"),
    ("alia", "arrakeen"),
    ("duncan", "ginaz"),
]
PARENT = [("paul", "jessica"), ("paul", "leto"), ("alia", "jessica"), ("alia", "leto")]
AGE = [("paul", 15), ("alia", 3), ("jessica", 36), ("duncan", 40)]
DUNE = Library({"lives_in": LIVES, "parent": PARENT, "age": AGE})


def answers(variables: str, body: str, *constraints: object, **given: object) -> list[tuple]:
    return sorted(find(DUNE, variables, body, *constraints, **given))


def test_in_the_manner_of_the_seed() -> None:
    body = "lives_in(person, city), parent(person, parent), lives_in(parent, city)"
    assert answers("person parent city", body) == [
        ("alia", "jessica", "arrakeen"),
        ("paul", "jessica", "arrakeen"),
    ]


@pytest.mark.parametrize(
    ("body", "given", "expected"),
    [
        ("age(p, A), A < 20", {}, ["alia", "paul"]),
        ("age(p, A), A + 1 < 16", {}, ["alia"]),
        ("age(p, A), 2 * A - 1 = 29", {}, ["paul"]),
        ("age(p, A), 29 = 2 * A - 1", {}, ["paul"]),
        ("age(p, 15)", {}, ["paul"]),
        ("age(p, 15.0)", {}, ["paul"]),
        ("age(p, 15.5)", {}, []),
        ("age(p, A), A > 14.5, A < 36.5", {}, ["jessica", "paul"]),
        ("lives_in(p, caladan)", {}, ["leto"]),
        ("lives_in(p, 'caladan')", {}, ["leto"]),
        ('lives_in(p, "nowhere")', {}, []),
        ("lives_in(p, _), ~age(p, _)", {}, ["leto"]),
        ("lives_in(p, C), lives_in(Q, C), p != Q, ~parent(p, _)", {}, ["jessica"]),
        ("lives_in(p, _), p > 'duncan', p <= 'leto'", {}, ["jessica", "leto"]),
        ("(age(p, A), A > 30 ; lives_in(p, 'caladan'))", {}, ["duncan", "jessica", "leto"]),
        ("age(p, _), (lives_in(p, ginaz) ; parent(p, leto), parent(p, jessica))", {},
         ["alia", "duncan", "paul"]),
        ("age(p, (A)), (A + 1) * 2 = 8", {}, ["alia"]),
        ("age(p, A), A = 30 div 2", {}, ["paul"]),
        ("age(p, A), B = upper(p), B = 'PAUL'", {}, ["paul"]),
        ("age(p, A), if(A > 20 then p ~= 'duncan' else A < 5)", {}, ["alia", "jessica"]),
        ("age(p, -A + 18)", {"A": 3}, ["paul"]),
        ("age(p, a)", {"a": between(3, 15)}, ["alia", "paul"]),
        ("age(p, a)", {"a": between(2.5, 15.5)}, ["alia", "paul"]),
        ("age(p, a)", {"a": one_of([36, 3, 99])}, ["alia", "jessica"]),
        ("age(p, a)", {"a": {36, 3, 99}}, ["alia", "jessica"]),
        ("age(p, a)", {"a": np.array([36, 3])}, ["alia", "jessica"]),
        ("age(p, a)", {"a": 36}, ["jessica"]),
        ("age(p, a)", {"a": lambda age: age % 2 == 0}, ["duncan", "jessica"]),
        ("age(p, a)", {"a": predicate(lambda age: age % 5 == 0, vectorized=True)},
         ["duncan", "paul"]),
        ("age(p, _)", {"p": between("d", "k")}, ["duncan", "jessica"]),
        ("age(p, _)", {"p": "paul"}, ["paul"]),
        ("age(p, _)", {"p": ["paul", "leto"]}, ["paul"]),
        ("", {"p": one_of(["stilgar"])}, ["stilgar"]),
    ],
)  # fmt: skip
def test_bodies(body: str, given: dict[str, object], expected: list[str]) -> None:
    assert [p for (p,) in answers("p", body, **given)] == expected


def test_objects_take_part() -> None:
    older = predicate(lambda a, b: a > 2 * b, "x", "y")
    assert answers("p q", "age(p, x), age(q, y)", older, x=between(0, 99), y=between(0, 20)) == [
        ("duncan", "alia"), ("duncan", "paul"), ("jessica", "alia"), ("jessica", "paul"),
        ("paul", "alia"),
    ]  # fmt: skip
    assert answers("p a", "age(p, a)", a=OneOf("a", [3])) == [("alia", 3)]


def test_variables_nobody_lists_are_computed() -> None:
    assert answers("p next", "age(p, A), next = A + 1", A=between(0, 20)) == [
        ("alia", 4),
        ("paul", 16),
    ]
    assert answers("n", "n = 2 * K, K = 21") == [(42,)]
    assert answers("h", "age(paul, A), h = A * 0.5") == [(7.5,)]


def test_only_distinct_answers() -> None:
    assert answers("p", "parent(X, p), parent(Y, p), X != Y") == [("jessica",), ("leto",)]
    assert list(find(DUNE, "", "parent(X, jessica)")) == [()]
    assert list(find(DUNE, "", "parent(X, duncan)")) == []


def test_every_type_of_value() -> None:
    when = dt.datetime(2024, 1, 31, 12, 30)
    table = pa.table(
        {
            "b": [True, False],
            "d": pa.array([1.5, float("inf")], pa.float32()),
            "t": [when, when + dt.timedelta(days=1)],
            "s": pa.array(["x", "y"]).dictionary_encode(),
            "i": pa.array([1, 2], pa.uint8()),
        }
    )
    found = find({"r": table}, "b d t s i", "r(b, d, t, s, i), d < 2, b = true")
    assert list(found) == [(True, 1.5, when, "x", 1)]
    assert found.arrow().to_pylist() == [{"b": True, "d": 1.5, "t": when, "s": "x", "i": 1}]
    assert list(find({"r": table}, "i", "r(_, D, _, _, i)", D=between(1, 2))) == [(1,)]
    assert list(find({"r": table}, "i", "r(_, _, T, _, i)", T=dt.date(2024, 1, 31))) == []


def test_integers_meet_doubles() -> None:
    relations = {"i": [(1,), (2,)], "d": [(1.0,), (2.5,)]}
    assert list(find(relations, "x", "i(x), d(x)")) == [(1.0,)]
    assert sorted(find(relations, "x y", "i(x), d(y), x < y")) == [(1, 2.5), (2, 2.5)]


@pytest.mark.parametrize(
    "data",
    [
        pa.table({"a": [1, 2], "b": [2, 3]}),
        pl.DataFrame({"a": [1, 2], "b": [2, 3]}),
        {"a": [1, 2], "b": [2, 3]},
        [(1, 2), (2, 3)],
        np.array([[1, 2], [2, 3]]),
    ],
)
def test_ways_to_hold_rows(data: object) -> None:
    assert list(find({"e": data}, "x z", "e(x, Y), e(Y, z)")) == [(1, 3)]


def test_a_first_answer_comes_at_once() -> None:
    """A product of 10^18 rows, and a path of 10^15: one answer costs milliseconds, not hours."""
    many = Library(
        {"n": {"n": np.arange(1_000_000)}, "e": {"a": np.zeros(10**5, int), "b": np.arange(10**5)}}
    )
    next(iter(find(many, "a b c", "n(a), n(b), n(c)")))  # encodes and sorts
    next(iter(find(many, "a b c d", "e(X, a), e(X, b), e(X, c), e(X, d)")))
    started = time.process_time()
    assert len(next(iter(find(many, "a b c", "n(a), n(b), n(c)")))) == 3
    assert len(next(iter(find(many, "a b c d", "e(X, a), e(X, b), e(X, c), e(X, d)")))) == 4
    some = list(itertools.islice(find(many, "a b", "n(a), n(b), a < b"), 1000))
    assert len(set(some)) == 1000
    assert time.process_time() - started < 0.5


def test_shown_and_counted() -> None:
    found = find(DUNE, "p a", "age(p, a)", search="ghanima")
    assert repr(find(DUNE, "p", "age(p, 15)")) == "Found(('paul',))"
    assert found.count() == 4
    assert found.statistics.grade == "ghanima"
    assert found.statistics.results == 4
    assert repr(find({"n": [(i,) for i in range(20)]}, "n", "n(n)")).endswith("…)")


HOMES: dict[str, object] = {
    "lives_in": [(f"p{i}", f"c{i}") for i in range(12)],
    "parent": [(f"p{i}", f"q{i}") for i in range(40)],
    "raised_in": [(f"q{i}", f"c{i}") for i in range(6)],
}
SAME_CITY = "lives_in(person, city), parent(person, parent), raised_in(parent, city)"


def test_estimates_are_explained() -> None:
    """The example of the search's first description: 12, 6 and 6."""
    found = find(HOMES, "person parent city", SAME_CITY)
    table = [
        "search paul: estimates before anything is bound",
        "  person         12  of lives_in(person, city) 12, parent(person, parent) 40",
        "  parent          6  of parent(person, parent) 40, raised_in(parent, city) 6",
        "  city            6  of lives_in(person, city) 12, raised_in(parent, city) 6",
    ]
    assert found.explain().splitlines() == table
    assert found.count() == 6
    after = found.explain().splitlines()
    assert after[:4] == table
    assert after[4] == "searched by paul: 6 results"
    assert after[6].startswith("  parent  6 proposed, 0 wasted")
    assert after[6].endswith("6 by raised_in(parent, city)")


SEED = """
(find [?person ?parent ?city]
  [?person :lives-in ?city]
  [?person :parent ?parent]
  [?parent :raised-in ?city])
"""


def test_a_question_in_triples() -> None:
    """The text of the search's first description gives 12, 6 and 6, and parents come first."""
    found = find(HOMES, SEED)
    assert found.variables == ("person", "parent", "city")
    assert [line.split()[:2] for line in found.explain().splitlines()[1:4]] == [
        ["person", "12"], ["parent", "6"], ["city", "6"],
    ]  # fmt: skip
    assert set(found) == {(f"p{i}", f"q{i}", f"c{i}") for i in range(6)}
    by = found.statistics.proposers
    assert by["parent", "raised_in(parent, city)"] == 6  # all of them: nothing was bound yet
    db = cal.connect("embedded")
    for name, facts in HOMES.items():
        db.add(name, facts)
    assert set(db.find(SEED)) == set(found)
    assert set(db.find('(find [?who] [?who :lives-in "c1"])')) == {("p1",)}
    assert set(db.find("(find [?who] [?who :parent _])", "raised_in(X, who)")) == set()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(find [x] [?x :e ?y])", "expected a variable such as `?x`, found `x`"),
        ("(find [?x] [?x e ?y])", "expected `:attribute`, found `e`"),
        ("(find [?x] [?x :e ?y]", "expected `)`, found the end"),
        ("(look [?x] [?x :e ?y])", "expected `find`, found `look`"),
        ("(find [?x] [?x :e ?y]) )", "expected the end, found `)`"),
        ("(find [?x-y ?x_y] [?x-y :e ?x_y])", "`?x_y` and `?x-y` would be one name"),
    ],
)
def test_slips_in_triples(text: str, said: str) -> None:
    with pytest.raises(cal.CaladanError) as problem:
        find({"e": [(1, 2)]}, text)
    assert said in str(problem.value)


@pytest.mark.parametrize("grade", GRADES)
def test_whoever_proposed_is_named(grade: str) -> None:
    e = [(x, (x * 7 + k) % 20) for x in range(20) for k in range(4)]
    body = "e(x, y), e(y, z), e(z, x), x < 15"
    found = find({"e": e}, "x y z", body, search=grade, z=between(2, 9))
    assert found.count() > 0
    named: dict[str, int] = {}
    for (var, _), count in found.statistics.proposers.items():
        named[var] = named.get(var, 0) + count
    assert named == dict(found.statistics.proposed)


def test_a_library_takes_new_facts() -> None:
    library = Library({"e": [(1, 2)]})
    assert find(library, "x y", "e(x, y)").count() == 1
    library.put("e", [(1, 2), (2, 3)])
    assert find(library, "x y", "e(x, y)").count() == 2


@pytest.mark.parametrize(
    ("variables", "body", "given", "code", "says"),
    [
        ("p", "age(p", {}, "C001", "found the end"),
        ("p", "age(p, 1) age(p, 2)", {}, "C001", "expected a comma or the end, found `age`"),
        ("p", "age(p, 'x)", {}, "C002", "no closing quote"),
        ("p", "age(p, 99999999999999999999)", {}, "C003", "64 bits"),
        ("p", "age(p, ?)", {}, "C001", "found `?`"),
        ("p", "p", {}, "C010", "unknown relation `p`"),
        ("p", "agee(p, A)", {}, "C010", "did you mean `age`"),
        ("p", "age(p)", {}, "C011", "2 columns, but 1 argument"),
        ("p", "age(p, a)", {}, "C018", "list it among the variables"),
        ("p", "age(p, A), lives_in(A, _)", {}, "C012", "in one column"),
        ("p", "age(p, A), A < p", {}, "C012", "cannot be compared"),
        ("p", "age(p, A), A = p + 1", {}, "C012", "needs numbers"),
        ("p", "~age(p, _)", {}, "C013", "`p`"),
        ("p q", "age(p, _)", {}, "C013", "`q`"),
        ("p q", "age(p, A), q + B = A", {}, "C013", "`q`"),
        ("p", "age(p, _)", {"p": 3}, "C018", "is no string"),
        ("p", "age(p, _)", {"p": between(3, 4)}, "C018", "string values"),
        ("p", "age(p, _)", {"p": OneOf("q", [1])}, "C050", "no such variable"),
        ("p", "age(p, A), A = if(p = 1 then 2 else 3)", {}, "C012", "compared with an integer"),
        ("p", "age(p, A), A div (A - 3) = 1", {}, "C040", "by zero"),
        ("p", "age(p, _), limit(1)", {}, "C051", "cannot sort"),
        ("p p", "age(p, _)", {}, "C050", "twice"),
        ("1", "age(p, _)", {}, "C050", "name of a variable"),
        ("p", "age(p, _)", {"search": "duncan"}, "C050", "no search grade"),
    ],
)
def test_mistakes(
    variables: str, body: str, given: dict[str, object], code: str, says: str
) -> None:
    with pytest.raises(CaladanError) as caught:
        list(find(DUNE, variables, body, **given))
    assert caught.value.diagnostics[0].code == code
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({"a": [1, None]}, "C036"),
        ({"a": np.array([2**63], np.uint64)}, "C032"),
        ({"a": [[1], [2]]}, "C012"),
        ([], "C031"),
        ([(1,), (1, 2)], "C031"),
    ],
)
def test_data_that_does_not_do(data: object, code: str) -> None:
    with pytest.raises(CaladanError, match=code):
        list(find({"r": data}, "x", "r(x)"))


def test_what_is_no_constraint() -> None:
    for thing in (object(), one_of([1]), predicate(len, "nobody")):
        with pytest.raises(CaladanError, match=r"C050|C013"):
            find(DUNE, "p", "age(p, _)", thing)
    with pytest.raises(CaladanError, match="C050"):
        one_of("paul")


def test_overflow_is_an_error_where_it_would_lose_an_answer() -> None:
    relations = {"n": [(2**62,)]}
    with pytest.raises(CaladanError, match="C041"):
        list(find(relations, "x y", "n(x), y = x + x"))
    assert list(find(relations, "x y", "n(x), n(y), y = x + x")) == []


WARES: dict[str, object] = {
    "price": {
        "ware": ["spice", "water", "cloth"],
        "price": [Decimal("620000.50"), Decimal("3.10"), Decimal(12)],
        "seal": [b"\x01", b"\x02", b"\x01"],
        "since": [dt.date(2026, 1, 1), dt.date(2026, 2, 1), dt.date(2026, 2, 1)],
    },
    "sold": {"seal": [b"\x01"], "at": [dt.datetime(2026, 2, 1)]},
}


@pytest.mark.parametrize(
    ("body", "given", "wares"),
    [
        ("price(ware, P, _, _), P > 12", {}, {"spice"}),
        ("price(ware, 12, _, _)", {}, {"cloth"}),
        ("price(ware, P, _, _)", {"P": between(3, Decimal("3.1"))}, {"water"}),
        ("price(ware, _, S, _), sold(S, _)", {}, {"spice", "cloth"}),
        ("price(ware, _, S, _)", {"S": b"\x02"}, {"water"}),
        ("price(ware, _, _, D), sold(_, D)", {}, {"water", "cloth"}),
        (
            "price(ware, _, _, D)",
            {"D": between(dt.date(2026, 1, 1), dt.date(2026, 1, 9))},
            {"spice"},
        ),
        ("price(ware, _, _, D)", {"D": one_of([dt.datetime(2026, 2, 1, 3)])}, set()),
    ],
)
def test_decimals_bytes_and_days(body: str, given: dict[str, object], wares: set[str]) -> None:
    assert {ware for (ware,) in find(WARES, "ware", body, **given)} == wares


def test_kinds_that_meet() -> None:
    """Comparisons that rules have no type for are Python's; branches may compute either number."""
    some = {
        "price": [("a", Decimal("3.5")), ("b", Decimal(9))],
        "n": [(4,), (10,)],
        "day": [(dt.date(2024, 1, 1),), (dt.date(2024, 3, 1),)],
        "time": [(dt.datetime(2024, 2, 1, 3),)],
        "pair": [((1, 2),), ((3, 0),)],
        "either": [("x", (1, 2)), ("y", 7)],
    }
    assert set(find(some, "w x", "price(w, P), n(x), P < x")) == {("a", 4), ("a", 10), ("b", 10)}
    assert [d.day for d, _ in find(some, "d t", "day(d), time(t), d < t")] == [1]
    assert list(find(some, "x y", "pair(x), pair(y), x < y")) == [((1, 2), (3, 0))]
    assert list(find(some, "x", "pair(x), either(_, x)")) == [((1, 2),)]
    assert list(find(some, "w", "either(w, 7)")) == [("y",)]
    halves = find(some, "x y", "n(x), (y = x + 1 ; y = x * 0.5)")
    assert set(halves) == {(4, 5.0), (10, 11.0), (4, 2.0), (10, 5.0)}


def test_their_types_come_out_again() -> None:
    found = find(WARES, "p s d", "price('water', p, s, d)")
    assert list(found) == [(Decimal("3.10"), b"\x02", dt.date(2026, 2, 1))]
    assert [str(t) for t in found.arrow().schema.types] == [
        "decimal128(38, 18)",
        "binary",
        "date32[day]",
    ]


def test_any_value_that_can_be_hashed() -> None:
    """Tuples, sets, classes, texts beside numbers: equal values are one value, as in a dict."""
    relations = {
        "at": [("a", (0, 0)), ("b", (0, 1)), ("c", frozenset({7})), ("d", 1.0)],
        "next": [((0, 0), (0, 1)), ((0, 1), frozenset({7})), (frozenset({7}), 1)],
        "number": [(1,), (2,)],
    }
    steps = find(relations, "x y", "at(x, P), next(P, Q), at(y, Q)")
    assert set(steps) == {("a", "b"), ("b", "c"), ("c", "d")}
    assert set(find(relations, "p", "at(_, p)", p=one_of([(0, 1), "nobody"]))) == {((0, 1),)}
    assert set(find(relations, "x", "at(x, P), number(P)")) == {("d",)}
    assert set(find(relations, "x", "at(x, P)", P=predicate(lambda p: isinstance(p, tuple)))) == {
        ("a",),
        ("b",),
    }
    with pytest.raises(CaladanError, match=r"C012.*do not compare"):
        list(find(relations, "x y", "at(x, P), at(y, Q), P < Q"))
    with pytest.raises(CaladanError, match=r"C012[^$]*take the answers as rows"):
        find(relations, "p", "at(_, p)").arrow()
    with pytest.raises(CaladanError, match=r"C018.*cannot be hashed"):
        find(relations, "p", "at(_, p)", p=one_of([[1]]))


small = st.integers(0, 4)
facts = st.lists(st.tuples(small, small), min_size=1, max_size=12)


@settings(max_examples=40)
@given(facts, facts, st.sampled_from(sorted(GRADES)))
def test_against_comprehensions(e: list, f: list, grade: str) -> None:
    relations = {"e": e, "f": f}
    triangles = find(relations, "x y z", "e(x, y), e(y, z), e(z, x)", search=grade)
    assert set(triangles) == {(x, y, z) for x, y in e for y2, z in e if y2 == y and (z, x) in e}
    body = "(e(x, y) ; f(y, x), x < y), ~f(x, x), Z = x + y, Z != 3"
    assert set(find(relations, "x y", body, search=grade)) == {
        (x, y)
        for x in range(5)
        for y in range(5)
        if ((x, y) in e or ((y, x) in f and x < y)) and (x, x) not in f and x + y != 3
    }
