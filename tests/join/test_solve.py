"""The search finds what brute force finds: every grade, every width, random bodies."""

import itertools

import numpy as np
import pytest
from hypothesis import given, note, settings, strategies as st
from tests.join import words
from tests.join.words import atom, brute_force, negated, party, stored

from caladan.columns.relation import StoredRelation
from caladan.join.either import Either, Exists
from caladan.join.grades import GRADES
from caladan.join.parties import Party
from caladan.join.search.constraints import (
    Between,
    ComparisonConstraint,
    Equal,
    OneOf,
    Plus,
    Predicate,
    Times,
)
from caladan.join.statistics import Statistics
from caladan.program.diagnostics import CaladanError

WORDS = range(-1, 4)
VARIABLES = ("x", "y", "z", "w")

word = st.sampled_from(WORDS)
var = st.sampled_from(VARIABLES)
term = var | word
widths = st.sampled_from([(1, 1), (1, 3), (2, 64), (9, 9)])  # of the first batch, and the largest


@st.composite
def relations(draw: st.DrawFn, arity: int) -> StoredRelation:
    fact = st.tuples(*[word] * arity)
    return stored(draw(st.lists(st.lists(fact, max_size=14), max_size=2)), arity)


@st.composite
def atoms(draw: st.DrawFn) -> Party:
    arity = draw(st.integers(1, 3))
    arguments = draw(st.lists(var | var | word | st.none(), min_size=arity, max_size=arity))
    return atom(draw(relations(arity)), arguments)


@st.composite
def others(draw: st.DrawFn) -> Party:
    kind = draw(st.integers(0, 9))
    x, y, z = draw(st.lists(term, min_size=3, max_size=3))
    name = draw(var)
    match kind:
        case 0:
            return negated(draw(relations(2)), (x, y))
        case 1:
            return party(
                ComparisonConstraint(x, draw(st.sampled_from(["<", "<=", ">", ">=", "~=", "="])), y)
            )
        case 2:
            return party(Equal(name, y))
        case 3:
            return party(Plus(x, y, z))
        case 4:
            return party(Times(x, y, z))
        case 5:
            return party(OneOf(name, draw(st.lists(word))))
        case 6:
            return party(Between(name, draw(word), draw(word)))
        case 7:
            return party(Predicate([name], lambda words: words % 2 == 0))
        case _:
            inside = draw(st.lists(st.lists(atoms(), min_size=1, max_size=2), max_size=2))
            return Either([_hidden(each) if draw(st.booleans()) else each for each in inside])


def _hidden(constraints: list[Party]) -> list[Party]:
    """A conjunction with one variable of its own, if it has several."""
    names = sorted(frozenset[str]().union(*(c.variables for c in constraints)))
    return [Exists(constraints, frozenset(names[:1]))] if len(names) > 1 else constraints


@st.composite
def bodies(draw: st.DrawFn) -> list[Party]:
    positive = draw(st.lists(atoms(), min_size=1, max_size=4))
    rest = draw(st.lists(others(), max_size=3))
    # A set or range for every variable that has no atom, so that the body is safe.
    covered = frozenset[str]().union(*(a.variables for a in positive))
    loose = sorted(frozenset[str]().union(*(c.variables for c in rest)) - covered)
    return [*positive, *rest, *(party(Between(name, WORDS[0], WORDS[-1])) for name in loose)]


def found(
    body: list[Party],
    wanted: list[str],
    seed: dict[str, list[int]] | None = None,
    **how: object,
) -> list[tuple[int, ...]]:
    return [row for batch in words.found(body, wanted, seed, **how) for row in batch]


@settings(max_examples=150)
@given(bodies(), st.sampled_from(sorted(GRADES)), widths)
def test_like_brute_force(body: list[Party], grade: str, width: tuple[int, int]) -> None:
    wanted = sorted(frozenset[str]().union(*(c.variables for c in body)))
    note(str(body))
    rows = found(body, wanted, grade=grade, first=width[0], width=width[1])
    assert len(rows) == len(set(rows)), "a binding came twice"
    assert set(rows) == brute_force(body, wanted, WORDS)


@settings(max_examples=60)
@given(bodies(), st.sampled_from(sorted(GRADES)), st.data())
def test_projected_and_seeded(body: list[Party], grade: str, data: st.DataObject) -> None:
    names = sorted(frozenset[str]().union(*(c.variables for c in body)))
    seeded = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    rows = data.draw(st.lists(st.tuples(*[word] * len(seeded)), max_size=5)) if seeded else []
    wanted = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    seed = {name: [row[i] for row in rows] for i, name in enumerate(seeded)}
    expected = {
        row[: len(wanted)]
        for row in brute_force(body, [*wanted, *seeded], WORDS)
        if not seeded or row[len(wanted) :] in rows
    }
    assert set(found(body, wanted, seed or None, grade=grade, width=4)) == expected


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
    with pytest.raises(CaladanError, match=r"C013.*nothing in the body gives values to `x`"):
        found([ComparisonConstraint("x", "<", 3)], ["x"])
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
            [OneOf("n", [6, 7]), Divides(), ComparisonConstraint("d", ">", 1)],
            ["n", "d"],
            grade=grade,
        )
        assert sorted(rows) == [(6, 2), (6, 3), (6, 6), (7, 7)]
