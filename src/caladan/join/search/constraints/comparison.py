"""Comparisons of words: `=` proposes one side from the other, the rest only confirm.

Words of one domain compare as their values do, so no decoding is needed here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import numpy as np

from caladan.join.search.constraint import completes, others
from caladan.join.search.constraints.terms import ConfirmOnly, Term, column, one_each, variables_of
from caladan.join.search.frontier import Candidates, Counts, Frontier, Mask, Var, Words

Operator: TypeAlias = Literal["=", "~=", "<", "<=", ">", ">="]

COMPARE: Final[dict[Operator, Callable[[Words, Words], Mask]]] = {
    "=": np.equal,
    "~=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


class Compared(ConfirmOnly):
    """`left operator right`, confirmed once both sides are bound."""

    def __init__(self, left: Term, operator: Operator, right: Term) -> None:
        self.left, self.right = left, right
        self.operator: Operator = operator
        self.variables = variables_of(left, right)

    def __repr__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"

    def confirm(self, candidates: Candidates) -> None:
        """Kill the candidates for which it does not hold."""
        if completes(self.variables, candidates):
            sides = column(candidates, self.left), column(candidates, self.right)
            candidates.keep(COMPARE[self.operator](*sides))


class Equal:
    """`left = right`: one side, once the other is bound."""

    def __init__(self, left: Term, right: Term) -> None:
        self.left, self.right = left, right
        self.variables = variables_of(left, right)

    def __repr__(self) -> str:
        return f"{self.left} = {self.right}"

    def estimate(self, frontier: Frontier, var: Var) -> Counts | None:
        """One, if the other side has a value."""
        return np.ones(len(frontier), np.int64) if self._other(frontier, var) is not None else None

    def propose(self, frontier: Frontier, var: Var) -> Candidates:
        """The value of the other side."""
        other = self._other(frontier, var)
        assert other is not None
        return one_each(frontier, var, column(frontier, other), None)

    def confirm(self, candidates: Candidates) -> None:
        """Kill the candidates that differ."""
        if completes(self.variables, candidates):
            candidates.keep(column(candidates, self.left) == column(candidates, self.right))

    def influence(self, var: Var) -> frozenset[Var]:
        """The other side."""
        return others(self.variables, var)

    def _other(self, frontier: Frontier, var: Var) -> Term | None:
        other = self.right if var == self.left else self.left
        known = other != var and (not isinstance(other, str) or other in frontier.columns)
        return other if known else None
