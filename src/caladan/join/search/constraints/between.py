"""A range of words: proposes every word from low to high, both included."""

from __future__ import annotations

import numpy as np

from caladan.join.search.constraint import others
from caladan.join.search.constraints.terms import Term, column, variables_of
from caladan.join.search.frontier import Candidates, Counts, Frontier, Var

_MOST = np.iinfo(np.int64).max


class Between:
    """`low <= var <= high`; low and high are words or variables.

    With `proposes=False` it only confirms: for words, such as those of doubles, of which there are
    too many between any two.
    """

    def __init__(self, var: Var, low: Term, high: Term, *, proposes: bool = True) -> None:
        self.var, self.low, self.high = var, low, high
        self.proposes = proposes
        self.variables = variables_of(var, low, high)

    def __repr__(self) -> str:
        return f"{self.low} <= {self.var} <= {self.high}"

    def estimate(self, frontier: Frontier, var: Var) -> Counts | None:
        """How many words there are, if both ends are known."""
        if not self.proposes or var != self.var or not self._ends() <= frontier.bound:
            return None
        low, high = column(frontier, self.low), column(frontier, self.high)
        size = high - low + 1
        # high - low is too large for a word only if it wraps around to something below 1.
        return np.where(high < low, 0, np.where(size < 1, _MOST, size))

    def propose(self, frontier: Frontier, var: Var) -> Candidates:
        """Every word of every row's range."""
        sizes = self.estimate(frontier, var)
        assert sizes is not None
        parents = np.repeat(np.arange(len(frontier), dtype=np.int64), sizes)
        first = np.repeat(np.cumsum(sizes) - sizes, sizes)
        offsets = np.arange(len(parents), dtype=np.int64) - first
        return Candidates.of(frontier, var, column(frontier, self.low)[parents] + offsets, parents)

    def propose_part(self, frontier: Frontier, var: Var, skip: int, limit: int) -> Candidates:
        """A stretch of one range."""
        low = int(column(frontier, self.low)[0])
        high = int(column(frontier, self.high)[0])
        take = max(min(limit, high - low + 1 - skip), 0)
        first = low + skip if take else 0
        words = first + np.arange(take, dtype=np.int64)
        return Candidates.of(frontier, var, words, np.zeros(take, np.int64))

    def confirm(self, candidates: Candidates) -> None:
        """Kill what is outside, as soon as an end is known."""
        if candidates.var not in self.variables or self.var not in candidates.bound:
            return
        words = candidates.column(self.var)
        for end, inside in ((self.low, np.greater_equal), (self.high, np.less_equal)):
            if variables_of(end) <= candidates.bound:
                candidates.keep(inside(words, column(candidates, end)))

    def influence(self, var: Var) -> frozenset[Var]:
        """The ends decide how many values there are."""
        return others(self.variables, var)

    def _ends(self) -> frozenset[Var]:
        return variables_of(self.low, self.high) - {self.var}
