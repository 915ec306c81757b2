"""Late materialization: what only the head reads does not go through a rule's joins.

In `sub(E, Y) <- ex(E, R, C), subProp(R, S), sub(C, D), exists(Y, S, D)` nothing but the head reads
E, and many E share their R and C. So the solutions are grouped by what later steps read, each group
goes through those steps once, and at the end its members are crossed with what it found:

    ex(E, R, C)            300,000 solutions, E left for later: 28,000 groups (R, C)
    … subProp, sub, exists           by groups: each step does an eleventh of the work
    sub(E, Y)              what a group found, for each of its E

Solutions that have become the same, for nobody reads any more what told them apart, go on once:
in `far(A, F) <- e(A, B), e(B, C), e(C, D), e(D, F)` all that counts of the ways from A to D is that
there is one. Otherwise a chain goes through all ways that there are.

Where the last lookup finds much for a group, its solutions are crossed before it instead: heads
take such a lookup without listing what it finds.

Both cost a hash table over the solutions. `LateColumns` remembers where it did not pay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from caladan.columns.interner import Tuples
from caladan.columns.kernels import graph, meet
from caladan.columns.layout import Counts, Words
from caladan.join.frontier import Bindings
from caladan.program import thresholds

if TYPE_CHECKING:
    from caladan.join.constraints.lookup import AtomLookup


@dataclass(frozen=True, slots=True)
class Tests:
    """The tests at the end of a rule, what each reads, and which rows pass some of them."""

    steps: Sequence[object]
    reads: tuple[frozenset[str], ...]
    passing: Callable[[Bindings, Sequence[int]], Words]


class Taker(Protocol):
    """Where solutions end."""

    def __call__(self, frontier: Bindings) -> None:
        """Take solutions."""
        ...

    @property
    def is_direct(self) -> bool:
        """Whether it may take a last lookup."""
        ...

    def direct(
        self, lookup: AtomLookup, frontier: Bindings, check: Callable[[], None], tests: Tests, /
    ) -> bool:
        """Take the last lookup, if that can be done without listing its solutions."""
        ...


class LateColumns:
    """Groups solutions where that paid, or was not tried yet; places are counted from the end."""

    def __init__(self) -> None:
        self._idle: set[int] = set()
        # Where solutions turned out to differ: how many batches were, and are, left as they are.
        self._distinct: dict[int, tuple[int, int]] = {}

    def forget(self) -> None:
        """Try everywhere again: the relations have changed much."""
        self._idle.clear()
        self._distinct.clear()

    def distinct(self, frontier: Bindings, place: int) -> Bindings:
        """The solutions, each once, if that pays."""
        if frontier.rows < thresholds.now.repeats:
            return frontier
        pause, left = self._distinct.get(place, (0, 0))
        if left:
            self._distinct[place] = (pause, left - 1)
            return frontier
        names = list(frontier.columns)
        tuples = Tuples(len(names))
        _, fresh = tuples.ids([frontier.columns[name] for name in names], frontier.rows)
        if len(fresh) * thresholds.now.grouping_pays > frontier.rows:
            pause = min(2 * pause + 1, thresholds.now.repeats_pause)
        else:
            pause = 0
        self._distinct[place] = (pause, pause)
        return Bindings(len(fresh), frontier.at(fresh.astype(np.uint32), names))

    def grouped(self, frontier: Bindings, place: int, live: Sequence[str]) -> LateGroups | None:
        """Solutions by the columns that are still read; None if it does not pay."""
        idle = len(live) < len(frontier.columns)
        if not idle or frontier.rows < thresholds.now.grouping or place in self._idle:
            return None
        found = group(frontier, live, f"#{place}")
        if found.frontier.rows * thresholds.now.grouping_pays > frontier.rows:
            self._idle.add(place)
            return None
        return found


@dataclass(frozen=True, slots=True)
class LateGroups:
    """`frontier` has a row for each group, and its number in the column `mark`.

    The solutions of group g are rows members[bounds[g]:bounds[g + 1]] of `late`, which has the
    columns that the groups do not have.
    """

    frontier: Bindings
    mark: str
    late: Bindings
    bounds: Counts
    members: Words

    def crossed(self, found: Bindings) -> Iterator[Bindings]:
        """What the groups found, for each of their solutions."""
        numbers = found.columns[self.mark]
        lo = self.bounds[numbers]
        hi = self.bounds[numbers + np.uint32(1)]
        left = int((hi - lo).sum())
        room = thresholds.now.crossing
        state: Counts = np.array([0, -1, 0, 0], np.int64)
        while left:
            rows: Counts = np.empty(min(left, room), np.int64)
            places: Counts = np.empty(len(rows), np.int64)
            meet.expand(lo, hi, state, rows, places)
            left -= len(rows)
            own = [name for name in found.columns if name != self.mark]
            columns = found.at(rows.astype(np.uint32), own)
            columns |= self.late.at(self.members[places], self.late.columns)
            yield Bindings(len(rows), columns)


def group(frontier: Bindings, live: Sequence[str], mark: str) -> LateGroups:
    """Solutions by some of their columns."""
    tuples = Tuples(len(live))
    ids, fresh = tuples.ids([frontier.columns[name] for name in live], frontier.rows)
    count = len(tuples)
    bounds: Counts = np.zeros(count + 1, np.int64)
    members: Words = np.empty(frontier.rows, np.uint32)
    graph.adjacency(ids, np.arange(frontier.rows, dtype=np.uint32), bounds, members)
    columns = frontier.at(fresh.astype(np.uint32), live)
    columns[mark] = np.arange(count, dtype=np.uint32)
    rest = {name: words for name, words in frontier.columns.items() if name not in columns}
    return LateGroups(
        Bindings(count, columns), mark, Bindings(frontier.rows, rest), bounds, members
    )


class Crossing:
    """Takes what groups found, and hands on their solutions; `check` may stop it."""

    def __init__(self, groups: LateGroups, sink: Taker, check: Callable[[], None]) -> None:
        self._groups = groups
        self._sink = sink
        self._check = check

    def __call__(self, frontier: Bindings) -> None:
        for part in self._groups.crossed(frontier):
            self._check()
            self._sink(part)

    @property
    def is_direct(self) -> bool:
        """Whether there may be somebody who takes a last lookup."""
        return self._sink.is_direct

    def direct(
        self, lookup: AtomLookup, frontier: Bindings, check: Callable[[], None], tests: Tests, /
    ) -> bool:
        """Cross before the lookup instead of behind it, if it finds much and is taken then."""
        if tests.reads or not lookup.bound or not self.is_direct:
            return False
        step = frontier.rows // thresholds.now.sample + 1
        rows = np.arange(0, frontier.rows, step, dtype=np.uint32)
        some = Bindings(len(rows), frontier.at(rows, list(frontier.columns)))
        if lookup.matches(some).total < thresholds.now.cross_first * some.rows:
            return False
        for part in self._groups.crossed(frontier):
            check()
            if not self._sink.direct(lookup, part, check, tests):
                for longer in lookup.run(part, lookup.binds | part.columns.keys()):
                    check()
                    self._sink(longer)
        return True
