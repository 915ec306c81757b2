"""Cyclic bodies by the guided search (search/stored.py), where a run asks for a grade of it.

Without `search=` such bodies go through `Propose`, which measured faster (docs/decisions/0009).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from caladan.engines.embedded.frontier import Frontier
from caladan.search.statistics import Statistics
from caladan.search.stored import StoredAtom, solve_atoms


@dataclass(frozen=True, slots=True)
class Search:
    """All atoms that are left, at once; each row decides which variable is bound next."""

    atoms: tuple[StoredAtom, ...]
    bound: frozenset[str]
    grade: str
    statistics: Statistics

    @property
    def reads(self) -> frozenset[str]:
        """The variables that are bound already."""
        return self._variables & self.bound

    @property
    def binds(self) -> frozenset[str]:
        """The others."""
        return self._variables - self.bound

    @property
    def _variables(self) -> frozenset[str]:
        return frozenset(a for atom in self.atoms for a in atom.arguments if isinstance(a, str))

    def run(self, frontier: Frontier, keep: frozenset[str]) -> Iterator[Frontier]:
        """The longer solutions, with the variables to keep."""
        seed = {name: frontier.columns[name] for name in self.reads}
        wanted = sorted(self.binds)  # all, for every solution may count
        found = solve_atoms(
            self.atoms, wanted, seed, frontier.rows, grade=self.grade, statistics=self.statistics
        )
        old = [name for name in frontier.columns if name in keep]
        for rows, columns in found:
            longer = frontier.at(rows.astype(np.uint32), old)
            longer.update((name, words) for name, words in columns.items() if name in keep)
            yield Frontier(len(rows), longer)
