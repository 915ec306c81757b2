"""Checks for constraints: whether one keeps the promises of the protocol.

`check_constraint` is for tests of constraints of your own. It binds the variables in every order
for all combinations of a few words, asks the constraint at every step, and compares what it says
with what the protocol promises and, if you give it, with a plain Python definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import permutations

import numpy as np

from caladan.join.constraints.protocol import (
    Candidates,
    Constraint,
    Frontier,
    Partial,
    Var,
    find_allowed,
)


def check_constraint(
    constraint: Constraint,
    words: Iterable[int],
    holds: Callable[[Mapping[Var, int]], bool] | None = None,
) -> None:
    """Raise AssertionError if the constraint breaks a promise.

    `words` are the values to try; those that the constraint proposes should be among them, or the
    comparison with `holds` is of no use. `holds` says whether a full binding is allowed.

    >>> from caladan.join.constraints.sets import Between
    >>> check_constraint(Between("x", "a", 2), range(-2, 4), lambda b: b["a"] <= b["x"] <= 2)
    """
    universe = np.array(sorted(set(words)), np.int64)
    for order in permutations(sorted(constraint.variables)):
        frontier = Frontier.start()
        for var in order:
            full = _all(frontier, var, universe)
            confirmed = full.copy()
            constraint.confirm(confirmed)
            _check_deaths(constraint, full)
            _check_proposals(constraint, frontier, var, confirmed, universe)
            frontier = full.bind(full.bound)
        if holds is not None:
            _check_meaning(constraint, frontier, holds)
    for var in constraint.variables:
        assert constraint.influence(var) <= constraint.variables - {var}, (
            f"influence({var}) names variables it does not have"
        )
    _check_influence(constraint, universe)


def _all(frontier: Frontier, var: Var, universe: np.ndarray) -> Candidates:
    parents = np.repeat(np.arange(len(frontier), dtype=np.int64), len(universe))
    return Candidates.of(frontier, var, np.tile(universe, len(frontier)), parents)


def _check_deaths(constraint: Constraint, full: Candidates) -> None:
    """Confirm never revives, and says the same of a candidate whatever its neighbours."""
    alone = full.copy()
    constraint.confirm(alone)
    half = full.copy()
    half.alive[::2] = False
    constraint.confirm(half)
    assert not half.alive[::2].any(), "confirm revived a dead candidate"
    assert (half.alive[1::2] == alone.alive[1::2]).all(), "confirm depends on the neighbours"
    assert len(half) == len(full), "confirm changed the number of candidates"


def _check_proposals(
    constraint: Constraint,
    frontier: Frontier,
    var: Var,
    confirmed: Candidates,
    universe: np.ndarray,
) -> None:
    """Proposals: no more than estimated, each once, complete, and none that confirm would kill."""
    counts = constraint.estimate(frontier, var)
    if counts is None:
        return
    assert len(counts) == len(frontier), "estimate must have one count a row"
    proposed = constraint.propose(frontier, var)
    made = np.bincount(proposed.parents, minlength=len(frontier))
    assert (made <= counts).all(), f"propose gave more candidates for {var} than estimated"
    pairs = list(zip(proposed.parents.tolist(), proposed.values.tolist(), strict=True))
    assert len(pairs) == len(set(pairs)), f"propose gave a value of {var} twice"
    again = proposed.copy()
    constraint.confirm(again)
    assert again.alive.all(), f"propose gave a value of {var} that confirm kills"
    expected = {
        (int(p), int(v))
        for p, v, alive in zip(confirmed.parents, confirmed.values, confirmed.alive, strict=True)
        if alive
    }
    inside = {pair for pair in pairs if pair[1] in set(universe.tolist())}
    # Candidates that only confirm lets live may be doubtful ones, unless nothing is left to bind.
    if constraint.variables <= confirmed.bound:
        assert inside == expected, f"propose and confirm disagree about {var}"
    if isinstance(constraint, Partial):
        _check_parts(constraint, frontier, var, pairs)


def _check_parts(
    constraint: Partial, frontier: Frontier, var: Var, pairs: list[tuple[int, int]]
) -> None:
    """Parts put together are the whole, and only the last may be short."""
    for row in range(min(len(frontier), 3)):
        one = frontier.take(np.array([row]))
        whole = sorted(value for parent, value in pairs if parent == row)
        found: list[int] = []
        while True:
            part = constraint.propose_part(one, var, len(found), 2)
            assert len(part) <= 2, "propose_part gave more than its limit"
            found += part.values.tolist()
            if len(part) < 2:
                break
        assert sorted(found) == whole, "the parts are not the whole"


def _check_meaning(
    constraint: Constraint, frontier: Frontier, holds: Callable[[Mapping[Var, int]], bool]
) -> None:
    names = sorted(frontier.columns)
    rows = zip(*(frontier.columns[v].tolist() for v in names), strict=True)
    expected = [holds(dict(zip(names, row, strict=True))) for row in rows]
    found = find_allowed(constraint, frontier).tolist()
    for row, (want, have) in enumerate(zip(expected, found, strict=True)):
        binding = {v: int(frontier.columns[v][row]) for v in names}
        assert want == have, f"{constraint} is {have} for {binding}, expected {want}"


def _check_influence(constraint: Constraint, universe: np.ndarray) -> None:
    """Binding a variable changes no estimate that its influence leaves out."""
    for first, second in permutations(sorted(constraint.variables), 2):
        if second in constraint.influence(first):
            continue
        before = constraint.estimate(Frontier.start(), second)
        frontier = Frontier.of({first: universe})
        after = constraint.estimate(frontier, second)
        assert (before is None) == (after is None), f"influence({first}) leaves out {second}"
        if before is not None and after is not None:
            assert (after == before[0]).all(), f"influence({first}) leaves out {second}"
