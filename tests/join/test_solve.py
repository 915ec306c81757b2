"""The search finds what brute force finds: every grade, every width, random bodies."""

import itertools

import numpy as np
import pytest
from hypothesis import given, note, settings, strategies as st

from caladan.join.search.constraint import Constraint
from caladan.join.search.constraints import (
    Between,
    Compared,
    Either,
    Equal,
    Negated,
    OneOf,
    Plus,
    Predicate,
    Stored,
    Times,
)
from caladan.join.search.constraints.relation import atom
from caladan.join.search.frontier import Frontier
from caladan.join.search.grades import GRADES
from caladan.join.search.relation import SearchRelation, TrieRun
from caladan.join.search.solve import solve
from caladan.join.search.testing import brute_force
from caladan.join.statistics import Statistics
from caladan.program.diagnostics import CaladanError

WORDS = range(-1, 4)
VARIABLES = ("x", "y", "z", "w")

word = st.sampled_from(WORDS)
var = st.sampled_from(VARIABLES)
term = var | word
widths = st.sampled_from([(1, 1), (1, 3), (2, 64), (9, 9)])  # of the first batch, and the largest


def relation_of(runs: list[list[tuple[int, ...]]], arity: int) -> SearchRelation:
    return SearchRelation(
        arity, [TrieRun(np.array(run, np.int64).reshape(-1, arity).T, len(run)) for run in runs]
    )


@st.composite
def relations(draw: st.DrawFn, arity: int) -> SearchRelation:
    fact = st.tuples(*[word] * arity)
    return relation_of(draw(st.lists(st.lists(fact, max_size=14), max_size=2)), arity)


@st.composite
def atoms(draw: st.DrawFn) -> Constraint:
    arity = draw(st.integers(1, 3))
    arguments = draw(st.lists(var | var | word | st.none(), min_size=arity, max_size=arity))
    return atom(draw(relations(arity)), arguments)


@st.composite
def others(draw: st.DrawFn) -> Constraint:
    kind = draw(st.integers(0, 8))
    x, y, z = draw(st.lists(term, min_size=3, max_size=3))
    name = draw(var)
    match kind:
        case 0:
            return Negated(draw(relations(2)), (x, y))
        case 1:
            return Compared(x, draw(st.sampled_from(["<", "<=", ">", ">=", "~=", "="])), y)
        case 2:
            return Equal(name, y)
        case 3:
            return Plus(x, y, z)
        case 4:
            return Times(x, y, z)
        case 5:
            return OneOf(name, draw(st.lists(word)))
        case 6:
            return Between(name, draw(word), draw(word))
        case 7:
            return Predicate([name], lambda words: words % 2 == 0)
        case _:
            return Either(draw(st.lists(st.lists(atoms(), min_size=1, max_size=2), max_size=2)))


@st.composite
def bodies(draw: st.DrawFn) -> list[Constraint]:
    positive = draw(st.lists(atoms(), min_size=1, max_size=4))
    rest = draw(st.lists(others(), max_size=3))
    # A set or range for every variable that has no atom, so that the body is safe.
    covered = frozenset[str]().union(*(a.variables for a in positive))
    loose = sorted(frozenset[str]().union(*(c.variables for c in rest)) - covered)
    return [*positive, *rest, *(Between(name, WORDS[0], WORDS[-1]) for name in loose)]


def found(
    body: list[Constraint],
    wanted: list[str],
    seed: dict[str, list[int]] | None = None,
    **how: object,
) -> list[tuple[int, ...]]:
    rows: list[tuple[int, ...]] = []
    for batch in solve(body, wanted, seed, **how):
        rows += batch.rows(wanted)
    return rows


@settings(max_examples=150)
@given(bodies(), st.sampled_from(sorted(GRADES)), widths)
def test_like_brute_force(body: list[Constraint], grade: str, width: tuple[int, int]) -> None:
    wanted = sorted(frozenset[str]().union(*(c.variables for c in body)))
    note(str(body))
    rows = found(body, wanted, grade=grade, first=width[0], width=width[1])
    assert len(rows) == len(set(rows)), "a binding came twice"
    assert set(rows) == brute_force(body, wanted, WORDS)


@settings(max_examples=60)
@given(bodies(), st.sampled_from(sorted(GRADES)), st.data())
def test_projected_and_seeded(body: list[Constraint], grade: str, data: st.DataObject) -> None:
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
def test_tags_lead_back_to_the_seed(grade: str) -> None:
    edges = SearchRelation.of([[1, 1, 2, 3], [2, 3, 3, 1]])
    seed = Frontier.of({"x": [3, 9, 1, 1]})
    pairs: list[tuple[int, int]] = []
    for batch in solve([Stored(edges, ("x", "y"))], ["y"], seed, grade=grade):
        pairs += zip(batch.tags.tolist(), batch.columns["y"].tolist(), strict=True)
    assert sorted(pairs) == [(0, 1), (2, 2), (2, 3), (3, 2), (3, 3)]


@pytest.mark.parametrize("grade", GRADES)
def test_batches_are_bounded_and_lazy(grade: str) -> None:
    """A product of 10^18 bindings hands out its first at once, and never holds many."""
    many = SearchRelation.of([np.arange(1_000_000)])
    statistics = Statistics()
    body = [Stored(many, (v,)) for v in "abc"]
    results = solve(body, "abc", grade=grade, statistics=statistics, width=512)
    sizes = [len(batch) for batch in itertools.islice(results, 200)]
    assert sizes[0] == 1
    assert max(sizes) <= 512
    assert statistics.widest <= 512


def test_unsafe_variables_are_named() -> None:
    with pytest.raises(CaladanError, match=r"C013.*nothing in the body gives values to `x`"):
        found([Compared("x", "<", 3)], ["x"])
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
            from caladan.join.search.frontier import Candidates

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
            [OneOf("n", [6, 7]), Divides(), Compared("d", ">", 1)], ["n", "d"], grade=grade
        )
        assert sorted(rows) == [(6, 2), (6, 3), (6, 6), (7, 7)]
