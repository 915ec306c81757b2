"""The one step of a body: it takes rows, binds some variables, and drops what does not fit.

    t(X, Y, Z) <- e(X, Y), e(Y, Z), e(Z, X), X < Z, ~b(X, Z)

    ExtendStep((X, Y), (e(X, Y)), Fixed)           a lookup: one constraint, which proposes
    ExtendStep((Z,), (e(Y, Z), e(Z, X)), PerRow)   for each row the one with fewer values proposes
    ExtendStep((), (X < Z), Fixed)                 nothing is bound: all only confirm
    ExtendStep((), (~b(X, Z)), Fixed)

So a lookup, a semijoin, a test, an intersection and a search are one step, told apart by how many
variables it binds and by who chooses. With several variables to choose from, each row takes the one
with the smallest estimate: `PerRow.ways` are two orders that were laid out beforehand, and with a
`grade` the guided search (adaptive.py) lays them out as it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np

from caladan.columns.layout import Counts
from caladan.join.constraints.atom import StoredAtom
from caladan.join.constraints.lookup import AtomLookup, projection
from caladan.join.constraints.protocol import BodyConstraint, JoinConstraint
from caladan.join.frontier import Bindings
from caladan.join.intersection import Intersection, least_of
from caladan.join.statistics import Statistics


@dataclass(frozen=True, slots=True)
class Fixed:
    """The first constraint proposes for all rows, the others confirm."""


@dataclass(frozen=True, slots=True)
class PerRow:
    """Each row chooses: who proposes, and where there are several variables, which is bound first.

    `ways` bind the same variables in different orders. A `grade` asks for the guided search; pieces
    grow from `first` to `width` rows, and of answers that agree, the variables of `order` come
    first.
    """

    statistics: Statistics = field(default_factory=Statistics)
    ways: tuple[tuple[ExtendStep, ...], ...] = ()
    grade: str | None = None
    order: tuple[str, ...] = ()
    counting: bool = False
    first: int | None = None
    width: int | None = None


@dataclass(frozen=True, eq=False)
class ExtendStep:
    """Rows with `variables` bound, as all the constraints allow."""

    variables: tuple[str, ...]
    constraints: tuple[JoinConstraint, ...]
    choice: Fixed | PerRow

    @cached_property
    def reads(self) -> frozenset[str]:
        """The variables it needs; a search may have any of its own bound already."""
        if isinstance(self.choice, PerRow) and self.choice.grade is not None:
            return self.binds.union(*(each.variables for each in self.constraints))
        read = (
            each.reads if isinstance(each, BodyConstraint) else each.variables
            for each in self.constraints
        )
        ways = (step.reads for way in self._ways for step in way)
        return frozenset[str]().union(*read, *ways) - self.binds

    @cached_property
    def binds(self) -> frozenset[str]:
        """The variables it binds."""
        return frozenset(self.variables)

    @cached_property
    def is_single(self) -> bool:
        """Whether a row leads to at most one: then `apply` gives them all at once."""
        return isinstance(self.choice, Fixed) and all(
            isinstance(each, BodyConstraint) and each.is_single for each in self.constraints
        )

    @property
    def is_test(self) -> bool:
        """Whether it only drops rows, by anything but a lookup."""
        return self.is_single and not self.variables

    @property
    def is_join(self) -> bool:
        """Whether a row may lead to several, which differ in what is bound."""
        return not self.is_single and bool(self.variables)

    @cached_property
    def is_pure(self) -> bool:
        """Whether several threads may take it at once: it makes no words."""
        own = (isinstance(each, BodyConstraint) and each.is_pure for each in self.constraints)
        return all(own) and all(step.is_pure for way in self._ways for step in way)

    @cached_property
    def is_walk(self) -> bool:
        """Whether it goes through a part of the body, once for all rows that agree."""
        return any(isinstance(each, BodyConstraint) and each.part for each in self.constraints)

    @cached_property
    def lookup(self) -> AtomLookup | None:
        """The one atom that is looked up, if that is all."""
        if len(self.constraints) != 1 or isinstance(self.choice, PerRow):
            return None
        only = self.constraints[0]
        return only if isinstance(only, AtomLookup) else None

    @property
    def _ways(self) -> tuple[tuple[ExtendStep, ...], ...]:
        return () if isinstance(self.choice, Fixed) else self.choice.ways

    @cached_property
    def intersection(self) -> Intersection:
        """What proposes and confirms the variable."""
        assert isinstance(self.choice, PerRow)
        lookups = [each for each in self.constraints if isinstance(each, AtomLookup)]
        others = [each for each in self.constraints if not isinstance(each, AtomLookup)]
        name = ", ".join(self.variables)
        return Intersection(name, lookups, others, self.choice.statistics)

    def prepare(self) -> None:
        """Make the indexes that it reads, before several threads want them at once."""
        for each in self.constraints:
            if isinstance(each, BodyConstraint):
                each.prepare()
        for step in (step for way in self._ways for step in way):
            step.prepare()
        if isinstance(self.choice, PerRow) and self.choice.grade is None and not self._ways:
            self.intersection.prepare()

    def restart(self) -> None:
        """Forget what was found so far: relations have changed since."""
        for each in self.constraints:
            if isinstance(each, BodyConstraint):
                each.restart()

    def apply(self, frontier: Bindings) -> Bindings:
        """The rows that a single step leaves, with what it binds."""
        for each in self.constraints:
            assert isinstance(each, BodyConstraint)
            if frontier.rows:
                frontier = each.apply(frontier)
        return frontier

    def run(self, frontier: Bindings, keep: frozenset[str]) -> Iterator[Bindings]:
        """The longer rows, with the variables to keep."""
        if self.is_single:
            yield projection(self.apply(frontier), keep)
        elif isinstance(self.choice, PerRow):
            if self.choice.grade is not None:
                yield from self._searched(self.choice, frontier, keep)
            elif self.choice.ways:
                yield from self._by_way(self.choice.ways, frontier, keep)
            else:
                yield from self.intersection.run(frontier, keep)
        else:
            assert self.lookup is not None
            yield from self.lookup.run(frontier, keep)

    def least(self, frontier: Bindings) -> Counts:
        """How many rows each row may lead to: the estimate of what comes first for it."""
        if self._ways:
            return np.min([way[0].least(frontier) for way in self._ways], axis=0)
        return self.lookup.counts(frontier) if self.lookup else self.intersection.least(frontier)

    def _by_way(
        self, ways: Sequence[Sequence[ExtendStep]], frontier: Bindings, keep: frozenset[str]
    ) -> Iterator[Bindings]:
        """Each row goes the way that proposes the fewest values first."""
        firsts = [way[0].intersection for way in ways]
        weights = [each.weigh(frontier) for each in firsts]
        counts = np.stack(list(map(least_of, weights)))
        totals = counts.sum(axis=1)
        needed = keep | self.reads | self.binds
        if 2 * int(counts.min(axis=0).sum()) > int(totals.min()):  # hardly any row gains by it
            number = int(totals.argmin())
            rest = ways[number][1:]
            for longer in firsts[number].run(frontier, needed, weights[number]):
                yield from solutions(rest, longer, keep, needed)
            return
        choice = np.argmin(counts, axis=0)
        for number, way in enumerate(ways):
            mine = choice == number
            if mine.any():
                yield from solutions(way, frontier.where(mine), keep, needed)

    def wanted(self, bound: Collection[str], keep: frozenset[str]) -> list[str]:
        """The variables that a search is to bind, if some are kept; those of the head first."""
        assert isinstance(self.choice, PerRow)
        kept = {name for name in keep if name in self.binds or name in bound}
        wanted = kept | self.binds if self.choice.counting else kept
        order = self.choice.order
        return [*(v for v in order if v in wanted), *sorted(wanted.difference(order))]

    def _searched(
        self, choice: PerRow, frontier: Bindings, keep: frozenset[str]
    ) -> Iterator[Bindings]:
        from caladan.join.adaptive import solve

        found = solve(
            [c.listed() if isinstance(c, StoredAtom) and c.is_fleeting else c
             for c in self.constraints],
            self.wanted(frontier.columns, keep),
            frontier,
            grade=choice.grade or "paul",
            width=choice.width,
            first=choice.first,
            statistics=choice.statistics,
        )  # fmt: skip
        for longer in found:
            yield projection(longer, keep)


Through: TypeAlias = (
    "Callable[[Sequence[ExtendStep], Bindings, Callable[[Bindings], None], frozenset[str]], None]"
)
"""Pushes rows through some steps, of which some columns are kept."""


def solutions(
    steps: Sequence[ExtendStep], frontier: Bindings, keep: frozenset[str], needed: frozenset[str]
) -> Iterator[Bindings]:
    """The rows that some steps lead to, as they are asked for; `needed` is kept on the way."""
    for place, step in enumerate(steps):
        if not frontier.rows:
            return
        if step.is_single:
            frontier = step.apply(frontier)
            continue
        rest = steps[place + 1 :]
        for longer in step.run(frontier, needed.union(*(each.reads for each in rest))):
            yield from solutions(rest, longer, keep, needed)
        return
    if frontier.rows:
        yield projection(frontier, keep)
