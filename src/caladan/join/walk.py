"""Walking through the steps of a rule, depth first, and the sink its solutions end in.

A lookup that finds much hands its solutions on in chunks; each goes through all later steps before
the next is made, so memory is bounded by the size of a chunk times the number of steps. Columns
that only the head reads may wait meanwhile (late_materialization.py).

Where a rule only looks things up and its head is packed, a batch goes on in parts, one for each
thread, if it is large or if such batches were found to lead to many solutions: whatever order they
come back in, the facts are sorted before anybody sees them.

Arithmetic that fails is put off behind the steps that do not need its result: those may yet throw
out the solutions it fails for. If none is left, the failure is the rule's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Final

import numpy as np

from caladan.columns import pool
from caladan.columns.layout import Words
from caladan.join.constraints.lookup import AtomLookup
from caladan.join.extend import ExtendStep
from caladan.join.frontier import Bindings
from caladan.join.late_materialization import Crossing, LateColumns, Taker, Tests
from caladan.program import thresholds


class SolutionSink:
    """Takes a rule's solutions; `count` of them so far.

    `direct`, if there is one, may take the last lookup itself, with the solutions before it and
    the tests behind it; it returns how many solutions it led to, None if it did not. A sink that is
    `shared`, now, may be called from several threads. One that can `forget` may be started again.
    `nbytes` says what it holds of the solutions beside the relation that they make.
    """

    def __init__(
        self,
        take: Callable[[Bindings], None],
        finish: Callable[[], None] | None = None,
        direct: Callable[[AtomLookup, Bindings, Callable[[], None], Tests], int | None]
        | None = None,
        *,
        shared: Callable[[], bool] = lambda: False,
        forget: Callable[[], None] | None = None,
        nbytes: Callable[[], int] = int,
    ) -> None:
        self.nbytes = nbytes
        self._forget = forget
        self._take = take
        self._finish = finish
        self._direct = direct
        self._lock = RLock()
        self.shared = shared
        self.count = 0

    def __call__(self, frontier: Bindings) -> None:
        self._add(frontier.rows)
        self._take(frontier)

    @property
    def is_direct(self) -> bool:
        """Whether it may take a last lookup."""
        return self._direct is not None

    def direct(
        self, lookup: AtomLookup, frontier: Bindings, check: Callable[[], None], tests: Tests, /
    ) -> bool:
        """Take the last lookup, if that can be done without listing its solutions."""
        found = None if self._direct is None else self._direct(lookup, frontier, check, tests)
        self._add(found or 0)
        return found is not None

    def _add(self, rows: int) -> None:
        with self._lock:
            self.count += rows

    def restart(self) -> None:
        """All solutions come once more: what was taken so far does not count."""
        assert self._forget is not None
        self._forget()
        self.count = 0

    def finish(self) -> None:
        """There are no more solutions."""
        if self._finish is not None:
            self._finish()


_ROW: Final = "#row"
"""A column of the numbers of rows; no variable is called so."""


class Walk:
    """Goes through the steps depth first, chunk by chunk."""

    def __init__(
        self,
        sink: SolutionSink,
        check: Callable[[], None],
        needed: frozenset[str],
        late: LateColumns,
        fan_out: float,
        *,
        counting: bool,
    ) -> None:
        self._counting = counting
        self._sink = sink
        self._needed = needed
        self._late = late
        self._fan_out = fan_out
        self._scanned = 0
        self._looking = check
        self._lock = RLock()
        self._stopped = False

    def run(self, steps: Sequence[ExtendStep]) -> None:
        """Push everything through the steps."""
        everything = Bindings(1, {})
        if not self._sink.shared() or not _can_be_shared(steps) or pool.threads() < 2:
            self.walk(steps, everything, self._sink, self._needed)
            return
        first, *rest = steps
        for batch in first.run(everything, self._needed.union(*(s.reads for s in rest))):
            self.check()
            self._scanned += batch.rows
            is_large = self._is_large(batch.rows)
            repeats = self._repeats(first, everything, batch, rest)
            if repeats:
                batch = self._late.distinct(batch, len(rest))
            batch, sink, needed = self._grouped(rest, batch, self._sink, self._needed)
            if is_large:
                for step in rest:
                    step.prepare()

                def walk(
                    part: Bindings,
                    sink: Taker = sink,
                    needed: frozenset[str] = needed,
                    repeats: bool = repeats and sink is self._sink,
                ) -> None:
                    self.walk(rest, part, sink, needed, repeats)

                size = -(-batch.rows // (2 * pool.threads()))
                pool.in_parts(walk, batch.parts(size), self._stop)
            elif batch.rows:
                self.walk(rest, batch, sink, needed, repeats and sink is self._sink)

    def _repeats(
        self, step: ExtendStep, before: Bindings, longer: Bindings, rest: Sequence[ExtendStep]
    ) -> bool:
        """Whether solutions behind a step may be the same, and are joined with more."""
        dropped = (before.columns.keys() | step.binds) - longer.columns.keys()
        joins = any(each.is_walk or each.is_join for each in rest)
        return bool(not self._counting and dropped and joins and longer.columns)

    def _grouped(
        self, steps: Sequence[ExtendStep], frontier: Bindings, sink: Taker, needed: frozenset[str]
    ) -> tuple[Bindings, Taker, frozenset[str]]:
        """Groups instead of solutions (late_materialization.py), where that pays."""
        if sum(step.is_join for step in steps) < 2:  # a test costs less than grouping
            return frontier, sink, needed
        reads = frozenset[str]().union(*(step.reads for step in steps))
        live = [name for name in frontier.columns if name in reads]
        groups = self._late.grouped(frontier, len(steps), live)
        if groups is None:
            return frontier, sink, needed
        return groups.frontier, Crossing(groups, sink, self.check), needed | {groups.mark}

    def _tests(self, steps: Sequence[ExtendStep]) -> Tests | None:
        """The last steps of a rule, if they are nothing but tests."""
        if not all(step.is_test for step in steps):
            return None

        def passing(frontier: Bindings, some: Sequence[int]) -> Words:
            kept: list[Words] = [np.empty(0, np.uint32)]
            numbers = np.arange(frontier.rows, dtype=np.uint32)
            marked = Bindings(frontier.rows, {**frontier.columns, _ROW: numbers})
            sink = SolutionSink(lambda found: kept.append(found.columns[_ROW]))
            self.walk([steps[i] for i in some], marked, sink, frozenset((_ROW,)))
            return np.concatenate(kept)

        return Tests(steps, tuple(step.reads for step in steps), passing)

    def fan_out(self) -> float:
        """How many solutions came of a fact that the walk started from; 1 if that is not known."""
        return self._sink.count / self._scanned if self._scanned else 1.0

    def _is_large(self, rows: int) -> bool:
        least, many = thresholds.now.batch_alone, thresholds.now.batch_in_threads
        return rows >= min(least, many) and rows * max(1, self._fan_out) >= many

    def _stop(self) -> None:
        """Let no thread go on: Python tells only the main one that the user has had enough."""
        self._stopped = True

    def check(self) -> None:
        """Raise if the rule is to stop."""
        if self._stopped:
            raise KeyboardInterrupt
        with self._lock:
            self._looking()

    def walk(
        self,
        steps: Sequence[ExtendStep],
        frontier: Bindings,
        sink: Taker | None = None,
        needed: frozenset[str] | None = None,
        repeats: bool = False,
    ) -> None:
        """Push a frontier through some steps and whatever comes out into a sink.

        If it `repeats`, solutions that tests let through are told apart before they are joined.
        """
        sink = self._sink if sink is None else sink
        needed = self._needed if needed is None else needed
        for i, step in enumerate(steps):
            if not step.is_single:
                rest = steps[i + 1 :]
                if i and repeats and step.binds:
                    frontier = self._late.distinct(frontier, -len(rest))
                lookup = step.lookup
                tests = None if lookup is None else self._tests(rest)
                if (
                    lookup is not None
                    and tests is not None
                    and not lookup.is_narrow(frontier)
                    and sink.direct(lookup, frontier, self.check, tests)
                ):
                    return
                keep = needed.union(*(s.reads for s in rest))
                for longer in step.run(frontier, keep):
                    self.check()
                    if longer.rows:
                        repeats = self._repeats(step, frontier, longer, rest)
                        if repeats:
                            longer = self._late.distinct(longer, len(rest))
                        groups = self._grouped(rest, longer, sink, needed)
                        self.walk(rest, *groups, repeats and groups[1] is sink)
                return
            try:
                if i and repeats and step.is_walk:
                    frontier = self._late.distinct(frontier, i - len(steps))
                frontier = step.apply(frontier)
            except ArithmeticError:
                if (later := _put_off(steps[i:])) is None:
                    raise
                self.walk(later, frontier, sink, needed)
                return
            if not frontier.rows:
                return
        sink(frontier)


def _can_be_shared(steps: Sequence[ExtendStep]) -> bool:
    """Whether there is a scan, and what follows changes nothing."""
    return len(steps) > 1 and steps[0].lookup is not None and all(s.is_pure for s in steps)


def _put_off(steps: Sequence[ExtendStep]) -> list[ExtendStep] | None:
    """The steps with the first one behind all that do not need it; None if all do."""
    first, *others = steps
    waiting = set(first.binds)
    before: list[ExtendStep] = []
    after: list[ExtendStep] = []
    for step in others:
        needs = not waiting.isdisjoint(step.reads) or not waiting.isdisjoint(step.binds)
        if needs:
            waiting |= step.binds
        (after if needs else before).append(step)
    return [*before, first, *after] if before else None
