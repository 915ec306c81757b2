"""Intersections: all constraints that have a variable, where some others are bound.

    e(X, Y), e(Y, Z), e(Z, X)    with X and Y bound, e(Y, Z) and e(Z, X) intersect in Z

For each row whoever has the fewest values proposes, and the others confirm, so no row costs more
than its smallest proposal. That is what keeps cyclic bodies, such as triangles, from going through
far more pairs than there can be answers. Where all are sorted stretches, one kernel does both.

Intersection.weigh(frontier)       what each would propose, row by row: `Weights`
Intersection.run(frontier, …)      the longer rows
SearchBody.intersection(var, bound)   for a search: atoms, each under what is bound
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np

from caladan.columns.index import Matches, PackedIndex, RunMatches
from caladan.columns.kernels import meet
from caladan.columns.layout import Counts, Keys, Words
from caladan.join.constraints.atom import StoredAtom
from caladan.join.constraints.lookup import AtomLookup, present, projection
from caladan.join.constraints.protocol import JoinConstraint
from caladan.join.frontier import Bindings
from caladan.join.statistics import Statistics
from caladan.program import thresholds

_List: TypeAlias = "tuple[Keys, Counts, Counts, int]"  # a run, and for each row start and length


@dataclass(frozen=True, slots=True)
class Weights:
    """What the constraints of a variable would propose, row by row; it decides who does."""

    matches: Sequence[Matches | None]
    atoms: Counts | None
    others: Mapping[int, Counts]

    @property
    def least(self) -> Counts | None:
        """The fewest; None if nobody can propose."""
        every = [*self.others.values(), *(() if self.atoms is None else (self.atoms,))]
        return np.minimum.reduce(every) if every else None


def least_of(weights: Weights) -> Counts:
    """The fewest, where there is an atom."""
    assert weights.least is not None
    return weights.least


class Intersection:
    """All that have a variable, where some others are bound: atoms, each under what is bound.

    Where there are no views, atoms may share several variables, and bind others besides.
    """

    def __init__(
        self,
        var: str,
        lookups: Sequence[AtomLookup],
        others: Sequence[JoinConstraint],
        statistics: Statistics,
    ) -> None:
        self.var = var
        self.lookups = tuple(lookups)
        self.others = tuple(others)
        self.statistics = statistics
        self.binds = frozenset((var,)).union(*(each.binds for each in lookups))
        self._atoms_read = frozenset[str]().union(*(each.reads for each in lookups))
        self._reads = frozenset[str]().union(*(each.variables for each in others))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the atoms are called."""
        return tuple(map(str, self.lookups))

    def known(self, lookup: AtomLookup) -> AtomLookup:
        """A lookup that tests what the atoms share instead of binding it."""
        return lookup.known(frozenset.intersection(*(each.binds for each in self.lookups)))

    def prepare(self) -> None:
        """Make the indexes that proposing and confirming read."""
        for each in self.lookups:
            each.prepare()
            self.known(each).prepare()

    def weigh(self, frontier: Bindings) -> Weights:
        """What each would propose."""
        matches = self.matches(frontier)
        counted = ((i, each.estimate(frontier, self.var)) for i, each in enumerate(self.others))
        return Weights(
            matches,
            self.counts(matches, frontier.rows).min(axis=0) if matches else None,
            {i: counts for i, counts in counted if counts is not None},
        )

    def least(self, frontier: Bindings) -> Counts:
        """How many values the one with the fewest has, for each row."""
        return least_of(self.weigh(frontier))

    def run(
        self, frontier: Bindings, keep: frozenset[str], weights: Weights | None = None
    ) -> Iterator[Bindings]:
        """The longer rows, with the variables to keep; `weights`, if they are known."""
        if not self.others:
            yield from self._by_atoms(frontier, keep, weights and weights.matches)
            return
        weights = weights or self.weigh(frontier)
        needed = keep | self._reads | {self.var}
        if not weights.others:
            for longer in self._by_atoms(frontier, needed, weights.matches):
                yield projection(self._confirmed(longer, self.others), keep)
            return
        least = weights.least
        undecided = np.ones(frontier.rows, np.bool_)
        if weights.atoms is not None:
            undecided = weights.atoms != least
            for longer in self._by_atoms(frontier.where(~undecided), needed):
                yield projection(self._confirmed(longer, self.others), keep)
        tests = [self.known(each) for each in self.lookups]
        for number, counts in weights.others.items():
            mine = undecided & (counts == least)
            undecided &= ~mine
            proposer = self.others[number]
            others = [each for i, each in enumerate(self.others) if i != number]
            for longer in proposer.propose(frontier.where(mine), self.var, counts[mine]):
                made = longer.rows
                self.statistics.proposals(self.var, (str(proposer),), (made,))
                longer = _keep_found(longer, tests)
                self.statistics.count(self.var, made, longer.rows)
                yield projection(self._confirmed(longer, others), keep)

    def _confirmed(self, longer: Bindings, others: Sequence[JoinConstraint]) -> Bindings:
        before = longer.rows
        for each in others:
            if longer.rows:
                longer = each.confirm(longer, self.var)
        if longer.rows < before:
            self.statistics.count(self.var, 0, longer.rows - before)
        return longer

    # ── Atoms ────────────────────────────────────────────────────────────────────────────────────

    def matches(self, frontier: Bindings) -> list[Matches | None]:
        """What each atom has for the rows; None for those with nothing bound."""
        return [each.matches(frontier) if each.bound else None for each in self.lookups]

    def counts(self, matches: Sequence[Matches | None], rows: int) -> Counts:
        """How many values each atom has, for each solution."""
        return np.stack([
            np.full(rows, lookup.relation.count()) if found is None else found.counts()
            for lookup, found in zip(self.lookups, matches, strict=True)
        ])  # fmt: skip

    def _by_atoms(
        self,
        frontier: Bindings,
        keep: frozenset[str],
        matches: Sequence[Matches | None] | None = None,
    ) -> Iterator[Bindings]:
        """The longer solutions as atoms propose them; `matches`, if they are known."""
        if matches is None:
            matches = self.matches(frontier)
        if any(found is not None and not found.total for found in matches):
            return
        if (lists := self._lists(matches, frontier.rows)) is not None:
            yield from self._met(frontier, lists, keep)
            return
        counts = self.counts(matches, frontier.rows)
        least = np.argmin(counts, axis=0)
        some = counts[least, np.arange(frontier.rows)] > 0
        needed = keep | self._atoms_read | self.binds
        for number, (lookup, found) in enumerate(zip(self.lookups, matches, strict=True)):
            mine = some & (least == number)
            if not mine.any():
                continue
            proposed = (
                lookup.spread(frontier, found.only(mine), needed)
                if isinstance(found, RunMatches)
                else lookup.run(frontier.where(mine), needed)
            )
            made = int(counts[number][mine].sum())
            self.statistics.proposals(self.var, (self.names[number],), (made,))
            others = [self.known(each) for each in self.lookups if each is not lookup]
            for longer in proposed:
                there = _keep_found(longer, others)
                self.statistics.count(self.var, longer.rows, there.rows)
                yield projection(there, keep)

    def _lists(self, matches: Sequence[Matches | None], rows: int) -> list[_List] | None:
        """What each atom has for each solution, if that is a sorted list of one run for all.

        Atoms with nothing bound have the same for all; those that never have the fewest only test.
        Where several test, and have a bit for every fact in the cache, that is quicker than lists.
        """
        bits = thresholds.now.cached_bits if len(self.lookups) > 2 else 0
        lists: list[_List] = []
        for lookup, found in zip(self.lookups, matches, strict=True):
            index = lookup.index()
            if not isinstance(index, PackedIndex):
                return None
            if found is None:
                continue
            stretches = found.stretches if isinstance(found, RunMatches) else None
            if stretches is None or sum(index.packing.widths) <= bits:
                return None
            (column,) = lookup.new
            assert index.packing.order[-1] == column
            lists.append((*stretches, index.packing.masks[column]))
        least = min((int(counts.max()) for _, _, counts, _ in lists), default=0)
        free = (lookup for lookup in self.lookups if not lookup.bound)
        is_usual = 2 <= len(lists) <= meet.MOST_LISTS
        return lists if is_usual and all(each.relation.count() >= least for each in free) else None

    def _met(
        self, frontier: Bindings, lists: Sequence[_List], keep: frozenset[str]
    ) -> Iterator[Bindings]:
        """The longer solutions, by one kernel: the least list proposes, the others confirm."""
        runs, starts, counts, masks = zip(*lists, strict=True)
        names = [n for n, each in zip(self.names, self.lookups, strict=True) if each.bound]
        size = max(1, min(*(int(each.sum()) for each in counts), thresholds.now.room))
        budget = thresholds.now.search_budget
        work = (
            partial(meet.meet_two, *lists[0][:3], *lists[1][:3], *masks)
            if len(lists) == 2
            else partial(
                meet.meet, runs, np.stack(starts), np.stack(counts), np.array(masks, np.uint64)
            )
        )
        state = np.array([0, -1, *[0] * (2 + len(lists))], np.int64)
        old = [name for name in frontier.columns if name in keep]
        tests = [self.known(each).index() for each in self.lookups if not each.bound]
        while state[0] < frontier.rows:
            rows: Words = np.empty(size, np.uint32)
            words: Words = np.empty(size, np.uint32)
            work(budget, state, rows, words)
            made, found = int(state[3]), int(state[2])
            rows, words = rows[:found], words[:found]
            for index in tests:
                keep_them = index.present(*index.key({0: words}, len(words)))
                rows, words = rows[keep_them], words[keep_them]
            self.statistics.count(self.var, made, len(rows))
            columns = frontier.at(rows, old)
            if self.var in keep:
                columns[self.var] = words
            yield Bindings(len(rows), columns)
        self.statistics.proposals(self.var, names, state[4:].tolist())


