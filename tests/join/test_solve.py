"""The search finds what brute force finds: every grade, every width, random bodies."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings, strategies as st
from tests.join import words
from tests.join.words import atom, stored

from caladan.join.constraints.sets import OneOf, Predicate
from caladan.join.estimates import GRADES
from caladan.join.search import between, find, one_of, predicate
from caladan.join.statistics import Statistics
from caladan.program.diagnostics import CaladanError

VALUES = range(-1, 4)
VARIABLES = ("X", "Y", "Z", "W")
RELATIONS = {"p": 1, "q": 2, "r": 2, "s": 3}

value = st.sampled_from(VALUES)
var = st.sampled_from(VARIABLES)
widths = st.sampled_from([None, 1, 3, 64])
tables = st.fixed_dictionaries(
    {
        name: st.lists(st.tuples(*[value] * arity), min_size=1, max_size=14)
        for name, arity in RELATIONS.items()
    }
)

Binding = dict[str, int]


@dataclass(frozen=True)
class Part:
    """A literal as text, its variables, those that it lists values for, and what it means."""

    text: str
    variables: frozenset[str]
    listed: frozenset[str]
    holds: Callable[[dict[str, list[Any]], Binding], bool]


def joined(parts: list[Part], sign: str) -> Part:
    every = frozenset[str]().union(*(part.variables for part in parts))
    if sign == ";":
        listed = frozenset.intersection(*(part.listed for part in parts))
        return Part(
            f"({' ; '.join(part.text for part in parts)})", every, listed,
            lambda data, b: any(part.holds(data, b) for part in parts),
        )  # fmt: skip
    listed = frozenset[str]().union(*(part.listed for part in parts))
    text = ", ".join(part.text for part in parts)
    return Part(text, every, listed, lambda data, b: all(p.holds(data, b) for p in parts))


@st.composite
def atoms(draw: st.DrawFn, negated: bool = False) -> Part:
    name = draw(st.sampled_from(sorted(RELATIONS)))
    terms = [draw(var | var | value | st.just("_")) for _ in range(RELATIONS[name])]
    variables = frozenset(t for t in terms if isinstance(t, str) and t != "_")

    def holds(data: dict[str, list[Any]], b: Binding) -> bool:
        wanted = [None if t == "_" else b[t] if isinstance(t, str) else t for t in terms]
        found = any(
            all(w is None or w == v for w, v in zip(wanted, row, strict=True)) for row in data[name]
        )
        return found != negated

    text = f"{'~' if negated else ''}{name}({', '.join(map(str, terms))})"
    return Part(text, variables, frozenset() if negated else variables, holds)


@st.composite
def comparisons(draw: st.DrawFn) -> Part:
    x, y, z = draw(st.lists(var | value, min_size=3, max_size=3))
    texts = [
        f"{x} {draw(st.sampled_from(['<', '<=', '>', '>=', '~=', '=']))} {y}",
        f"{x} + {y} = {z}",
        f"{z} = {x} - {y}",
        f"{x} * {y} = {z}",
        f"2 * {x} + {y} < {z} * {z}",
        f"if({x} < {y} then {x} = {z} else {z} > 0)",
    ]
    text = draw(st.sampled_from(texts))
    code = text.replace("~=", "!=").replace(" = ", " == ")
    if text.startswith("if"):
        code = f"{x} == {z} if {x} < {y} else {z} > 0"
    names = frozenset(t for t in (x, y, z) if isinstance(t, str) and t in text.replace("if", ""))
    names = frozenset(n for n in names if n in compile(code, "", "eval").co_names)
    return Part(text, names, frozenset(), lambda _, b: bool(eval(code, {}, b)))


literals = st.one_of(
    atoms(),
    atoms(negated=True),
    comparisons(),
    st.lists(
        st.lists(atoms(), min_size=1, max_size=2).map(lambda each: joined(each, ",")),
        min_size=2, max_size=2,
    ).map(lambda each: joined(each, ";")),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    tables,
    st.lists(atoms(), min_size=1, max_size=4),
    st.lists(literals, max_size=3),
    st.sampled_from(sorted(GRADES)),
    widths,
    st.data(),
)
def test_like_brute_force(
    data: dict[str, list[Any]],
    first: list[Part],
    rest: list[Part],
    grade: str,
    width: int | None,
    draw: st.DataObject,
) -> None:
    body = joined([*first, *rest], ",")
    names = sorted(body.variables)
    given: dict[str, object] = {}
    means: list[Callable[[Binding], bool]] = []
    for name in names:
        some = frozenset(draw.draw(st.sets(value)))
        is_free = draw.draw(st.booleans()) and name in body.listed
        spec, holds = draw.draw(
            st.sampled_from(
                [
                    (one_of(some), lambda b, n=name, s=some: b[n] in s),
                    (between(0, 3), lambda b, n=name: b[n] >= 0),
                    (between(-1, 3), lambda b: True),
                ]
            )
        )
        if not is_free:
            given[name] = spec
            means.append(holds)
    constraints: list[object] = []
    if names and draw.draw(st.booleans()):
        constraints.append(predicate(lambda n: n % 2 == 0, names[0]))
        means.append(lambda b: b[names[0]] % 2 == 0)
    wanted = draw.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    note(f"{wanted} <- {body.text}, {given}")
    expected = {
        tuple(b[name] for name in wanted)
        for row in itertools.product(VALUES, repeat=len(names))
        if body.holds(data, b := dict(zip(names, row, strict=True))) and all(m(b) for m in means)
    }
    found = list(find(data, wanted, body.text, *constraints, search=grade, width=width, **given))
    assert len(found) == len(set(found)), "a binding came twice"
    assert set(found) == expected


def found(
    body: list[Any], wanted: list[str], seed: dict[str, list[int]] | None = None, **how: object
) -> list[tuple[int, ...]]:
    return [row for batch in words.found(body, wanted, seed, **how) for row in batch]


@pytest.mark.parametrize("grade", GRADES)
def test_rows_of_the_seed_go_along(grade: str) -> None:
    pairs = stored([[(1, 2), (1, 3), (2, 3), (3, 1)]], 2)
    seed = {"x": [3, 9, 1, 1], "n": [0, 1, 2, 3]}
    rows = found([atom(pairs, ("x", "y"))], ["n", "y"], seed, grade=grade)
    assert sorted(rows) == [(0, 1), (2, 2), (2, 3), (3, 2), (3, 3)]


@pytest.mark.parametrize("grade", GRADES)
def test_batches_are_bounded_and_lazy(grade: str) -> None:
    """A product of 10^18 bindings hands out its first at once, and never many at a time."""
    many = stored([np.arange(1_000_000)], 1)
    statistics = Statistics()
    body = [atom(many, (v,)) for v in "abc"]
    results = words.found(body, "abc", grade=grade, statistics=statistics, first=1, width=512)
    sizes = [len(batch) for batch in itertools.islice(results, 200)]
    assert sizes[0] == 1
    assert max(sizes) <= 512


def test_unsafe_variables_are_named() -> None:
    with pytest.raises(CaladanError, match=r"C013.*nothing in the body binds `x`"):
        found([Predicate(["x"], lambda x: x < 3)], ["x"])
    with pytest.raises(CaladanError, match="`z`"):
        found([OneOf("x", [1])], ["x", "z"])


def test_unknown_grade() -> None:
    with pytest.raises(CaladanError, match=r"no search grade `pual`(.|\n)*did you mean `paul`"):
        found([OneOf("x", [1])], ["x"], grade="pual")


def test_polled_at_every_step() -> None:
    class Enough(Exception):
        pass

    def poll() -> None:
        raise Enough

    with pytest.raises(Enough):
        found([OneOf("x", [1])], ["x"], poll=poll)


def test_a_users_own_constraint_takes_part() -> None:
    """Any object with the four methods will do; this one has no equality and no hash."""

    class Divides:
        __hash__ = None
        variables = frozenset(("d", "n"))

        def estimate(self, frontier, var):
            return frontier.columns["n"].copy() if var == "d" and "n" in frontier.bound else None

        def propose(self, frontier, var):
            from caladan.join.search import Candidates

            pairs = [
                (d, row)
                for row, n in enumerate(frontier.columns["n"].tolist())
                for d in range(1, n + 1)
                if n % d == 0
            ]
            return Candidates.of(frontier, var, [d for d, _ in pairs], [row for _, row in pairs])

        def confirm(self, candidates):
            if self.variables <= candidates.bound:
                candidates.keep(candidates.column("n") % candidates.column("d") == 0)

        def influence(self, var):
            return self.variables - {var}

    for grade in GRADES:
        rows = found(
            [OneOf("n", [6, 7]), Divides(), Predicate(["d"], lambda d: d > 1)],
            ["n", "d"],
            grade=grade,
        )
        assert sorted(rows) == [(6, 2), (6, 3), (6, 6), (7, 7)]
