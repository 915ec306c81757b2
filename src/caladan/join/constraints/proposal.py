"""Proposals: atoms that could each bind the same variable.

For every solution the one with the fewest facts proposes values, and the others confirm them. Where
two variables may come first, as an equation or an atom ties them, ways fork: each solution binds
the one with fewer values, and then the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from caladan.columns.index import Matches, PackedIndex, RunMatches
from caladan.columns.kernels import meet
from caladan.columns.layout import Counts, Keys, Words
from caladan.join.constraints.condition import BindStep, TestStep
from caladan.join.constraints.lookup import LookupStep, present, projection
from caladan.join.frontier import Bindings
from caladan.join.statistics import Statistics
from caladan.program import thresholds

_Behind: TypeAlias = "LookupStep | ProposeStep | BindStep | TestStep"
_List: TypeAlias = "tuple[Keys, Counts, Counts, int]"  # a run, and for each row start and length


@dataclass(frozen=True, slots=True)
class ProposeStep:
    """Atoms that meet in one variable, which each of them could bind.

    No solution costs more than its smallest proposal. That is what keeps cyclic bodies, such as
    triangles, from going through far more pairs than there can be answers.
    """

    lookups: tuple[LookupStep, ...]
    variable: str
    statistics: Statistics
    names: tuple[str, ...]

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        return frozenset[str]().union(*(lookup.reads for lookup in self.lookups))

    @property
    def binds(self) -> frozenset[str]:
        """The variable that is proposed, and what else the atoms bind."""
        return frozenset[str]().union(*(lookup.binds for lookup in self.lookups))

    def confirming(self, lookup: LookupStep) -> LookupStep:
        """A lookup that tests what the atoms meet in instead of binding it."""
        shared = frozenset.intersection(*(each.binds for each in self.lookups))
        met = {c: name for c, name in lookup.new.items() if name in shared}
        own = {c: name for c, name in lookup.new.items() if name not in shared}
        return replace(lookup, bound={**lookup.bound, **met}, new=own, within=None)

    def matches(self, frontier: Bindings) -> list[Matches | None]:
        """What each atom has for the solutions; None for those with nothing bound."""
        return [each.matches(frontier) if each.bound else None for each in self.lookups]

    def run(
        self,
        frontier: Bindings,
        keep: frozenset[str],
        matches: Sequence[Matches | None] | None = None,
    ) -> Iterator[Bindings]:
        """The longer solutions, with the variables to keep; `matches`, if they are known."""
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
        needed = keep | self.reads | self.binds
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
            self.statistics.proposals(self.variable, (self.names[number],), (made,))
            others = [self.confirming(each) for each in self.lookups if each is not lookup]
            for longer in proposed:
                there = _tested(longer, others)
                self.statistics.count(self.variable, longer.rows, there.rows)
                yield projection(there, keep)

    def confirmed(self, frontier: Bindings) -> Bindings:
        """Of solutions that others proposed, those that every atom has."""
        return _tested(frontier, list(map(self.confirming, self.lookups)))

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
        tests = [self.confirming(each).index() for each in self.lookups if not each.bound]
        while state[0] < frontier.rows:
            rows: Words = np.empty(size, np.uint32)
            words: Words = np.empty(size, np.uint32)
            work(budget, state, rows, words)
            made, found = int(state[3]), int(state[2])
            rows, words = rows[:found], words[:found]
            for index in tests:
                keep_them = index.present(*index.key({0: words}, len(words)))
                rows, words = rows[keep_them], words[keep_them]
            self.statistics.count(self.variable, made, len(rows))
            columns = frontier.at(rows, old)
            if self.variable in keep:
                columns[self.variable] = words
            yield Bindings(len(rows), columns)
        self.statistics.proposals(self.variable, names, state[4:].tolist())

    def least(self, frontier: Bindings) -> Counts:
        """How many values the one with the fewest has, for each solution."""
        return self.counts(self.matches(frontier), frontier.rows).min(axis=0)

    def counts(self, matches: Sequence[Matches | None], rows: int) -> Counts:
        """How many values each atom has, for each solution."""
        return np.stack([
            np.full(rows, lookup.relation.count()) if found is None else found.counts()
            for lookup, found in zip(self.lookups, matches, strict=True)
        ])  # fmt: skip


@dataclass(frozen=True, slots=True)
class ForkStep:
    """Ways to the same variables; each solution takes the one that proposes the fewest values."""

    ways: tuple[tuple[ProposeStep, tuple[_Behind, ...]], ...]

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        steps = (step for first, rest in self.ways for step in (first, *rest))
        return frozenset[str]().union(*(step.reads for step in steps)) - self.binds

    @property
    def binds(self) -> frozenset[str]:
        """The variables that every way binds."""
        first, rest = self.ways[0]
        return frozenset[str]().union(first.binds, *(step.binds for step in rest))

    def least(self, frontier: Bindings) -> Counts:
        """How many values the way with the fewest has, for each solution."""
        return np.min([first.least(frontier) for first, _ in self.ways], axis=0)

    def run(self, frontier: Bindings, keep: frozenset[str]) -> Iterator[Bindings]:
        """The longer solutions, with the variables to keep."""
        matches = [first.matches(frontier) for first, _ in self.ways]
        counts = np.stack([
            first.counts(each, frontier.rows).min(axis=0)
            for (first, _), each in zip(self.ways, matches, strict=True)
        ])  # fmt: skip
        totals = counts.sum(axis=1)
        needed = keep | self.reads | self.binds
        if 2 * int(counts.min(axis=0).sum()) > int(totals.min()):  # hardly any row gains by it
            number = int(totals.argmin())
            first, rest = self.ways[number]
            for longer in first.run(frontier, needed, matches[number]):
                yield from self._through(longer, rest, needed, keep)
            return
        choice = np.argmin(counts, axis=0)
        for number, (first, rest) in enumerate(self.ways):
            mine = choice == number
            if mine.any():
                for longer in first.run(frontier.where(mine), needed):
                    yield from self._through(longer, rest, needed, keep)

    def _through(
        self,
        frontier: Bindings,
        steps: Sequence[_Behind],
        needed: frozenset[str],
        keep: frozenset[str],
    ) -> Iterator[Bindings]:
        for place, step in enumerate(steps):
            if not frontier.rows:
                return
            if isinstance(step, BindStep):
                frontier = step.apply(frontier)
                continue
            if isinstance(step, TestStep):
                with suppress(ArithmeticError):  # it is made once more, behind the ways
                    frontier = step.apply(frontier)
                continue
            for longer in step.run(frontier, needed):
                yield from self._through(longer, steps[place + 1 :], needed, keep)
            return
        yield projection(frontier, keep)


def _tested(frontier: Bindings, lookups: Sequence[LookupStep]) -> Bindings:
    """The solutions that every lookup has a fact for."""
    for each in lookups:
        index = each.index()
        found = present(index, *index.key(each.words(frontier), frontier.rows))
        frontier = frontier.where(found)
    return frontier
