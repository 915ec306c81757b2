"""One step of the search: candidates for one variable, for all rows of a frontier, in chunks.

For each row the constraint with the least weight proposes and the others confirm. Rows whose
proposer has sorted lists go through one kernel that intersects the lists of all constraints that
have such; what is left of the constraints confirms afterwards. Other rows are taken proposer by
proposer. Chunks hold at most the ramp's width, whatever one row may have: a step stops when a chunk
is full and resumes there.

Weights: what each constraint of a variable would propose, row by row; it decides who does.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from caladan.columns.kernels import candidates as kernels
from caladan.join.search.body import SearchBody
from caladan.join.search.constraint import Constraint, Listed, Lists, Partial
from caladan.join.search.frontier import Candidates, Counts, Frontier, Ramp, Rows, Var, Words
from caladan.join.statistics import Statistics
from caladan.program import thresholds


class Weights:
    """Counts, and lists if they are at hand, by the constraint's place among the variable's."""

    __slots__ = ("counts", "least", "lists")

    def __init__(self) -> None:
        self.counts: dict[int, Counts] = {}
        self.lists: dict[int, Lists] = {}
        self.least: Counts | None = None

    def add(self, place: int, counts: Counts, lists: Lists | None = None) -> None:
        """Note what one constraint has."""
        self.counts[place] = counts
        if lists is not None:
            self.lists[place] = lists
        self.least = counts if self.least is None else np.minimum(self.least, counts)

    def take(self, rows: Rows) -> Weights:
        """The weights of some rows."""
        taken = Weights()
        for place, counts in self.counts.items():
            lists = self.lists.get(place)
            taken.add(place, counts[rows], None if lists is None else lists.take(rows))
        return taken

    def proposers(self) -> list[tuple[int, Rows]]:
        """For each constraint the rows in which it has fewest candidates; in ties the first."""
        found: list[tuple[int, Rows]] = []
        if self.least is None:
            return found
        undecided = np.ones(len(self.least), np.bool_)
        for place, counts in self.counts.items():
            mine = undecided & (counts == self.least)
            undecided &= ~mine
            if mine.any():
                found.append((place, np.flatnonzero(mine)))
        return found


def extend(
    frontier: Frontier,
    var: Var,
    weights: Weights,
    body: SearchBody,
    ramp: Ramp,
    statistics: Statistics | None = None,
) -> Iterator[Candidates]:
    """Living candidates for a variable, chunk by chunk; their parents are rows of the frontier."""
    constraints = body.of[var]
    if weights.lists.keys() == weights.counts.keys() and len(weights.lists) <= kernels.MOST_LISTS:
        # The usual case: whoever can propose has a list, and the kernel sees itself who is least.
        step = _Step(frontier, var, constraints, ramp, statistics)
        yield from step.intersected(weights.lists, None, np.empty(0, np.int64))
        return
    proposers = weights.proposers()
    step = _Step(frontier, var, constraints, ramp, statistics)
    listed: dict[int, Lists] = {}
    if any(isinstance(constraints[place], Listed) for place, _ in proposers):
        listed = step.all_lists(weights.lists, [place for place, _ in proposers])
    which = np.full(len(frontier), -1)
    for place, rows in proposers:
        if place in listed:
            which[rows] = list(listed).index(place)
        else:
            yield from step.proposed(place, weights.counts[place], rows)
    rows = np.flatnonzero(which >= 0)
    if len(rows):
        yield from step.intersected(listed, rows, which[rows])


def stacked(lists: Sequence[Lists]) -> tuple[tuple[Words, ...], Any, Any]:
    """Lists as the kernels take them: all values, all lower and all upper bounds."""
    lo = np.stack([each.lo for each in lists])
    hi = np.stack([each.hi for each in lists])
    return tuple(each.values for each in lists), lo, hi


@dataclass(frozen=True, slots=True)
class _Step:
    frontier: Frontier
    var: Var
    constraints: Sequence[Constraint]
    ramp: Ramp
    statistics: Statistics | None

    def all_lists(self, known: Mapping[int, Lists], proposing: list[int]) -> dict[int, Lists]:
        """The lists of every constraint that has such, up to as many as the kernel takes."""
        found = dict(known)
        for place, constraint in enumerate(self.constraints):
            if place not in found and isinstance(constraint, Listed):
                lists = constraint.lists(self.frontier, self.var)
                if lists is not None:
                    found[place] = lists
        if len(found) <= kernels.MOST_LISTS:
            return found
        # Keep those that propose, and of the others the shortest.
        ranked = sorted(
            found, key=lambda place: (place not in proposing, int(found[place].counts.sum()))
        )
        return {place: found[place] for place in ranked[: kernels.MOST_LISTS]}

    def intersected(
        self, listed: Mapping[int, Lists], rows: Rows | None, which: Rows
    ) -> Iterator[Candidates]:
        """The rows (None: all) that lists propose for, through the kernel; `which` as there."""
        chosen = [lists if rows is None else lists.take(rows) for lists in listed.values()]
        values, lo, hi = stacked(chosen)
        end = lo.shape[1]
        budget = thresholds.now.search_budget
        most = int(np.minimum.reduce(hi - lo).sum()) if end else 0
        state = np.array([0, -1, 0, 0])
        total = 0
        while state[0] < end:
            cap = max(min(self.ramp.width, most), 1)
            parents = np.empty(cap, np.int64)
            words = np.empty(cap, np.int64)
            if len(values) == 2:
                kernels.intersect_two(*values, lo, hi, which, budget, state, parents, words)
            else:
                kernels.intersect(values, lo, hi, which, budget, state, parents, words)
            written, made = int(state[2]), int(state[3])
            parents = parents[:written] if rows is None else rows[parents[:written]]
            candidates = Candidates.of(self.frontier, self.var, words[:written], parents)
            yield self._confirmed(candidates, listed, made)
            total += made
        if self.statistics is not None and self.statistics.details and end:
            counts = hi - lo
            least = which if len(which) else np.argmin(counts, axis=0)
            lengths = np.bincount(least, counts[least, np.arange(end)], len(listed))
            names = [str(self.constraints[place]) for place in listed]
            self.statistics.share(self.var, names, lengths.astype(int).tolist(), total)

    def proposed(self, place: int, counts: Counts, rows: Rows) -> Iterator[Candidates]:
        """The rows that one other constraint proposes for, at most a width at a time."""
        proposer = self.constraints[place]
        ends = np.cumsum(np.minimum(counts[rows], 1 << 40))
        at = 0
        while at < len(rows):
            before = int(ends[at - 1]) if at else 0
            end = int(np.searchsorted(ends, before + self.ramp.width, side="right"))
            part = rows[at : max(end, at + 1)]
            at += len(part)
            for candidates in self._chunks(proposer, part, int(counts[part[0]])):
                self._name(place, len(candidates))
                yield self._confirmed(candidates, (place,), len(candidates))

    def _chunks(self, proposer: Constraint, rows: Rows, first: int) -> Iterator[Candidates]:
        some = self.frontier.take(rows)
        if len(rows) == 1 and first > self.ramp.width and isinstance(proposer, Partial):
            skip, is_full = 0, True
            while is_full:
                limit = self.ramp.width
                part = proposer.propose_part(some, self.var, skip, limit)
                is_full = len(part) == limit
                skip += limit
                parents = np.full(len(part), rows[0], np.int64)
                yield Candidates.of(self.frontier, self.var, part.values, parents)
            return
        proposed = proposer.propose(some, self.var)
        at = 0
        while at < len(proposed):
            cut = slice(at, at + self.ramp.width)
            at = cut.stop
            parents = rows[proposed.parents[cut]]
            yield Candidates.of(self.frontier, self.var, proposed.values[cut], parents)

    def _name(self, place: int, proposed: int) -> None:
        """Note who proposed so much."""
        if self.statistics is not None and self.statistics.details and proposed:
            self.statistics.proposers[self.var, str(self.constraints[place])] += proposed

    def _confirmed(self, candidates: Candidates, done: Container[int], proposed: int) -> Candidates:
        """Let the constraints that had no say yet kill."""
        if len(candidates):
            for place, constraint in enumerate(self.constraints):
                if place not in done:
                    constraint.confirm(candidates)
        living = candidates.living()
        if self.statistics is not None:
            self.statistics.count(self.var, proposed, len(living))
        return living
