"""A stored relation as a constraint: an atom of a body, in whatever column order the search needs.

`Stored(relation, arguments)` has a variable, a word, or None (any value will do) for each column.
Which variables are bound decides the trie: words and bound columns first, then the column asked
about, so that candidates are one stretch of one level. Tries are built when first needed and kept
with the relation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from caladan.columns.kernels import candidates as kernels
from caladan.join.search.accumulate import accumulate, accumulate_roots
from caladan.join.search.constraint import Lists, others
from caladan.join.search.constraints.terms import Term
from caladan.join.search.frontier import Candidates, Counts, Frontier, Mask, Ramp, Rows, Var, Words
from caladan.join.search.relation import SearchRelation
from caladan.join.search.trie import Trie


class Stored:
    """An atom over a stored relation. A variable may occur once: see `atom` for the others."""

    def __init__(
        self, relation: SearchRelation, arguments: Sequence[Term | None], name: str = "atom"
    ) -> None:
        if len(arguments) != relation.arity:
            raise ValueError(f"{len(arguments)} arguments for {relation.arity} columns")
        self.relation = relation
        self.arguments = tuple(arguments)
        self.name = name
        self._at = {a: i for i, a in enumerate(arguments) if isinstance(a, str)}
        if len(self._at) < sum(isinstance(a, str) for a in arguments):
            raise ValueError("a variable occurs twice: use atom()")
        self.variables = frozenset(self._at)
        self._words = {i: a for i, a in enumerate(arguments) if isinstance(a, int)}
        self._roots: dict[tuple[int, ...], Words] = {}

    def __repr__(self) -> str:
        shown = ", ".join("_" if a is None else str(a) for a in self.arguments)
        return f"{self.name}({shown})"

    def estimate(self, frontier: Frontier, var: Var) -> Counts:
        """Distinct words that can follow what is bound; exact with one run and a fitting trie."""
        prefix = self._prefix(frontier.bound)
        then = frozenset((self._at[var],))
        if len(self.variables) > 2 and self.relation.order_for(prefix, then) is None:
            # Rather than build a trie to look at it once, take the facts left: they are no fewer.
            if not prefix:
                return np.full(len(frontier), self.relation.count, np.int64)
            if self.relation.order_for(prefix) is not None:
                return self.rows(frontier)
        total = np.zeros(len(frontier), np.int64)
        for trie, columns in self._read(frontier, self._order(prefix, then)):
            total += _lists(trie, columns, len(frontier)).counts
        return total

    def rows(self, frontier: Frontier) -> Counts:
        """Facts that agree with each binding."""
        prefix = self._prefix(frontier.bound)
        if not prefix:
            return np.full(len(frontier), self.relation.count, np.int64)
        total = np.zeros(len(frontier), np.int64)
        for trie, columns in self._read(frontier, self._order(prefix)):
            total += trie.facts(trie.locate(columns), len(columns) - 1)
        return total

    def lists(self, frontier: Frontier, var: Var) -> Lists | None:
        """The candidates of each row, sorted, where they need not be put together from runs."""
        runs = len(self.relation.runs)
        if runs > 1:
            return None
        if not runs:
            none = np.zeros(len(frontier), np.int64)
            return Lists(none[:0], none, none)
        order = self._order(self._prefix(frontier.bound), frozenset((self._at[var],)))
        trie, columns = next(self._read(frontier, order))
        return _lists(trie, columns, len(frontier))

    def propose(self, frontier: Frontier, var: Var) -> Candidates:
        """Every word that can follow what is bound."""
        return _expand(self._accumulated(frontier, var), frontier, var)

    def propose_part(self, frontier: Frontier, var: Var, skip: int, limit: int) -> Candidates:
        """A stretch of the one list of a frontier of one row."""
        found = self._accumulated(frontier, var)
        lo = min(int(found.lo[0]) + skip, int(found.hi[0]))
        part = Lists(found.values, np.array([lo]), np.minimum(found.hi, lo + limit))
        return _expand(part, frontier, var)

    def confirm(self, candidates: Candidates) -> None:
        """Keep the candidates that extend a prefix of some fact of some run."""
        frontier = candidates.frontier
        if candidates.var not in self._at:
            if not self._at:
                candidates.keep(self.holds(frontier)[candidates.parents])
            return
        prefix = self._prefix(frontier.bound)
        then = frozenset((self._at[candidates.var],))
        order = self.relation.order_for(prefix, then)
        if order is None and self.relation.order_for(prefix | then) is not None:
            candidates.keep(self.holds(candidates))
            return
        found = np.zeros(len(candidates), np.bool_)
        for trie, columns in self._read(frontier, order or self._order(prefix, then)):
            each = _lists(trie, columns, len(frontier))
            kernels.confirm(
                each.values, each.lo, each.hi, candidates.parents, candidates.values,
                candidates.alive, found,
            )  # fmt: skip
        candidates.keep(found)

    def holds(self, batch: Frontier | Candidates) -> Mask:
        """Which rows agree with some fact, by all that is bound."""
        prefix = self._prefix(batch.bound)
        if not prefix:
            return np.full(len(batch), bool(self.relation.runs))
        found = np.zeros(len(batch), np.bool_)
        for trie, columns in self._read(batch, self._order(prefix)):
            found |= trie.locate(columns) >= 0
        return found

    def influence(self, var: Var) -> frozenset[Var]:
        """Binding one column changes what the others can be."""
        return others(self.variables, var)

    def forget(self, variables: frozenset[Var]) -> Stored:
        """The same atom, where some variables may have any value."""
        arguments = [None if a in variables else a for a in self.arguments]
        return Stored(self.relation, arguments, self.name)

    def tuples(self, frontier: Frontier, unbound: Sequence[Var], ramp: Ramp) -> Iterator[Frontier]:
        """All facts that agree with each row, whole, a chunk at a time: a plain join."""
        prefix = self._prefix(frontier.bound)
        last = len(prefix) + len(unbound) - 1
        order = self._order(prefix, frozenset(self._at[v] for v in unbound))
        for trie, columns in self._read(frontier, order):
            first = _lists(trie, columns, len(frontier))
            lo, hi = trie.reach(first.lo, first.hi, len(prefix), last)
            state = np.array([0, -1, 0, 0])
            while state[0] < len(frontier):
                parents = np.empty(ramp.width, np.int64)
                positions = np.empty(ramp.width, np.int64)
                kernels.expand(lo, hi, state, parents, positions)
                parents, positions = parents[: state[2]], positions[: state[2]]
                if not len(parents):
                    continue
                grown = {v: c[parents] for v, c in frontier.columns.items()}
                for level in range(len(prefix), last + 1):
                    name = self.arguments[order[level]]
                    assert isinstance(name, str)
                    grown[name] = trie.column(level, positions, last)
                yield Frontier(grown, frontier.tags[parents])

    def _prefix(self, bound: frozenset[Var]) -> frozenset[int]:
        return frozenset(self._words) | {i for v, i in self._at.items() if v in bound}

    def _order(self, prefix: frozenset[int], then: frozenset[int] = frozenset()) -> tuple[int, ...]:
        """A column order that starts with a prefix; one that exists, if there is one."""
        known = self.relation.order_for(prefix, then)
        if known is not None:
            return known
        same = self.relation.order_for(prefix)
        start = [*(same[: len(prefix)] if same else sorted(prefix)), *sorted(then)]
        rest = [i for i in self._at.values() if i not in start]
        ignored = [i for i, a in enumerate(self.arguments) if a is None and i not in start]
        return (*start, *rest, *ignored)

    def _read(
        self, batch: Frontier | Candidates, order: tuple[int, ...]
    ) -> Iterator[tuple[Trie, list[Words]]]:
        """Each run's trie, and the words of the bound columns in its order."""
        columns: list[Words] = []
        for i in order:
            argument = self.arguments[i]
            if isinstance(argument, str) and argument in batch.bound:
                words = (
                    batch.column(argument)
                    if isinstance(batch, Candidates)
                    else batch.columns[argument]
                )
                columns.append(np.ascontiguousarray(words))
            elif i in self._words:
                columns.append(np.full(len(batch), self._words[i], np.int64))
            else:
                break
        for trie in self.relation.tries(order):
            yield trie, columns

    def _accumulated(self, frontier: Frontier, var: Var) -> Lists:
        one = self.lists(frontier, var)
        if one is not None:
            return one
        order = self._order(self._prefix(frontier.bound), frozenset((self._at[var],)))
        tries = self.relation.tries(order)
        _, columns = next(self._read(frontier, order))
        if columns:
            return accumulate(tries, columns)
        if order not in self._roots:
            self._roots[order] = accumulate_roots(tries)
        words = self._roots[order]
        return Lists(words, np.zeros(len(frontier), np.int64), np.full(len(frontier), len(words)))


