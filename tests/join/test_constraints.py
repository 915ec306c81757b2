"""Every kind of constraint keeps the promises of the protocol, and means what it says."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from caladan.join.constraints.protocol import Candidates, Frontier
from caladan.join.constraints.sets import (
    Between,
    OneOf,
    Predicate,
)
from caladan.join.search.testing import check_constraint

WORDS = range(-2, 4)
word = st.integers(-2, 3)


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
