"""Semijoins: which solutions of a rule have some solution of a part that nobody reads.

In `t(A) <- e(A, B), e(B, C), e(C, D)` the head wants to know of the last two atoms only for which B
they have a solution. So they are asked once for each B, whichever A it comes with, and within that
the last one once for each C: a chain costs what its atoms have facts, not the ways through them.

Where the part starts with one atom, its facts are tried few at a time (4, 32, 256 for each row),
and rows that have found a solution are asked no more: `e(X, A), e(X, B), A ~= B` finds a second B
for most X at the first attempt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from caladan.columns.index import Matches, RunMatches
from caladan.columns.interner import Tuples
from caladan.columns.layout import Mask
from caladan.join.constraints.lookup import AtomLookup
from caladan.join.constraints.protocol import BodyConstraint
from caladan.join.frontier import Bindings
from caladan.program import thresholds

if TYPE_CHECKING:
    from caladan.join.extend import ExtendStep, Through

MARK: Final = "#semijoin"
"""A column of the numbers of rows; no variable is called so."""


@dataclass(frozen=True, slots=True)
class SemijoinConstraint(BodyConstraint):
    """Steps that nothing is read of but whether they lead to a solution, for what is shared."""

    shared: tuple[str, ...]
    steps: tuple[ExtendStep, ...]
    through: Through

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        return frozenset(self.shared)

    @property
    def is_pure(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether its steps are."""
        return all(step.is_pure for step in self.steps)

    @property
    def part(self) -> Sequence[ExtendStep]:
        """The steps."""
        return self.steps

    def prepare(self) -> None:
        """Make the indexes of its steps."""
        for step in self.steps:
            step.prepare()

    def restart(self) -> None:
        """Let the steps start over."""
        for step in self.steps:
            step.restart()

    def apply(self, frontier: Bindings) -> Bindings:
        """The solutions for which the steps lead to one."""
        names, through = list(self.shared), self.through
        if len(names) == len(frontier.columns) and names:
            return frontier.where(_SemijoinRows(frontier).found(self.steps, through))
        if not names:
            found = _SemijoinRows(Bindings(1, {})).found(self.steps, through)
            return frontier.where(np.repeat(found, frontier.rows))
        ids, fresh = Tuples(len(names)).ids([frontier.columns[n] for n in names], frontier.rows)
        distinct = Bindings(len(fresh), frontier.at(fresh.astype(np.uint32), names))
        return frontier.where(_SemijoinRows(distinct).found(self.steps, through)[ids])


class _SemijoinRows:
    """Rows that a solution is looked for, and which of them have one."""

    def __init__(self, frontier: Bindings) -> None:
        numbers = np.arange(frontier.rows, dtype=np.uint32)
        self._frontier = Bindings(frontier.rows, {**frontier.columns, MARK: numbers})
        self._has: Mask = np.zeros(frontier.rows, np.bool_)

    def found(self, steps: Sequence[ExtendStep], through: Through) -> Mask:
        """Which rows have a solution."""
        first, rest = steps[0].lookup, steps[1:]
        keep = frozenset((MARK,)).union(*(each.reads for each in rest))
        if first is None or first.is_test(keep):
            through(steps, self._frontier, self._take, frozenset((MARK,)))
            return self._has
        matches = first.found(self._frontier)
        every = self._all(first, keep) if matches is None else self._some(first, matches, keep)
        for longer in every:
            if longer.rows:
                through(rest, longer, self._take, frozenset((MARK,)))
        return self._has

    def _take(self, found: Bindings) -> None:
        self._has[found.columns[MARK]] = True

    def _some(
        self, first: AtomLookup, matches: Matches, keep: frozenset[str]
    ) -> Iterator[Bindings]:
        """What agrees with rows that have no solution yet, a few facts at a time."""
        if not isinstance(matches, RunMatches):
            yield from first.spread(self._frontier, matches, keep)
            return
        done, most = 0, thresholds.now.semijoin
        while (some := matches.only(~self._has, done, most)).total:
            yield from first.spread(self._frontier, some, keep)
            done, most = done + most, most * thresholds.now.search_ramp

    def _all(self, first: AtomLookup, keep: frozenset[str]) -> Iterator[Bindings]:
        """A few facts at a time for all rows that have no solution yet."""
        most = thresholds.now.semijoin
        index, blocks = first.scanned(keep, thresholds.now.room)
        for hits in blocks:
            done = 0
            while done < len(hits) and not self._has.all():
                left = self._frontier.where(~self._has)
                yield from first.crossed(left, index, hits[done : done + most], keep)
                done, most = done + most, most * thresholds.now.search_ramp