def _keep_found(frontier: Bindings, lookups: Sequence[AtomLookup]) -> Bindings:
    """The solutions that every lookup has a fact for."""
    for each in lookups:
        index = each.index()
        found = present(index, *index.key(each.words(frontier), frontier.rows))
        frontier = frontier.where(found)
    return frontier


class SearchBody:
    """Constraints with what the search looks up about them; fixed before the search starts."""

    def __init__(self, constraints: Sequence[JoinConstraint], order: Iterable[str]) -> None:
        self.constraints = tuple(constraints)
        self.atoms = tuple(c for c in constraints if isinstance(c, StoredAtom))
        self.others = tuple(c for c in constraints if not isinstance(c, StoredAtom))
        names = dict.fromkeys(order)
        names.update(dict.fromkeys(v for c in constraints for v in sorted(c.variables)))
        self.variables: tuple[str, ...] = tuple(names)
        self.influence: dict[str, frozenset[str]] = {
            v: frozenset[str]().union(*(c.influence(v) for c in constraints if v in c.variables))
            for v in self.variables
        }
        # How ties between equal estimates are broken: by influence, then by the order given.
        self.ranked: tuple[str, ...] = tuple(
            sorted(self.variables, key=lambda v: -len(self.influence[v]))
        )
        self._under: dict[tuple[str, frozenset[str]], list[AtomLookup]] = {}

    def intersection(
        self, var: str, bound: frozenset[str], statistics: Statistics | None = None
    ) -> Intersection:
        """Those that have a variable, where some are bound; one for trial counts for itself."""
        key = (var, bound & self.influence[var])
        if key not in self._under:
            having = [atom for atom in self.atoms if var in atom.variables]
            self._under[key] = [
                replace(atom.under(bound, (var,)), name=str(atom)) for atom in having
            ]
        others = [c for c in self.others if var in c.variables]
        return Intersection(var, self._under[key], others, statistics or Statistics())

    def replaced(self, constraints: Sequence[JoinConstraint]) -> SearchBody:
        """The body with others in the place of its constraints."""
        return SearchBody(constraints, self.variables)

    def open(self, unbound: frozenset[str]) -> list[JoinConstraint]:
        """The constraints that some unbound variables still matter to."""
        return [c for c in self.constraints if c.variables & unbound]

    @cached_property
    def names(self) -> dict[str, list[JoinConstraint]]:
        """The constraints of each variable."""
        return {v: [c for c in self.constraints if v in c.variables] for v in self.variables}


def forget_unused(
    constraints: Sequence[JoinConstraint], wanted: frozenset[str]
) -> list[JoinConstraint]:
    """Drop the variables that nobody wants and only one atom has: any value will do for them."""
    uses: dict[str, int] = {}
    for constraint in constraints:
        for var in constraint.variables:
            uses[var] = uses.get(var, 0) + 1
    unused = frozenset(v for v, count in uses.items() if count == 1 and v not in wanted)
    return [
        c.forget(unused) if isinstance(c, StoredAtom) and c.variables & unused else c
        for c in constraints
    ]
