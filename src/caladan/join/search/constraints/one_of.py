"""A set of words for one variable."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from caladan.columns.kernels import candidates as kernels
from caladan.join.search.constraint import Lists
from caladan.join.search.frontier import Candidates, Counts, Frontier, Var, Words, as_words


class OneOf:
    """`var` is one of the given words."""

    def __init__(self, var: Var, words: ArrayLike) -> None:
        self.var = var
        self.words: Words = np.unique(as_words(words))
        self.variables = frozenset((var,))

    def __repr__(self) -> str:
        return f"{self.var} in {len(self.words)} words"

    def estimate(self, frontier: Frontier, var: Var) -> Counts:
        """The size of the set."""
        del var
        return np.full(len(frontier), len(self.words), np.int64)

    def lists(self, frontier: Frontier, var: Var) -> Lists:
        """The same list for every row."""
        del var
        size = len(self.words)
        return Lists(self.words, np.zeros(len(frontier), np.int64), np.full(len(frontier), size))

    def propose(self, frontier: Frontier, var: Var) -> Candidates:
        """The members, for every row."""
        parents = np.repeat(np.arange(len(frontier), dtype=np.int64), len(self.words))
        return Candidates.of(frontier, var, np.tile(self.words, len(frontier)), parents)

    def propose_part(self, frontier: Frontier, var: Var, skip: int, limit: int) -> Candidates:
        """Some members."""
        words = self.words[skip : skip + limit]
        return Candidates.of(frontier, var, words, np.zeros(len(words), np.int64))

    def confirm(self, candidates: Candidates) -> None:
        """Kill what is no member."""
        if candidates.var != self.var:
            return
        nodes = np.empty(len(candidates), np.int64)
        kernels.locate_sorted(candidates.values, self.words, nodes)
        candidates.keep(nodes >= 0)

    def influence(self, var: Var) -> frozenset[Var]:
        """There are no other variables."""
        del var
        return frozenset()
