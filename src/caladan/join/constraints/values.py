"""Constraints over values in a search: they are handed values, and what they propose gets words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from caladan.columns.domains import Domain, known_words
from caladan.columns.layout import Counts
from caladan.join.constraints.protocol import Candidates, Constraint, Frontier, Partial
from caladan.join.frontier import Bindings
from caladan.program import thresholds


class ValueConstraint:
    """A constraint over values, by the domains of its variables.

    `names` are its own names for variables that are called otherwise here.
    """

    def __init__(
        self,
        constraint: Constraint,
        domains: Mapping[str, Domain],
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.constraint = constraint
        self._domains = domains
        self._names = names or {name: name for name in constraint.variables}
        self.variables = frozenset(self._names)

    def __str__(self) -> str:
        return str(self.constraint)

    def estimate(self, frontier: Bindings, var: str) -> Counts | None:
        """What the constraint says."""
        return self.constraint.estimate(self._values(frontier), self._names[var])

    def propose(self, frontier: Bindings, var: str, counts: Counts) -> Iterator[Bindings]:
        """What the constraint proposes, about as much at a time as there is room for."""
        values = self._values(frontier)
        ends = np.cumsum(np.minimum(counts, 1 << 40))
        at = 0
        while at < frontier.rows:
            before = int(ends[at - 1]) if at else 0
            room = thresholds.now.room
            end = max(int(np.searchsorted(ends, before + room, side="right")), at + 1)
            rows = np.arange(at, end)
            for made in self._proposed(values.take(rows), self._names[var], int(counts[at])):
                words, known = known_words(self._domains[var], made.values)
                longer = frontier.at(rows[made.parents].astype(np.uint32), frontier.columns)
                yield Bindings(len(made), {**longer, var: words}).where(known)
            at = end

    def _proposed(self, values: Frontier, var: str, first: int) -> Iterator[Candidates]:
        limit = thresholds.now.room
        if len(values) > 1 or first <= limit or not isinstance(self.constraint, Partial):
            yield self.constraint.propose(values, var)
            return
        skip, is_full = 0, True
        while is_full:
            part = self.constraint.propose_part(values, var, skip, limit)
            is_full = len(part) == limit
            skip += limit
            yield part

    def confirm(self, frontier: Bindings, var: str) -> Bindings:
        """What the constraint lets live."""
        values = self._values(frontier)
        if var in self.variables:
            candidates = Candidates.held(values, self._names[var])
        else:
            nothing = np.zeros(len(values), np.int64)
            candidates = Candidates.of(values, "", nothing, values.tags)
        self.constraint.confirm(candidates)
        return frontier.where(candidates.alive)

    def influence(self, var: str) -> frozenset[str]:
        """What the constraint says."""
        changed = self.constraint.influence(self._names[var])
        return frozenset(here for here, there in self._names.items() if there in changed)

    def _values(self, frontier: Bindings) -> Frontier:
        """The values of its variables that are bound."""
        columns = {
            there: self._domains[here].ranks(frontier.columns[here])
            for here, there in self._names.items()
            if here in frontier.columns
        }
        return Frontier(columns, np.arange(frontier.rows, dtype=np.int64))
