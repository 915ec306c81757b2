"""A negated atom: confirms only, once all its variables are bound."""

from __future__ import annotations

from collections.abc import Sequence

from caladan.join.search.constraint import completes
from caladan.join.search.constraints.relation import atom
from caladan.join.search.constraints.terms import ConfirmOnly, Term
from caladan.join.search.frontier import Candidates
from caladan.join.search.relation import SearchRelation


class Negated(ConfirmOnly):
    """No fact of the relation agrees. None stands for a column that may have any value."""

    def __init__(self, relation: SearchRelation, arguments: Sequence[Term | None]) -> None:
        self._atom = atom(relation, arguments)
        self.variables = self._atom.variables

    def __repr__(self) -> str:
        return f"~{self._atom}"

    def confirm(self, candidates: Candidates) -> None:
        """Kill the candidates that make it a fact."""
        if completes(self.variables, candidates):
            candidates.keep(~self._atom.holds(candidates))
