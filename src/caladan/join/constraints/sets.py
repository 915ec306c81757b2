"""Constraints over values, as users write them: they estimate, propose and confirm (protocol.py).

| kind | proposes | confirms |
|---|---|---|
| `Between` | every word from low to high | by comparing |
| `OneOf` | its members | by binary search |
| `Predicate` | — | by a Python function |

Words are ranks here: integers are themselves, and words of one domain compare as their values do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from caladan.columns.ranks import MOST
from caladan.join.constraints.protocol import (
    Candidates,
    Codes,
    Counts,
    Frontier,
    Mask,
    Var,
    as_words,
    completes,
    others,
)

SetTerm: TypeAlias = Var | int


def variables_of(*terms: SetTerm) -> frozenset[Var]:
    """The variables among some terms."""
    return frozenset(term for term in terms if isinstance(term, str))


def column(batch: Frontier | Candidates, term: SetTerm) -> Codes:
    """The words of a term for each row or candidate of a batch."""
    if not isinstance(term, str):
        return np.full(len(batch), term, np.int64)
    return batch.column(term) if isinstance(batch, Candidates) else batch.columns[term]


class ConfirmOnly:
    """The half of a constraint that cannot propose."""

    def estimate(self, frontier: Frontier, var: Var) -> None:
        """It has no candidates to offer."""
        del frontier, var

    def propose(self, frontier: Frontier, var: Var) -> Candidates:
        """Never asked, for there is no estimate."""
        raise NotImplementedError(f"{type(self).__name__} has no candidates for {var}")

    def influence(self, var: Var) -> frozenset[Var]:
        """No estimates, so none that change."""
        del var
        return frozenset()


class Between:
    """`low <= var <= high`; low and high are words or variables.

    With `proposes=False` it only confirms: for words, such as those of doubles, of which there are
    too many between any two.
    """

    def __init__(self, var: Var, low: SetTerm, high: SetTerm, *, proposes: bool = True) -> None:
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
        return np.where(high < low, 0, np.where(size < 1, MOST, size))

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


class OneOf:
    """`var` is one of the given words."""

    def __init__(self, var: Var, words: ArrayLike) -> None:
        self.var = var
        self.words: Codes = np.unique(as_words(words))
        self.variables = frozenset((var,))

    def __repr__(self) -> str:
        return f"{self.var} in {len(self.words)} words"

    def estimate(self, frontier: Frontier, var: Var) -> Counts:
        """The size of the set."""
        del var
        return np.full(len(frontier), len(self.words), np.int64)

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
        candidates.keep(np.isin(candidates.values, self.words))

    def influence(self, var: Var) -> frozenset[Var]:
        """There are no other variables."""
        del var
        return frozenset()


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