def atom(relation: SearchRelation, arguments: Sequence[Term | None], name: str = "atom") -> Stored:
    """An atom in which a variable may occur several times: those columns must be equal."""
    first: dict[Term, int] = {}
    repeated = [
        (first[a], i)
        for i, a in enumerate(arguments)
        if isinstance(a, str) and first.setdefault(a, i) != i
    ]
    if not repeated:
        return Stored(relation, arguments, name)
    masks: list[Mask] = []
    for run in relation.runs:
        same = np.ones(run.count, np.bool_)
        for left, right in repeated:
            same &= run.columns[left] == run.columns[right]
        masks.append(same)
    dropped = {right for _, right in repeated}
    kept = [i for i in range(len(arguments)) if i not in dropped]
    return Stored(relation.where(masks).project(kept), [arguments[i] for i in kept], name)


def _lists(trie: Trie, prefix: list[Words], rows: int) -> Lists:
    return trie.below(trie.locate(prefix), len(prefix) - 1) if prefix else trie.root(rows)


def _expand(found: Lists, frontier: Frontier, var: Var) -> Candidates:
    if len(frontier) == 1:
        words = found.values[int(found.lo[0]) : int(found.hi[0])]
        return Candidates.of(frontier, var, words, np.zeros(len(words), np.int64))
    size = int(found.counts.sum())
    parents: Rows = np.empty(size, np.int64)
    positions: Rows = np.empty(size, np.int64)
    kernels.expand(found.lo, found.hi, np.array([0, -1, 0, 0]), parents, positions)
    return Candidates.of(frontier, var, found.values[positions], parents)
