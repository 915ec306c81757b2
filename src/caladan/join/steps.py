"""The steps of a body: each takes a frontier and hands on smaller or longer ones.

    LookupStep   extend the solutions by the facts of an atom that agree with them; where it binds
                 nothing that is read later, keep the solutions that have such a fact
    ProposeStep  several atoms that would each bind the same variable: for every solution the one
                 with the fewest facts proposes values, and the others confirm them
    ForkStep     two variables that an equation ties: for every solution the side with the fewest
                 facts proposes, and the other is computed and looked up
    ConsultStep  a variable that a constraint of the user's may propose, as atoms may (guided.py)
    SearchStep   all atoms that are left, by the guided search (guided.py), if a run asks for it
    SemijoinStep keep the solutions for which some atoms have a solution at all (semijoin.py)
    AbsentStep   keep the solutions for which a negated atom has no fact
    BindStep     a variable equals an expression: bind it
    TestStep     keep the solutions for which a comparison holds

Frontiers stay below about `room` rows (program/thresholds.py): a lookup that finds more hands them
on in chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np

from caladan.columns.domains import Domain, OffsetDomain, between, known_words
from caladan.columns.index import Index, Matches, RunMatches
from caladan.columns.kernels import meet
from caladan.columns.layout import Counts, Keys, Mask, Words
from caladan.columns.packed import PackedIndex
from caladan.columns.ranks import CODED, Kind
from caladan.columns.relation import StoredRelation
from caladan.columns.views import ColumnView
from caladan.join.access import Range
from caladan.join.arithmetic import Overflow
from caladan.join.expressions import Evaluator
from caladan.join.frontier import Bindings
from caladan.join.statistics import Statistics
from caladan.program import Comparison, Constant, Expression, Variable, thresholds
from caladan.program.transform import walk
from caladan.rules.body import Version, names

if TYPE_CHECKING:
    from caladan.join.guided import ConsultStep, SearchStep

_SMALL: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Where the values of a lookup's first new column lie, as comparisons say.

    It leaves out nothing that passes them, and they are tested all the same: where words are in no
    order, or computing an end fails, nothing is left out.
    """

    evaluator: Evaluator
    domain: Domain
    ends: Range

    def words(self, frontier: Bindings) -> tuple[Words, Words] | None:
        """The least and the most word for each solution; None if nothing is known."""
        if self.ends.moved and not self._is_small():
            return None
        try:
            low = self._end(self.ends.lower, frontier, np.maximum)
            high = self._end(self.ends.upper, frontier, np.minimum)
        except ArithmeticError:
            return None
        return None if low is None and high is None else between(self.domain, low, high)

    def _end(
        self,
        ends: Sequence[Expression],
        frontier: Bindings,
        narrower: Callable[[Counts, Counts], Counts],
    ) -> Counts | None:
        found: Counts | None = None
        for each in ends:
            if self.domain.kind in CODED and not self._is_alike(each):
                continue
            values = self.evaluator.values(each, frontier, None)
            if values.kind is self.domain.kind:
                found = values.ranks if found is None else narrower(found, values.ranks)
        return found

    def _is_alike(self, end: Expression) -> bool:
        """Whether an end has words of the same dictionary."""
        return isinstance(end, Variable) and self.evaluator.domain(end.name) is self.domain

    def _is_small(self) -> bool:
        """Whether sums and differences of the values cannot overflow, whatever is on which side."""
        domains = [self.domain, *map(self.evaluator.domain, names(*self.ends.moved))]
        constants = [each.value for each in walk(*self.ends.moved) if isinstance(each, Constant)]
        return all(isinstance(d, OffsetDomain) and abs(d.base) < _SMALL for d in domains) and all(
            isinstance(value, int) and abs(value) < _SMALL for value in constants
        )


