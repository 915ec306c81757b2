"""Lookups: an atom whose facts extend the solutions that agree with them.

Where it binds nothing that is read later, it keeps the solutions that have such a fact. Frontiers
stay below about `room` rows (program/thresholds.py): a lookup that finds more hands them on in
chunks. `Narrowing` cuts what is looked up to the range that comparisons leave, `Pairing` to what
an equation or an overlap leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace

import numpy as np

from caladan.columns.index import Index, Matches, PackedIndex, RunMatches
from caladan.columns.layout import Counts, Keys, Mask, Words
from caladan.columns.relation import StoredRelation
from caladan.columns.rows import RowIndex
from caladan.columns.views import ColumnView
from caladan.join.constraints.narrowing import Narrowing
from caladan.join.constraints.pairing import Pairing
from caladan.join.constraints.protocol import BodyConstraint
from caladan.join.frontier import Bindings
from caladan.join.statistics import Statistics
from caladan.program import thresholds
from caladan.rules.body import Version


@dataclass(frozen=True, slots=True)
class AtomLookup(BodyConstraint):
    """An atom. Columns are bound by variables or words, checked after they are read, or new."""

    is_single = False

    relation: StoredRelation | ColumnView
    version: Version
    bound: Mapping[int, str | int]
    checked: Mapping[int, str | int]
    new: Mapping[int, str]
    counting: bool
    within: Narrowing | None = None
    pairing: Pairing | None = None
    name: str = "atom"
    statistics: Statistics | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        given = (*self.bound.values(), *self.checked.values())
        ends = frozenset[str]() if self.within is None else self.within.ends.reads
        ends |= frozenset[str]() if self.pairing is None else self.pairing.reads
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
        found = self.find(index, *index.key(self.words(frontier), frontier.rows))
        return self._narrowed(index, found, frontier)

    def find(self, index: Index, keys: Keys, lead: int) -> Matches:
        """The facts that agree with each key; lookups in several runs are counted."""
        found = index.find(keys, lead)
        if isinstance(found, RunMatches) and found.runs_met > 1 and self.statistics is not None:
            self.statistics.looked_up(is_accumulated=found.is_accumulated)
        return found

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
        if self.pairing is not None:
            return True
        if self.within is None or not self.bound:
            return self.within is not None
        some = frontier.sample(thresholds.now.sample)
        every = replace(self, within=None).matches(some).total
        return self.matches(some).total * thresholds.now.narrow < every

    def found(self, frontier: Bindings) -> Matches | None:
        """The facts that may agree with each solution; None for all."""
        if self.pairing is not None and (paired := self._paired(self.pairing, frontier)):
            return paired
        return self.matches(frontier) if self.bound else self._free(frontier)

    def _paired(self, pairing: Pairing, frontier: Bindings) -> RunMatches | None:
        """The facts that an equation or an overlap leaves, if there are more than a few."""
        index = self.relation.index(tuple(self.bound), self.version)
        if self.relation.count() <= thresholds.now.narrowing or frontier.rows < 2:
            return None
        if not isinstance(index, PackedIndex | RowIndex):
            return None

        def facts() -> Iterator[Keys]:
            if self.bound:
                every = index.find(*index.key(self.words(frontier), 1))
                yield from (hits for _, hits in every.chunks(thresholds.now.room))
            else:
                yield from self.relation.scan(self.version, thresholds.now.room, None)

        columns = {name: column for column, name in self.new.items()}
        return pairing.matches(index, facts, columns, frontier)

    def _free(self, frontier: Bindings) -> Matches | None:
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

    def estimate(self, frontier: Bindings, var: str) -> Counts | None:
        """How many facts agree with each row."""
        return self.counts(frontier) if var in self.binds else None

    def propose(self, frontier: Bindings, var: str, counts: Counts) -> Iterator[Bindings]:
        """The rows with all that it binds."""
        del var, counts
        yield from self.run(frontier, self.binds | frontier.columns.keys())

    def confirm(self, frontier: Bindings, var: str = "") -> Bindings:
        """The rows that have a fact, by all that is bound."""
        del var
        known = self.known(frontier.columns.keys())
        return next(known.run(frontier, frozenset(frontier.columns)))

    def known(self, variables: Set[str]) -> AtomLookup:
        """The lookup that tests some variables instead of binding them."""
        tested = {c: name for c, name in self.new.items() if name in variables}
        new = {c: name for c, name in self.new.items() if name not in variables}
        return replace(self, bound={**self.bound, **tested}, new=new, within=None)

    def prepare(self) -> None:
        """Make the index."""
        self.index()

    def run(self, frontier: Bindings, keep: frozenset[str]) -> Iterator[Bindings]:
        """The longer solutions, with the variables to keep."""
        if self.is_test(keep):
            index = self.index()
            keys, lead = index.key(self.words(frontier), frontier.rows)
            yield projection(frontier.where(present(index, keys, lead)), keep)
        elif (matches := self.found(frontier)) is not None:
            yield from self.spread(frontier, matches, keep)
        else:
            yield from self._cross(frontier, keep, thresholds.now.room)

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

    def _read(self, keep: frozenset[str]) -> frozenset[str]:
        """The variables that are kept, or that columns are checked against."""
        return keep | {value for value in self.checked.values() if isinstance(value, str)}

    def _extended(
        self, frontier: Bindings, rows: Words, hits: Keys, index: Index, keep: frozenset[str]
    ) -> Bindings:
        needed = self._read(keep)
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
            extended = projection(extended.where(good), keep)
        return extended

    def _cross(self, frontier: Bindings, keep: frozenset[str], room: int) -> Iterator[Bindings]:
        """All facts for every solution, as many at a time as fit."""
        index, blocks = self.scanned(keep, room)
        for hits in blocks:
            yield from self.crossed(frontier, index, hits, keep)

    def scanned(self, keep: frozenset[str], room: int) -> tuple[Index, Iterator[Keys]]:
        """All facts, in blocks; of those that agree in what is kept one may do."""
        read = self._read(keep)
        columns = {column for column, name in self.new.items() if name in read} | {*self.checked}
        needed = None if self.counting else frozenset(columns)
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


def present(index: Index, keys: Keys, lead: int) -> Mask:
    """Which keys have a match that belongs to the version."""
    if index.is_exact:
        return index.present(keys, lead)
    found: Mask = np.zeros(len(keys), np.bool_)
    for rows, _ in index.find(keys, lead).chunks(thresholds.now.room):
        found[rows] = True
    return found


def projection(frontier: Bindings, keep: frozenset[str]) -> Bindings:
    """The solutions with some of their columns."""
    return Bindings(frontier.rows, {n: c for n, c in frontier.columns.items() if n in keep})
