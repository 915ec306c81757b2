"""Every kind of constraint keeps the promises of the protocol, and means what it says."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from caladan.join.search.constraint import Lists
from caladan.join.search.constraints import (
    Between,
    Compared,
    Computed,
    Either,
    Equal,
    Exists,
    Negated,
    OneOf,
    Plus,
    Predicate,
    Stored,
    Times,
)
from caladan.join.search.constraints.comparison import COMPARE
from caladan.join.search.constraints.relation import atom
from caladan.join.search.frontier import Candidates, Frontier
from caladan.join.search.relation import SearchRelation, TrieRun
from caladan.join.search.solve import solve
from caladan.join.search.testing import check_constraint
from caladan.program.diagnostics import CaladanError

WORDS = range(-2, 4)
word = st.integers(-2, 3)


def runs(arity: int) -> st.SearchStrategy[list[list[tuple[int, ...]]]]:
    fact = st.tuples(*[word] * arity)
    return st.lists(st.lists(fact, max_size=12), min_size=1, max_size=3)


def relation(facts: list[list[tuple[int, ...]]], arity: int) -> SearchRelation:
    return SearchRelation(
        arity, [TrieRun(np.array(run, np.int64).reshape(-1, arity).T, len(run)) for run in facts]
    )


@given(runs(2))
def test_stored_pairs(facts: list[list[tuple[int, ...]]]) -> None:
    known = {fact for run in facts for fact in run}
    check_constraint(
        Stored(relation(facts, 2), ("x", "y")), WORDS, lambda b: (b["x"], b["y"]) in known
    )


@given(runs(3))
def test_stored_triples_with_words_and_gaps(facts: list[list[tuple[int, ...]]]) -> None:
    known = {fact for run in facts for fact in run}
    stored = relation(facts, 3)
    check_constraint(
        Stored(stored, ("x", "y", "z")), WORDS, lambda b: (b["x"], b["y"], b["z"]) in known
    )
    check_constraint(Stored(stored, ("x", 1, "z")), WORDS, lambda b: (b["x"], 1, b["z"]) in known)
    check_constraint(
        Stored(stored, (None, "y", "z")),
        WORDS,
        lambda b: any((x, b["y"], b["z"]) in known for x in WORDS),
    )
    check_constraint(Stored(stored, (None, 1, None)), WORDS)


@given(runs(3))
def test_variable_in_several_columns(facts: list[list[tuple[int, ...]]]) -> None:
    known = {fact for run in facts for fact in run}
    check_constraint(
        atom(relation(facts, 3), ("x", "y", "x")),
        WORDS,
        lambda b: (b["x"], b["y"], b["x"]) in known,
    )


@given(runs(2))
def test_negated(facts: list[list[tuple[int, ...]]]) -> None:
    known = {fact for run in facts for fact in run}
    stored = relation(facts, 2)
    check_constraint(Negated(stored, ("x", "y")), WORDS, lambda b: (b["x"], b["y"]) not in known)
    check_constraint(Negated(stored, ("x", "x")), WORDS, lambda b: (b["x"], b["x"]) not in known)
    check_constraint(
        Negated(stored, ("x", None)), WORDS, lambda b: all(b["x"] != fact[0] for fact in known)
    )


@pytest.mark.parametrize("operator", COMPARE)
def test_compared(operator: str) -> None:
    compare = COMPARE[operator]
    check_constraint(Compared("x", operator, "y"), WORDS, lambda b: bool(compare(b["x"], b["y"])))
    check_constraint(Compared("x", operator, 1), WORDS, lambda b: bool(compare(b["x"], 1)))


def test_equal() -> None:
    check_constraint(Equal("x", "y"), WORDS, lambda b: b["x"] == b["y"])
    check_constraint(Equal("x", 2), WORDS, lambda b: b["x"] == 2)
    check_constraint(Equal(2, "x"), WORDS, lambda b: b["x"] == 2)


def test_arithmetic() -> None:
    check_constraint(Plus("x", "y", "z"), WORDS, lambda b: b["x"] + b["y"] == b["z"])
    check_constraint(Plus("x", 1, "z"), WORDS, lambda b: b["x"] + 1 == b["z"])
    check_constraint(Plus("x", "x", "z"), WORDS, lambda b: 2 * b["x"] == b["z"])
    check_constraint(Plus("x", "y", "x"), WORDS, lambda b: b["y"] == 0)
    check_constraint(Times("x", "y", "z"), WORDS, lambda b: b["x"] * b["y"] == b["z"])
    check_constraint(
        Computed("z", ("x",), lambda x: (x // 2, x % 2 == 0)),
        WORDS,
        lambda b: b["x"] == 2 * b["z"],
    )


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_sums_and_products_that_do_not_fit_are_nobodys_value(x: int, y: int) -> None:
    frontier = Frontier.of({"x": [x], "y": [y]})
    for constraint, exact in ((Plus("x", "y", "z"), x + y), (Times("x", "y", "z"), x * y)):
        fits = -(2**63) <= exact < 2**63
        assert constraint.propose(frontier, "z").values.tolist() == ([exact] if fits else [])


def test_overflow_of_what_an_equation_defines() -> None:
    frontier = Frontier.of({"x": [2**62], "y": [2**62]})
    with pytest.raises(CaladanError, match="C041"):
        Plus("x", "y", "z", defines=frozenset("z")).propose(frontier, "z")


def test_between() -> None:
    check_constraint(Between("x", -1, 2), WORDS, lambda b: -1 <= b["x"] <= 2)
    check_constraint(Between("x", 2, -1), WORDS, lambda b: False)
    check_constraint(Between("x", "low", "high"), WORDS, lambda b: b["low"] <= b["x"] <= b["high"])
    check_constraint(Between("x", 0, 1, proposes=False), WORDS, lambda b: 0 <= b["x"] <= 1)


def test_between_everything() -> None:
    everything = Between("x", -(2**63), 2**63 - 1)
    assert everything.estimate(Frontier.start(), "x").tolist() == [2**63 - 1]
    part = everything.propose_part(Frontier.start(), "x", 5, 3)
    assert part.values.tolist() == [-(2**63) + 5, -(2**63) + 6, -(2**63) + 7]


@given(st.sets(word))
def test_one_of(words: set[int]) -> None:
    check_constraint(OneOf("x", sorted(words)), WORDS, lambda b: b["x"] in words)


def test_predicate_sees_the_living_only() -> None:
    seen: list[int] = []

    def odd(x: np.ndarray) -> np.ndarray:
        seen.extend(x.tolist())
        return x % 2 == 1

    candidates = Candidates.of(Frontier.start(), "x", [1, 2, 3, 4], [0, 0, 0, 0])
    candidates.alive[0] = False
    Predicate(["x"], odd).confirm(candidates)
    assert candidates.alive.tolist() == [False, False, True, False]
    assert seen == [2, 3, 4]
    check_constraint(Predicate(["x", "y"], np.greater), WORDS, lambda b: b["x"] > b["y"])


@given(runs(2), runs(2))
def test_either(left: list[list[tuple[int, ...]]], right: list[list[tuple[int, ...]]]) -> None:
    a, b = relation(left, 2), relation(right, 2)
    in_a = {fact for run in left for fact in run}
    in_b = {fact for run in right for fact in run}
    check_constraint(
        Either([[Stored(a, ("x", "y"))], [Stored(b, ("y", "x")), Compared("x", "<", 2)]]),
        WORDS,
        lambda r: (r["x"], r["y"]) in in_a or ((r["y"], r["x"]) in in_b and r["x"] < 2),
    )
    # The alternative that let x in need not be the one that lets y in.
    check_constraint(
        Either(
            [[OneOf("x", [0, 1]), OneOf("y", [2])], [OneOf("x", [1, 2]), Stored(b, (None, "y"))]]
        ),
        WORDS,
        lambda r: (
            (r["x"] in (0, 1) and r["y"] == 2)
            or (r["x"] in (1, 2) and any(fact[1] == r["y"] for fact in in_b))
        ),
    )


@given(runs(2), runs(2))
def test_exists(left: list[list[tuple[int, ...]]], right: list[list[tuple[int, ...]]]) -> None:
    a, b = relation(left, 2), relation(right, 2)
    in_a = {fact for run in left for fact in run}
    in_b = {fact for run in right for fact in run}
    inside = [Stored(a, ("x", "h")), Stored(b, ("h", "y")), Compared("x", "<=", "y")]
    check_constraint(
        Exists(inside, frozenset("h"), solve),
        WORDS,
        lambda r: (
            r["x"] <= r["y"] and any((r["x"], h) in in_a and (h, r["y"]) in in_b for h in WORDS)
        ),
    )


def test_either_of_truths() -> None:
    none = Stored(SearchRelation(1, [TrieRun([[]])]), (None,))
    some = Stored(SearchRelation.of([[7]]), (None,))
    check_constraint(Either([[none], [OneOf("x", [1])]]), WORDS, lambda b: b["x"] == 1)
    check_constraint(Either([[some], [OneOf("x", [1])]]), WORDS, lambda b: True)


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        ("revive", "revived"),
        ("more", "more candidates"),
        ("twice", "twice"),
        ("wrong", "confirm kills"),
        ("missing", "disagree"),
        ("influence", "does not have"),
    ],
)
def test_broken_constraints_are_found_out(broken: str, complaint: str) -> None:
    class Broken(OneOf):
        def estimate(self, frontier, var):
            return np.full(len(frontier), 1 if broken == "more" else 3)

        def propose(self, frontier, var):
            words = {"twice": [1, 1], "wrong": [1, 3], "missing": [1]}.get(broken, [1, 2])
            return Candidates.of(frontier, var, words, np.zeros(len(words), np.int64))

        def propose_part(self, frontier, var, skip, limit):
            return super().propose_part(frontier, var, skip, limit)

        def confirm(self, candidates):
            if broken == "revive":
                candidates.alive[:] = True
            super().confirm(candidates)
            if broken == "revive":
                candidates.alive[:] = np.isin(candidates.values, self.words)

        def influence(self, var):
            return frozenset({"other"}) if broken == "influence" else frozenset()

    with pytest.raises(AssertionError, match=complaint):
        check_constraint(Broken("x", [1, 2]), WORDS)


def test_lists_know_their_lengths() -> None:
    lists = Lists(np.arange(5), np.array([0, 3]), np.array([2, 3]))
    assert lists.counts.tolist() == [2, 0]
