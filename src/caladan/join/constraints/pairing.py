"""Pairing: an atom that no column ties to what is known, matched by what its columns amount to.

    t(A, B) <- p(A, X, Y), q(B, Z, W), X + Y = Z + W          an equation that has no solution
    o(A, B) <- iv(A, S, E), iv(B, T, F), S <= F, T <= E       intervals that overlap

Its facts are put in the order of a number: of a side of the equation, or of the column that stands
first. For each solution those that may match are a stretch of that order, found by two binary
searches. Of intervals, S <= F and F - T <= n say that T >= S - n. So they are told apart by how
long they are, up to twice as long in each list, and of each list a solution sees little but what
overlaps it: a few long intervals do not make it look at all the others.

Nothing that passes is left out, and everything is tested all the same: where something fails or
has no order, all facts are gone through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from caladan.columns.index import PackedIndex, RunMatches
from caladan.columns.layout import Counts, Keys
from caladan.columns.ranks import Ranks, magnitude
from caladan.columns.rows import RowIndex
from caladan.columns.runs import Run
from caladan.join.access import Equal, Overlap
from caladan.join.constraints.narrowing import Narrowing
from caladan.join.expressions import Evaluator
from caladan.join.frontier import Bindings
from caladan.program import thresholds
from caladan.program.functions import CallFailed
from caladan.program.kinds import Kind

_FAR: Final = 1 << 60
_SHIFTS: Final = {Kind.INTEGER: 0, Kind.DATE: 0, Kind.DATETIME: 0, Kind.INTERVAL: 0, Kind.FLOAT: 4}
"""By how much ranks are shifted, so that sums and differences of those of doubles fit."""

Texts: TypeAlias = dict[Any, int]  # of values that have no order, their numbers


@dataclass(frozen=True, slots=True)
class SortedFacts:
    """Facts in the order of their numbers; intervals among them are no longer than `reach`."""

    numbers: Ranks
    hits: Keys
    reach: int = 0


@dataclass(frozen=True, slots=True)
class PairedFacts:
    """Facts in order, and the numbers of texts that an equation computes."""

    how: Equal | Overlap
    lists: Sequence[SortedFacts]
    texts: Texts


@dataclass(slots=True, eq=False)
class Pairing:
    """How an atom's facts may be matched with what is known; they are put in order once."""

    evaluator: Evaluator
    ways: Sequence[Equal | Overlap]
    _made: tuple[tuple[Run, ...], PairedFacts | None] | None = None

    @property
    def reads(self) -> frozenset[str]:
        """The variables of what is known."""
        return frozenset[str]().union(*(how.given for how in self.ways))

    def matches(
        self,
        index: PackedIndex | RowIndex,
        facts: Callable[[], Iterator[Keys]],
        columns: Mapping[str, int],
        frontier: Bindings,
    ) -> RunMatches | None:
        """The facts that may match each solution; None if nobody can tell.

        `facts` are those of the atom, `columns` where variables stand in them.
        """
        made, runs = self._made, tuple(index.runs)
        # Runs never change; rows may have other values the next time.
        lasting = isinstance(index, PackedIndex) and index.is_exact
        if made is None or not lasting or not _are_same(made[0], runs):
            self._made = made = runs, self._best(index, facts, columns, frontier)
        return None if made[1] is None else self._found(index, made[1], frontier)

    def _best(
        self,
        index: PackedIndex | RowIndex,
        facts: Callable[[], Iterator[Keys]],
        columns: Mapping[str, int],
        frontier: Bindings,
    ) -> PairedFacts | None:
        """The facts in the order that leaves least to some solutions."""
        hits: Keys = np.concatenate([np.empty(0, np.uint64), *facts()])
        best: tuple[int, PairedFacts] | None = None
        some = frontier.sample(thresholds.now.sample)
        for how in self.ways:
            read = {name: index.column(hits, columns[name]) for name in how.taken}
            ordered = self._ordered(how, Bindings(len(hits), read), hits)
            found = None if ordered is None else self._found(index, ordered, some)
            if ordered is not None and found is not None and (not best or found.total < best[0]):
                best = found.total, ordered
        return None if best is None else best[1]

    def _found(
        self, index: PackedIndex | RowIndex, facts: PairedFacts, frontier: Bindings
    ) -> RunMatches | None:
        """The facts that may match each solution."""
        try:
            ends = self._ends(facts, frontier)
        except (ArithmeticError, CallFailed):
            return None
        if ends is None:
            return None
        low, high = ends
        stretches: list[tuple[Keys, Counts, Counts]] = []
        for each in facts.lists:
            begin = np.searchsorted(each.numbers, low - each.reach).astype(np.int64)
            end = np.searchsorted(each.numbers, high, side="right").astype(np.int64)
            stretches.append((each.hits, begin, np.maximum(end - begin, 0)))
        return RunMatches.at(index, frontier.rows, stretches)

    def _ordered(self, how: Equal | Overlap, facts: Bindings, hits: Keys) -> PairedFacts | None:
        """The facts in an order; None if they have none."""
        if isinstance(how, Overlap):
            lists = self._by_length(how, facts, hits)
            return None if lists is None else PairedFacts(how, lists, {})
        texts: Texts = {}
        try:
            ranks = self.evaluator.ranks(how.comparison, facts, _empty_frontier(how.given))
            if ranks is None:
                values = self.evaluator.python(how.comparison.left, facts)
                texts = {value: i for i, value in enumerate(dict.fromkeys(values))}
                numbers = np.array([texts[value] for value in values], np.int64)
            else:
                numbers = ranks[0]
        except (ArithmeticError, CallFailed):
            return None
        order = np.argsort(numbers, kind="stable")
        return PairedFacts(how, [SortedFacts(numbers[order], hits[order])], texts)

    def _by_length(self, how: Overlap, facts: Bindings, hits: Keys) -> list[SortedFacts] | None:
        """A list for intervals of each length, up to twice as long, in the order of the first."""
        ranks: list[Ranks] = []
        for name in (how.first, how.last):
            domain = self.evaluator.domain(name)
            if domain.kind not in _SHIFTS:
                return None
            ranks.append(domain.ranks(facts.columns[name]) >> _SHIFTS[domain.kind])
            if magnitude(ranks[-1]) > _FAR:
                return None
        first, last = ranks
        lengths = last - first
        classes = np.frexp(np.maximum(lengths, 0).astype(np.float64))[1]
        order = np.lexsort((first, classes))
        cuts = np.flatnonzero(np.diff(classes[order])) + 1
        return [
            SortedFacts(first[part], hits[part], int(lengths[part].max()))
            for part in np.split(order, cuts)
            if len(part)
        ]

    def _ends(self, facts: PairedFacts, frontier: Bindings) -> tuple[Ranks, Ranks] | None:
        """The least and the most number that may match each solution."""
        how = facts.how
        if isinstance(how, Equal):
            ranks = self.evaluator.ranks(how.comparison, _empty_frontier(how.taken), frontier)
            if ranks is not None:
                return ranks[1], ranks[1]
            values = self.evaluator.python(how.comparison.right, frontier)
            numbers = np.array([facts.texts.get(value, -1) for value in values], np.int64)
            return numbers, numbers
        first, last = self.evaluator.domain(how.first), self.evaluator.domain(how.last)
        low = Narrowing(self.evaluator, last, how.lower).ranks(frontier)[0]
        high = Narrowing(self.evaluator, first, how.upper).ranks(frontier)[1]
        if low is None or high is None:
            return None
        shift = _SHIFTS[first.kind]
        return np.clip(low >> shift, -_FAR, _FAR), high >> shift


def _empty_frontier(variables: frozenset[str]) -> Bindings:
    """A frontier without solutions."""
    return Bindings(0, {name: np.empty(0, np.uint32) for name in variables})


def _are_same(some: Sequence[Run], others: Sequence[Run]) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))
