"""Alternatives, each a conjunction of constraints; one of them must hold.

It proposes the union of what its alternatives propose, where each can. It keeps no note of which
alternative let a value in, so confirming looks at the whole of each alternative as far as its
variables are bound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from caladan.join.search.constraint import Constraint, allowed, others
from caladan.join.search.frontier import Candidates, Counts, Frontier, Mask, Var, Words


class Either:
    """One of several conjunctions holds."""

    def __init__(self, alternatives: Sequence[Sequence[Constraint]]) -> None:
        self.alternatives = tuple(tuple(each) for each in alternatives)
        self.variables = frozenset(
            v for each in self.alternatives for constraint in each for v in constraint.variables
        )

    def __repr__(self) -> str:
        return "(" + " ; ".join(", ".join(map(str, each)) for each in self.alternatives) + ")"

    def estimate(self, frontier: Frontier, var: Var) -> Counts | None:
        """The sum over the alternatives, if each of them has candidates."""
        total = np.zeros(len(frontier), np.int64)
        for each in self.alternatives:
            found = _least(each, frontier, var)
            if found is None:
                return None
            total = _saturating(total, found[0])
        return total

    def propose(self, frontier: Frontier, var: Var) -> Candidates:
        """What any alternative proposes and does not rule out itself; each value once a row."""
        parents: list[Words] = []
        values: list[Words] = []
        for each in self.alternatives:
            found = _least(each, frontier, var)
            assert found is not None
            for number, constraint in enumerate(each):
                rows = np.flatnonzero(found[1] == number)
                if not len(rows):
                    continue
                proposed = constraint.propose(frontier.take(rows), var)
                grown = Candidates.of(frontier, var, proposed.values, rows[proposed.parents])
                _confirm_all(each, grown)
                living = grown.living()
                parents.append(living.parents)
                values.append(living.values)
        if not parents:
            return Candidates.of(frontier, var, np.empty(0, np.int64), np.empty(0, np.int64))
        parent, value = np.concatenate(parents), np.concatenate(values)
        order = np.lexsort((value, parent))
        parent, value = parent[order], value[order]
        new = np.ones(len(parent), np.bool_)
        new[1:] = (parent[1:] != parent[:-1]) | (value[1:] != value[:-1])
        return Candidates.of(frontier, var, value[new], parent[new])

    def confirm(self, candidates: Candidates) -> None:
        """Kill what every alternative rules out."""
        if self.variables and candidates.var not in self.variables:
            return
        possible: Mask = np.zeros(len(candidates), np.bool_)
        for each in self.alternatives:
            trial = candidates.copy()
            _confirm_all(each, trial)
            possible |= trial.alive
        candidates.keep(possible)

    def influence(self, var: Var) -> frozenset[Var]:
        """All variables of all alternatives: a value may rule an alternative out."""
        return others(self.variables, var)


def _confirm_all(constraints: Sequence[Constraint], candidates: Candidates) -> None:
    """Confirm by those that have the variable, and look again at those that do not."""
    for constraint in constraints:
        if candidates.var in constraint.variables:
            constraint.confirm(candidates)
        else:
            candidates.keep(allowed(constraint, candidates.frontier)[candidates.parents])


def _least(
    constraints: Sequence[Constraint], frontier: Frontier, var: Var
) -> tuple[Counts, Words] | None:
    """The least estimate of a conjunction for each row, and whose it is."""
    best: Counts | None = None
    which = np.zeros(len(frontier), np.int64)
    for number, constraint in enumerate(constraints):
        counts = constraint.estimate(frontier, var) if var in constraint.variables else None
        if counts is None:
            continue
        if best is None:
            best, which[:] = counts.copy(), number
        else:
            less = counts < best
            best[less] = counts[less]
            which[less] = number
    return None if best is None else (best, which)


def _saturating(left: Counts, right: Counts) -> Counts:
    most = np.iinfo(np.int64).max
    return np.where(left > most - right, most, left + right)
