"""A body as the search sees it: constraints, and which of them touch which variable.

Semijoins up and down the tree of an acyclic body (Yannakakis; join/hypergraph.py) leave in every
relation exactly the facts that take part in some result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from caladan.join.hypergraph import JoinTree
from caladan.join.search.constraint import Constraint
from caladan.join.search.constraints.relation import Stored
from caladan.join.search.frontier import Mask, Var, Words
from caladan.join.search.trie import Trie


class SearchBody:
    """Constraints with what the search looks up about them; fixed before the search starts."""

    def __init__(self, constraints: Sequence[Constraint], order: Iterable[Var]) -> None:
        self.constraints = tuple(constraints)
        names = dict.fromkeys(order)
        names.update(dict.fromkeys(v for c in constraints for v in sorted(c.variables)))
        self.variables: tuple[Var, ...] = tuple(names)
        self.of: dict[Var, tuple[Constraint, ...]] = {
            v: tuple(c for c in constraints if v in c.variables) for v in self.variables
        }
        self.influence: dict[Var, frozenset[Var]] = {
            v: frozenset[Var]().union(*(c.influence(v) for c in self.of[v])) for v in self.variables
        }
        # How ties between equal estimates are broken: by influence, then by the order given.
        self.ranked: tuple[Var, ...] = tuple(
            sorted(self.variables, key=lambda v: -len(self.influence[v]))
        )
        self._open: dict[frozenset[Var], tuple[Constraint, ...]] = {}

    def open(self, unbound: frozenset[Var]) -> tuple[Constraint, ...]:
        """The constraints that some unbound variables still matter to."""
        if unbound not in self._open:
            self._open[unbound] = tuple(c for c in self.constraints if c.variables & unbound)
        return self._open[unbound]

    def needed(self, unbound: frozenset[Var]) -> frozenset[Var]:
        """The variables whose values somebody will still ask for."""
        return frozenset[Var]().union(*(c.variables for c in self.open(unbound)))


def forget_unused(constraints: Sequence[Constraint], wanted: frozenset[Var]) -> list[Constraint]:
    """Drop the variables that nobody wants and only one atom has: any value will do for them."""
    uses: dict[Var, int] = {}
    for constraint in constraints:
        for var in constraint.variables:
            uses[var] = uses.get(var, 0) + 1
    unused = frozenset(v for v, count in uses.items() if count == 1 and v not in wanted)
    return [
        c.forget(unused) if isinstance(c, Stored) and c.variables & unused else c
        for c in constraints
    ]


def reduce_fully(
    tables: Sequence[Mapping[Var, Words]], counts: Sequence[int], tree: JoinTree
) -> list[Mask]:
    """For each table which of its rows take part in some result of the join of all."""
    masks = [np.ones(count, np.bool_) for count in counts]
    for ear, witness in tree.edges:
        _semijoin(tables, masks, witness, ear)
    for ear, witness in reversed(tree.edges):
        _semijoin(tables, masks, ear, witness)
    return masks


def _semijoin(tables: Sequence[Mapping[Var, Words]], masks: list[Mask], kept: int, by: int) -> None:
    """Leave in one table the rows that agree with some row of the other."""
    shared = sorted(tables[kept].keys() & tables[by].keys())
    if not shared:
        if not masks[by].any():
            masks[kept][:] = False
        return
    rows = np.flatnonzero(masks[kept])
    if not masks[by].any() or not len(rows):
        masks[kept][:] = False
        return
    trie = Trie.of([tables[by][v][masks[by]] for v in shared])
    found = trie.locate([tables[kept][v][rows] for v in shared]) >= 0
    masks[kept][rows[~found]] = False
