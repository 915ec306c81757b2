"""Meetings: all constraints that have a variable, where some others are bound.

SearchBody.meeting(var, bound)   atoms, each under what is bound, and whatever else has it
Meeting.weigh(frontier)          what each would propose, row by row: `Weights`
Meeting.run(frontier, …)         for each row whoever has the fewest proposes, the others confirm
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from caladan.columns.index import Matches
from caladan.columns.layout import Counts
from caladan.join.constraints.atom import StoredAtom
from caladan.join.constraints.lookup import LookupStep, projection
from caladan.join.constraints.proposal import ProposeStep
from caladan.join.constraints.protocol import JoinConstraint
from caladan.join.frontier import Bindings
from caladan.join.statistics import Statistics


@dataclass(frozen=True, slots=True)
class Weights:
    """What the constraints of a variable would propose, row by row; it decides who does."""

    matches: Sequence[Matches | None]
    atoms: Counts | None
    others: Mapping[int, Counts]

    @property
    def least(self) -> Counts | None:
        """The fewest; None if nobody can propose."""
        every = [*self.others.values(), *(() if self.atoms is None else (self.atoms,))]
        return np.minimum.reduce(every) if every else None


class Meeting:
    """All that have a variable, where some others are bound: atoms, each under what is bound."""

    def __init__(
        self,
        var: str,
        atoms: Sequence[tuple[str, LookupStep]],
        others: Sequence[JoinConstraint],
        statistics: Statistics,
    ) -> None:
        self.var = var
        self.others = others
        self.statistics = statistics
        self.step = ProposeStep(
            tuple(lookup for _, lookup in atoms), var, statistics, tuple(name for name, _ in atoms)
        )
        self._reads = frozenset[str]().union(*(each.variables for each in others))

    def weigh(self, frontier: Bindings) -> Weights:
        """What each would propose."""
        matches = self.step.matches(frontier)
        counted = ((i, each.estimate(frontier, self.var)) for i, each in enumerate(self.others))
        return Weights(
            matches,
            self.step.counts(matches, frontier.rows).min(axis=0) if matches else None,
            {i: counts for i, counts in counted if counts is not None},
        )

    def run(self, frontier: Bindings, weights: Weights, keep: frozenset[str]) -> Iterator[Bindings]:
        """The longer bindings, with the variables to keep."""
        needed = keep | self._reads | {self.var}
        if not weights.others:
            for longer in self.step.run(frontier, needed, weights.matches):
                yield projection(self._confirmed(longer, self.others), keep)
            return
        least = weights.least
        undecided = np.ones(frontier.rows, np.bool_)
        if weights.atoms is not None:
            undecided = weights.atoms != least
            for longer in self.step.run(frontier.where(~undecided), needed):
                yield projection(self._confirmed(longer, self.others), keep)
        for number, counts in weights.others.items():
            mine = undecided & (counts == least)
            undecided &= ~mine
            proposer = self.others[number]
            others = [each for i, each in enumerate(self.others) if i != number]
            for longer in proposer.propose(frontier.where(mine), self.var, counts[mine]):
                made = longer.rows
                self.statistics.proposals(self.var, (str(proposer),), (made,))
                longer = self.step.confirmed(longer)
                self.statistics.count(self.var, made, longer.rows)
                yield projection(self._confirmed(longer, others), keep)

    def _confirmed(self, longer: Bindings, others: Sequence[JoinConstraint]) -> Bindings:
        before = longer.rows
        for each in others:
            if longer.rows:
                longer = each.confirm(longer, self.var)
        if longer.rows < before:
            self.statistics.count(self.var, 0, longer.rows - before)
        return longer


class SearchBody:
    """Constraints with what the search looks up about them; fixed before the search starts."""

    def __init__(self, constraints: Sequence[JoinConstraint], order: Iterable[str]) -> None:
        self.constraints = tuple(constraints)
        self.atoms = tuple(c for c in constraints if isinstance(c, StoredAtom))
        self.others = tuple(c for c in constraints if not isinstance(c, StoredAtom))
        names = dict.fromkeys(order)
        names.update(dict.fromkeys(v for c in constraints for v in sorted(c.variables)))
        self.variables: tuple[str, ...] = tuple(names)
        self.influence: dict[str, frozenset[str]] = {
            v: frozenset[str]().union(*(c.influence(v) for c in constraints if v in c.variables))
            for v in self.variables
        }
        # How ties between equal estimates are broken: by influence, then by the order given.
        self.ranked: tuple[str, ...] = tuple(
            sorted(self.variables, key=lambda v: -len(self.influence[v]))
        )
        self._under: dict[tuple[str, frozenset[str]], list[tuple[str, LookupStep]]] = {}

    def meeting(
        self, var: str, bound: frozenset[str], statistics: Statistics | None = None
    ) -> Meeting:
        """Those that have a variable, where some are bound; one for trial counts for itself."""
        key = (var, bound & self.influence[var])
        if key not in self._under:
            having = [atom for atom in self.atoms if var in atom.variables]
            self._under[key] = [(str(atom), atom.under(bound, (var,))) for atom in having]
        others = [c for c in self.others if var in c.variables]
        return Meeting(var, self._under[key], others, statistics or Statistics())

    def replaced(self, constraints: Sequence[JoinConstraint]) -> SearchBody:
        """The body with others in the place of its constraints."""
        return SearchBody(constraints, self.variables)

    def open(self, unbound: frozenset[str]) -> list[JoinConstraint]:
        """The constraints that some unbound variables still matter to."""
        return [c for c in self.constraints if c.variables & unbound]

    @cached_property
    def names(self) -> dict[str, list[JoinConstraint]]:
        """The constraints of each variable."""
        return {v: [c for c in self.constraints if v in c.variables] for v in self.variables}


def forget_unused(
    constraints: Sequence[JoinConstraint], wanted: frozenset[str]
) -> list[JoinConstraint]:
    """Drop the variables that nobody wants and only one atom has: any value will do for them."""
    uses: dict[str, int] = {}
    for constraint in constraints:
        for var in constraint.variables:
            uses[var] = uses.get(var, 0) + 1
    unused = frozenset(v for v, count in uses.items() if count == 1 and v not in wanted)
    return [
        c.forget(unused) if isinstance(c, StoredAtom) and c.variables & unused else c
        for c in constraints
    ]


@dataclass(frozen=True, slots=True)
class ConsultStep:
    """A variable that atoms have, and a constraint of the user's, which may propose it."""

    meeting: Meeting

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        others = (each.variables for each in self.meeting.others)
        return self.meeting.step.reads.union(*others) - self.binds

    @property
    def binds(self) -> frozenset[str]:
        """The variable."""
        return frozenset((self.meeting.var,))

    def least(self, frontier: Bindings) -> Counts:
        """How many values the one with the fewest has, for each solution."""
        least = self.meeting.weigh(frontier).least
        assert least is not None  # there is an atom
        return least

    def run(self, frontier: Bindings, keep: frozenset[str]) -> Iterator[Bindings]:
        """The longer solutions, with the variables to keep."""
        yield from self.meeting.run(frontier, self.meeting.weigh(frontier), keep)
