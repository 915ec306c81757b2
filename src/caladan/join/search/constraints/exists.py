"""A conjunction with variables of its own: it holds if there are values for them.

Inside it is a search of its own, seeded with what is bound outside. The search is handed in, for
constraints know nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from caladan.join.search.constraint import Constraint, others
from caladan.join.search.frontier import Candidates, Counts, Frontier, Var

Solve: TypeAlias = Callable[[Sequence[Constraint], Sequence[Var], Frontier], Iterator[Frontier]]


class Exists:
    """The constraints hold for some values of the hidden variables."""

    def __init__(
        self, constraints: Sequence[Constraint], hidden: frozenset[Var], solve: Solve
    ) -> None:
        self.constraints = tuple(constraints)
        self.hidden = hidden
        self._solve = solve
        self._inner = frozenset[Var]().union(*(c.variables for c in constraints))
        self.variables = self._inner - hidden

    def __repr__(self) -> str:
        return f"some {', '.join(sorted(self.hidden))}: {', '.join(map(str, self.constraints))}"

    def estimate(self, frontier: Frontier, var: Var) -> Counts | None:
        """The least estimate inside."""
        inside = [c.estimate(frontier, var) for c in self._ready(frontier.bound | {var})
                  if var in c.variables]  # fmt: skip
        known = [counts for counts in inside if counts is not None]
        return np.minimum.reduce(known) if known else None

    def propose(self, frontier: Frontier, var: Var) -> Candidates:
        """The values of full answers inside, each once a row."""
        seed = self._seed(frontier)
        pairs: set[tuple[int, int]] = set()
        for found in self._solve(self._ready(frontier.bound | {var}), [var], seed):
            pairs.update(zip(found.tags.tolist(), found.columns[var].tolist(), strict=True))
        rows = sorted(pairs)
        proposed = Candidates.of(frontier, var, [v for _, v in rows], [row for row, _ in rows])
        self._confirm_each(proposed)
        return proposed.living()

    def confirm(self, candidates: Candidates) -> None:
        """Before all is bound each constraint inside has its say; then all of them together."""
        if self.variables and candidates.var not in self.variables:
            return
        self._confirm_each(candidates)
        if self.variables <= candidates.bound:
            rows = np.flatnonzero(candidates.alive)
            columns = {v: candidates.column(v)[rows] for v in self.variables}
            holds = np.zeros(len(candidates), np.bool_)
            for found in self._solve(self.constraints, (), Frontier(columns, rows)):
                holds[found.tags] = True
            candidates.keep(holds)

    def influence(self, var: Var) -> frozenset[Var]:
        """All it shows."""
        return others(self.variables, var)

    def _confirm_each(self, candidates: Candidates) -> None:
        for constraint in self.constraints:
            if candidates.var in constraint.variables:
                constraint.confirm(candidates)

    def _ready(self, bound: frozenset[Var]) -> list[Constraint]:
        """The constraints that need nothing else from outside."""
        return [c for c in self.constraints if c.variables <= bound | self.hidden]

    def _seed(self, frontier: Frontier) -> Frontier:
        columns = {v: c for v, c in frontier.columns.items() if v in self._inner}
        return Frontier(columns, np.arange(len(frontier), dtype=np.int64))
