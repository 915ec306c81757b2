"""A test by a function: confirms only, once all its variables are bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from caladan.join.search.constraint import completes
from caladan.join.search.constraints.terms import ConfirmOnly
from caladan.join.search.frontier import Candidates, Mask, Var


class Predicate(ConfirmOnly):
    """`function` takes an array of words for each variable and says which rows pass.

    It sees living candidates only.
    """

    __test__ = False  # the name is no invitation to pytest

    def __init__(self, variables: Sequence[Var], function: Callable[..., Mask]) -> None:
        self.order = tuple(variables)
        self.variables = frozenset(variables)
        self.function = function

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"{name}({', '.join(self.order)})"

    def confirm(self, candidates: Candidates) -> None:
        """Kill the candidates that fail."""
        if not completes(self.variables, candidates):
            return
        alive = np.flatnonzero(candidates.alive)
        if not len(alive):
            return
        passed = np.zeros(len(candidates), np.bool_)
        passed[alive] = self.function(*(candidates.column(v)[alive] for v in self.order))
        candidates.keep(passed)