@dataclass(frozen=True, slots=True)
class LookupStep:
    """An atom. Columns are bound by variables or words, checked after they are read, or new."""

    relation: StoredRelation | ColumnView
    version: Version
    bound: Mapping[int, str | int]
    checked: Mapping[int, str | int]
    new: Mapping[int, str]
    counting: bool
    within: Narrowing | None = None

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        given = (*self.bound.values(), *self.checked.values())
        ends = frozenset[str]() if self.within is None else self.within.ends.reads
        return (frozenset(v for v in given if isinstance(v, str)) | ends) - self.binds

    @property
    def binds(self) -> frozenset[str]:
        """The variables it binds."""
        return frozenset(self.new.values())

    def index(self) -> Index:
        """The relation by the bound columns, or by the one that lies in a range."""
        ranged = () if self.within is None else tuple(self.new)[:1]
        return self.relation.index(tuple(self.bound) or ranged, self.version)

    def matches(self, frontier: Bindings) -> Matches:
        """The facts that agree with the bound columns, where they may be."""
        index = self.index()
        return self._narrowed(
            index, index.find(*index.key(self.words(frontier), frontier.rows)), frontier
        )

    def _narrowed(self, index: Index, found: Matches, frontier: Bindings) -> Matches:
        """What was found without what lies elsewhere, if there is much of it."""
        few = thresholds.now.narrowing * (frontier.rows + 1)
        if self.within is None or found.total <= few:
            return found
        if not isinstance(found, RunMatches) or not isinstance(index, PackedIndex):
            return found
        packing, column = index.packing, next(iter(self.new))
        if packing.order[len(self.bound)] != column:
            return found
        ends = self.within.words(frontier)
        if ends is None:
            return found
        return found.within(packing.shifts[column], packing.widths[column], *ends)

    def sampled(self, rows: int) -> Bindings | None:
        """About so many facts with nothing bound, evenly spread; None if they are not in runs."""
        index = self.relation.index((), self.version)
        if not isinstance(index, PackedIndex):
            return None
        every = [run.keys for run in index.runs]
        step = max(1, sum(map(len, every)) // rows)
        hits = np.concatenate(
            [np.empty(0, np.uint64), *(keys[step // 2 :: step] for keys in every)]
        )
        one = np.zeros(len(hits), np.uint32)
        return self._extended(Bindings(1, {}), one, hits, index, self.binds)

    def is_narrow(self, frontier: Bindings) -> bool:
        """Whether comparisons leave little of what agrees with some of the solutions."""
        if self.within is None or not self.bound:
            return self.within is not None
        some = frontier.sample(thresholds.now.sample)
        every = replace(self, within=None).matches(some).total
        return self.matches(some).total * thresholds.now.narrow < every

    def free(self, frontier: Bindings) -> Matches | None:
        """With nothing bound: the facts where they may be for each solution; None for all."""
        if self.within is None:
            return None
        index = self.index()
        if not isinstance(index, PackedIndex):
            return None
        found = RunMatches.all_of(index, frontier.rows)
        narrower = self._narrowed(index, found, frontier)
        return None if narrower is found else narrower

    def counts(self, frontier: Bindings) -> Counts:
        """How many facts agree with each solution."""
        if self.bound:
            return self.matches(frontier).counts()
        return np.full(frontier.rows, self.relation.count())

    def run(self, frontier: Bindings, keep: frozenset[str]) -> Iterator[Bindings]:
        """The longer solutions, with the variables to keep."""
        if not self.bound:
            if (matches := self.free(frontier)) is not None:
                yield from self.spread(frontier, matches, keep)
            else:
                yield from self._cross(frontier, keep, thresholds.now.room)
        elif self.is_test(keep):
            index = self.index()
            keys, lead = index.key(self.words(frontier), frontier.rows)
            yield kept(frontier.where(_present(index, keys, lead)), keep)
        else:
            yield from self.spread(frontier, self.matches(frontier), keep)

    def is_test(self, keep: frozenset[str]) -> bool:
        """Whether all that matters is that there is a fact, if some variables are kept."""
        repeats = self.counting and len(self.bound) < self.relation.arity
        return bool(self.bound) and not (self.binds & keep or self.checked or repeats)

    def spread(
        self, frontier: Bindings, matches: Matches, keep: frozenset[str]
    ) -> Iterator[Bindings]:
        """The longer solutions of facts that were found, in runs as they were then."""
        index = matches.index if isinstance(matches, RunMatches) else self.index()
        for rows, hits in matches.chunks(thresholds.now.room):
            yield self._extended(frontier, rows, hits, index, keep)

    def words(self, frontier: Bindings) -> dict[int, Words | int]:
        """The words of the bound columns."""
        return {c: frontier.columns[v] if isinstance(v, str) else v for c, v in self.bound.items()}

    def _extended(
        self, frontier: Bindings, rows: Words, hits: Keys, index: Index, keep: frozenset[str]
    ) -> Bindings:
        needed = keep | {v for v in self.checked.values() if isinstance(v, str)}
        columns = frontier.at(rows, [n for n in frontier.columns if n in needed])
        for column, name in self.new.items():
            if name in needed:
                columns[name] = index.column(hits, column)
        extended = Bindings(len(hits), columns)
        if self.checked:
            good: Mask = np.ones(len(hits), np.bool_)
            for column, value in self.checked.items():
                wanted = columns[value] if isinstance(value, str) else np.uint32(value)
                good &= index.column(hits, column) == wanted
            extended = kept(extended.where(good), keep)
        return extended

    def _cross(self, frontier: Bindings, keep: frozenset[str], room: int) -> Iterator[Bindings]:
        """All facts for every solution, as many at a time as fit."""
        index, blocks = self.scanned(keep, room)
        for hits in blocks:
            yield from self.crossed(frontier, index, hits, keep)

    def scanned(self, keep: frozenset[str], room: int) -> tuple[Index, Iterator[Keys]]:
        """All facts, in blocks; of those that agree in what is kept one may do."""
        read = {column for column, name in self.new.items() if name in keep} | {*self.checked}
        needed = None if self.counting else frozenset(read)
        index = self.relation.index((), self.version)
        return index, self.relation.scan(self.version, room, needed)

    def crossed(
        self, frontier: Bindings, index: Index, hits: Keys, keep: frozenset[str]
    ) -> Iterator[Bindings]:
        """Some facts for every solution, as many at a time as fit."""
        step = max(1, thresholds.now.room // max(len(hits), 1))
        for start in range(0, frontier.rows, step):
            end = min(start + step, frontier.rows)
            if end - start == 1:
                rows = np.full(len(hits), start, np.uint32)
                found = hits
            else:
                rows = np.repeat(np.arange(start, end, dtype=np.uint32), len(hits))
                found = np.tile(hits, end - start)
            yield self._extended(frontier, rows, found, index, keep)


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
            self.statistics.share(self.variable, (self.names[number],), (made,), made)
            others = [self.confirming(each) for each in self.lookups if each is not lookup]
            for longer in proposed:
                there = _tested(longer, others)
                self.statistics.count(self.variable, longer.rows, there.rows)
                yield kept(there, keep)

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
        least = np.argmin(np.stack(counts), axis=0)
        lengths = [int(each[least == i].sum()) for i, each in enumerate(counts)]
        names = [n for n, each in zip(self.names, self.lookups, strict=True) if each.bound]
        most, total = sum(lengths), 0
        size = max(1, min(most, thresholds.now.room))
        budget = thresholds.now.search_budget
        work = (
            partial(meet.meet_two, *lists[0][:3], *lists[1][:3], *masks)
            if len(lists) == 2
            else partial(
                meet.meet, runs, np.stack(starts), np.stack(counts), np.array(masks, np.uint64)
            )
        )
        state = np.array([0, -1, 0, 0], np.int64)
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
            total += made
            columns = frontier.at(rows, old)
            if self.variable in keep:
                columns[self.variable] = words
            yield Bindings(len(rows), columns)
        self.statistics.share(self.variable, names, lengths, total)

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

    ways: tuple[tuple[ProposeStep, tuple[LookupStep | BindStep, ...]], ...]

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
        choice = np.argmin([first.least(frontier) for first, _ in self.ways], axis=0)
        needed = keep | self.reads | self.binds
        for number, (first, rest) in enumerate(self.ways):
            mine = choice == number
            if mine.any():
                for longer in first.run(frontier.where(mine), needed):
                    yield kept(self._through(longer, rest, needed), keep)

    def _through(
        self, frontier: Bindings, steps: Sequence[LookupStep | BindStep], keep: frozenset[str]
    ) -> Bindings:
        for step in steps:
            if isinstance(step, BindStep):
                frontier = step.apply(frontier)
            elif frontier.rows:
                frontier = next(step.run(frontier, keep))
        return frontier


@dataclass(frozen=True, slots=True)
class AbsentStep:
    """A negated atom; columns that match anything are not among the bound ones."""

    relation: StoredRelation
    bound: Mapping[int, str | int]

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        return frozenset(v for v in self.bound.values() if isinstance(v, str))

    @property
    def binds(self) -> frozenset[str]:
        """None."""
        return frozenset()

    def index(self) -> Index:
        """The relation by the bound columns."""
        return self.relation.index(tuple(self.bound), Version.FULL)

    def apply(self, frontier: Bindings) -> Bindings:
        """The solutions without a match."""
        if not self.bound:
            return frontier if not self.relation.count() else Bindings(0, {})
        index = self.index()
        words = {c: frontier.columns[v] if isinstance(v, str) else v for c, v in self.bound.items()}
        return frontier.where(~index.present(*index.key(words, frontier.rows)))


@dataclass(frozen=True, slots=True)
class BindStep:
    """A variable that is bound to an expression."""

    evaluator: Evaluator
    variable: str
    expression: Expression
    domain: Domain
    solved: bool

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        return names(self.expression)

    @property
    def binds(self) -> frozenset[str]:
        """The one it binds."""
        return frozenset((self.variable,))

    def apply(self, frontier: Bindings) -> Bindings:
        """The solutions with one more variable; what is looked for must be a known value."""
        try:
            if self.solved and self.domain.kind is Kind.INTEGER and not self.domain.grows:
                values = self.evaluator.values(self.expression, frontier, self.domain)
                words, known = known_words(self.domain, values.widened(self.domain.kind).ranks)
                longer = {**frontier.columns, self.variable: words}
                return Bindings(frontier.rows, longer).where(known)
            words = self.evaluator.words(self.expression, frontier, self.domain)
        except Overflow:
            if not self.solved:
                raise
            return self.apply(_computable(self.evaluator, (self.expression,), frontier))
        return Bindings(frontier.rows, {**frontier.columns, self.variable: words})


@dataclass(frozen=True, slots=True)
class TestStep:
    """A comparison."""

    evaluator: Evaluator
    comparison: Comparison

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        return names(self.comparison)

    @property
    def binds(self) -> frozenset[str]:
        """None."""
        return frozenset()

    def apply(self, frontier: Bindings) -> Bindings:
        """The solutions for which it holds; what is beyond 64 bits equals nothing that is known."""
        try:
            return frontier.where(self.evaluator.holds(self.comparison, frontier))
        except Overflow:
            if self.comparison.operator != "=":
                raise
            sides = (self.comparison.left, self.comparison.right)
            return self.apply(_computable(self.evaluator, sides, frontier))


_List: TypeAlias = "tuple[Keys, Counts, Counts, int]"  # a run, and for each row start and length


@dataclass(frozen=True, slots=True)
class SemijoinStep:
    """Steps that nothing is read of but whether they lead to a solution, for what is shared."""

    shared: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        return frozenset(self.shared)

    @property
    def binds(self) -> frozenset[str]:
        """None."""
        return frozenset()


_Joining: TypeAlias = "LookupStep | ProposeStep | ForkStep | ConsultStep | SearchStep"
Step: TypeAlias = "_Joining | SemijoinStep | AbsentStep | BindStep | TestStep"


@runtime_checkable
class Proposing(Protocol):
    """A step that binds what several could bind."""

    def least(self, frontier: Bindings) -> Counts:
        """How many values the one with the fewest has, for each solution."""
        ...


def _computable(
    evaluator: Evaluator, expressions: Sequence[Expression], frontier: Bindings
) -> Bindings:
    """The rows whose values fit, one by one: it is about a few at the end of the range."""
    good: Mask = np.ones(frontier.rows, np.bool_)
    reads = names(*expressions)
    for row in range(frontier.rows):
        one = Bindings(1, frontier.at(np.array([row], np.uint32), reads))
        try:
            for expression in expressions:
                evaluator.values(expression, one, None)
        except Overflow:
            good[row] = False
    return frontier.where(good)


def _tested(frontier: Bindings, lookups: Sequence[LookupStep]) -> Bindings:
    """The solutions that every lookup has a fact for."""
    for each in lookups:
        index = each.index()
        found = _present(index, *index.key(each.words(frontier), frontier.rows))
        frontier = frontier.where(found)
    return frontier


def _present(index: Index, keys: Keys, lead: int) -> Mask:
    """Which keys have a match that belongs to the version."""
    if index.is_exact:
        return index.present(keys, lead)
    found: Mask = np.zeros(len(keys), np.bool_)
    for rows, _ in index.find(keys, lead).chunks(thresholds.now.room):
        found[rows] = True
    return found


def kept(frontier: Bindings, keep: frozenset[str]) -> Bindings:
    """The solutions with some of their columns."""
    return Bindings(frontier.rows, {n: c for n, c in frontier.columns.items() if n in keep})
