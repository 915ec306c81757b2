"""Terms: a variable or a word, and their columns; what the small constraints have in common."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from caladan.join.search.frontier import Candidates, Frontier, Mask, Var, Words

Term: TypeAlias = Var | int


def variables_of(*terms: Term) -> frozenset[Var]:
    """The variables among some terms."""
    return frozenset(term for term in terms if isinstance(term, str))


def column(batch: Frontier | Candidates, term: Term) -> Words:
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


def one_each(frontier: Frontier, var: Var, words: Words, defined: Mask | None) -> Candidates:
    """At most one candidate a row: its word, where it is defined."""
    rows = np.arange(len(frontier), dtype=np.int64)
    if defined is not None:
        rows = rows[defined]
        words = words[defined]
    return Candidates.of(frontier, var, words, rows)
