"""An index: how to find the facts of a relation that agree with a batch on some columns.

A lookup goes: `key` packs the bound words, `find` gives the matches of each key: how many, and
chunk by chunk (row of the batch, key found); `column` then takes columns out of the keys found.
`present` only tells which keys have a match. `PackedIndex` is that of packed keys; a layout that
holds its facts in another way has an index of its own.

`RunMatches` finds each key's range in every run. Where a relation has several runs it accumulates
in mid-join, if that costs less: the distinct keys are found in each run, each run is restricted to
them, the restrictions are merged, and crossed with the batch. Cost is counted in searches and rows
touched: rows × runs against distinct keys × runs, and then against the merged rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from caladan.columns.interner import Interner
from caladan.columns.kernels import probe
from caladan.columns.layout import Counts, Keys, Mask, Packing, Words
from caladan.columns.runs import Run
from caladan.program import thresholds


class Index(Protocol):
    """A relation, or one version of it, by some bound columns."""

    @property
    def is_exact(self) -> bool:
        """Whether everything the runs hold belongs to the version."""
        ...

    def key(self, words: Mapping[int, Words | int], rows: int) -> tuple[Keys, int]:
        """Lookup keys for the bound columns, and the leading column's place in them."""
        ...

    def find(self, keys: Keys, lead: int) -> Matches:
        """The facts that agree with each key."""
        ...

    def present(self, keys: Keys, lead: int) -> Mask:
        """Which keys have a match."""
        ...

    def column(self, hits: Keys, column: int) -> Words:
        """A column of the facts found."""
        ...

    def alive(self, hits: Keys) -> Mask | None:
        """Which of the facts found belong to the version; None if the index is exact."""
        ...


class Matches(Protocol):
    """The facts that agree with each row of a batch, `total` of them."""

    @property
    def total(self) -> int:
        """How many facts there are for all rows."""
        ...

    def counts(self) -> Counts:
        """How many facts agree with each row."""
        ...

    def chunks(self, room: int) -> Iterator[tuple[Words, Keys]]:
        """Rows and the keys found for them, about `room` at a time."""
        ...


class RunIndex(Index, Protocol):
    """An index that looks into runs."""

    @property
    def runs(self) -> Sequence[Run]:
        """Where to look."""
        ...

    @property
    def shift(self) -> int:
        """By how much to shift the runs' keys to compare them with lookup keys."""
        ...


class RunMatches:
    """The facts of runs that agree with each row of a batch."""

    def __init__(self, index: RunIndex, keys: Keys, lead: int) -> None:
        self.index = index
        self._rows = len(keys)
        self._numbers: Counts | None = None  # of each row's key, if keys were told apart
        self._merged = False
        if (numbered := numbered_keys(keys, len(index.runs))) is not None:
            keys, self._numbers = numbered
        # A run's keys, and the stretch of each row's; until they are merged, of each distinct key.
        self._stretched = self._stretches(keys, lead)
        self.total = int(self.counts().sum())
        self.runs_met = len(self._stretched)
        """How many runs have some of the keys."""
        self.is_accumulated = self._numbers is not None and self._merging_pays()
        """Whether what they have is merged before it is crossed with the rows."""

    def _merging_pays(self) -> bool:
        """Whether crossing run by run touches more rows than there are to merge."""
        merged = sum(int(counts.sum()) for _, _, counts in self._stretched)
        return merged < self._rows * (len(self._stretched) - 1)

    def _stretches(self, keys: Keys, lead: int) -> list[tuple[Keys, Counts, Counts]]:
        """The runs that have some of the keys, and where."""
        index = self.index
        found: list[tuple[Keys, Counts, Counts]] = []
        for run in index.runs:
            starts: Counts = np.empty(len(keys), np.int64)
            counts: Counts = np.empty(len(keys), np.int64)
            sieve = run.filter(index.shift, len(keys))
            total = probe.ranges(
                keys, run.keys, index.shift, run.bounds, lead, sieve.bits, sieve.log, starts, counts
            )
            if total:
                found.append((run.keys, starts, counts))
        return found

    @property
    def _found(self) -> list[tuple[Keys, Counts, Counts]]:
        """The stretches of each row; what the runs have for distinct keys is merged for them."""
        found, numbers = self._stretched, self._numbers
        if numbers is not None:
            if self.is_accumulated:
                counts = _sum_lengths(found, len(found[0][1]))
                ends = np.cumsum(counts)
                merged: Keys = np.empty(int(ends[-1]), np.uint64)
                places = ends - counts
                for run, starts, each in found:
                    probe.copy_matches(run, starts, each, 0, len(counts), places, merged)
                found = [(merged, ends - counts, counts)]
                self._merged = True
            self._stretched = [(run, starts[numbers], each[numbers]) for run, starts, each in found]
            self._numbers = None
        return self._stretched

    def counts(self) -> Counts:
        if self._numbers is None or not self._stretched:
            return _sum_lengths(self._stretched, self._rows)
        return _sum_lengths(self._stretched, len(self._stretched[0][1]))[self._numbers]

    @property
    def stretches(self) -> tuple[Keys, Counts, Counts] | None:
        """The only run that has matches, with the start and the length of each row's."""
        found = self._found
        return found[0] if len(found) == 1 and not self._merged and self.index.is_exact else None

    @property
    def spans(self) -> list[tuple[Keys, Counts, Counts]] | None:
        """The runs that have matches, with the start and the length of each row's in order.

        None where matches of several runs were put together, or not all of them count.
        """
        found = self._found
        return found if not self._merged and self.index.is_exact else None

    def only(self, rows: Mask, skip: int = 0, most: int | None = None) -> RunMatches:
        """The facts that agree with some of the rows; the others have none.

        Of each run a row gets those behind the first few, and no more than asked for.
        """
        some = RunMatches.__new__(RunMatches)
        some.index, some._rows, some._numbers = self.index, self._rows, None
        some._stretched = [
            (run, starts + skip, np.clip(counts - skip, 0, most) * rows)
            for run, starts, counts in self._found
        ]
        some._merged = self._merged
        some.runs_met, some.is_accumulated = self.runs_met, self._merged
        some.total = int(some.counts().sum())
        return some

    @staticmethod
    def all_of(index: RunIndex, rows: int) -> RunMatches:
        """All facts, for each of some rows."""
        none: Counts = np.zeros(rows, np.int64)
        stretches = [(run.keys, none, none + len(run)) for run in index.runs if len(run)]
        return RunMatches.at(index, rows, stretches)

    @staticmethod
    def at(index: RunIndex, rows: int, stretches: list[tuple[Keys, Counts, Counts]]) -> RunMatches:
        """Facts in some stretches of lists, of each list one for each of some rows."""
        found = RunMatches.__new__(RunMatches)
        found.index, found._rows, found._numbers, found._merged = index, rows, None, False
        found._stretched = stretches
        found.runs_met, found.is_accumulated = len(stretches), False
        found.total = int(found.counts().sum())
        return found

    def within(self, shift: int, width: int, low: Words, high: Words) -> RunMatches:
        """The facts whose column lies between two words, for each row; others may be left in.

        It is the first column behind those that the rows agree in, and stands at `shift`.
        """
        some = self.only(np.ones(self._rows, np.bool_))
        if self._merged:  # lists of several runs are not sorted
            return some
        above, inside = np.uint64(shift + width), np.uint64((1 << shift) - 1)
        first, last = (words.astype(np.uint64) << np.uint64(shift) for words in (low, high))
        narrower: list[tuple[Keys, Counts, Counts]] = []
        for run, starts, counts in some._stretched:
            prefix: Keys = np.zeros(self._rows, np.uint64)
            if above < 64:
                there = np.where(counts > 0, starts, 0)
                prefix = run[there] >> above << above
            begin = np.searchsorted(run, prefix | first).astype(np.int64)
            end = np.searchsorted(run, prefix | last | inside, side="right").astype(np.int64)
            begin = np.maximum(begin, starts)
            narrower.append((run, begin, np.clip(end - begin, 0, counts)))
        some._stretched = narrower
        some.total = int(some.counts().sum())
        return some

    def chunks(self, room: int) -> Iterator[tuple[Words, Keys]]:
        """Rows and the keys found for them, about `room` at a time; a row's are never split."""
        if not self._found:
            return
        run, starts, counts = self._found[0]
        for _, _, more in self._found[1:]:
            counts = counts + more
        room = self.total if self.total <= room else max(room, int(counts.max()))
        used: Counts = np.zeros(1, np.int64)
        first = 0
        while first < self._rows:
            rows: Words = np.empty(room, np.uint32)
            hits: Keys = np.empty(room, np.uint64)
            if len(self._found) == 1:
                end = probe.spread(run, starts, counts, first, room, used, rows, hits)
            else:
                end = self._accumulated(counts, first, room, used, rows, hits)
            first = end
            if used[0]:
                yield self._living(rows[: used[0]], hits[: used[0]])

    def emitted(
        self, room: int, bases: Keys, moves: Sequence[tuple[int, int, int]]
    ) -> Iterator[Keys]:
        """Head keys: each row's base with columns of the keys found moved in, for all matches.

        A move is (shift in the key found, mask, shift in the head key).
        """
        from_shifts, masks, to_shifts = zip(*moves, strict=True)
        used: Counts = np.zeros(1, np.int64)
        for run, starts, counts in self._found:
            total = int(counts.sum())
            size = total if total <= room else max(room, int(counts.max()))
            first = 0
            while first < self._rows:
                out: Keys = np.empty(size, np.uint64)
                first = probe.emit(
                    run, starts, counts, first, size, bases,
                    np.array(from_shifts, np.int64), np.array(masks, np.uint64),
                    np.array(to_shifts, np.int64), used, out,
                )  # fmt: skip
                if used[0]:
                    yield out[: used[0]]

    def _accumulated(
        self, counts: Counts, first: int, room: int, used: Counts, rows: Words, hits: Keys
    ) -> int:
        places: Counts = np.empty(self._rows - first, np.int64)
        end = probe.find_fit(counts, first, room, used, rows, places)
        for run, starts, each in self._found:
            probe.copy_matches(run, starts, each, first, end, places, hits)
        return end

    def _living(self, rows: Words, hits: Keys) -> tuple[Words, Keys]:
        alive = self.index.alive(hits)
        return (rows, hits) if alive is None else (rows[alive], hits[alive])


def _sum_lengths(found: Sequence[tuple[Keys, Counts, Counts]], rows: int) -> Counts:
    """The lengths of the stretches of each row."""
    total: Counts = np.zeros(rows, np.int64)
    for _, _, counts in found:
        total += counts
    return total


def numbered_keys(keys: Keys, runs: int) -> tuple[Keys, Counts] | None:
    """Fewer keys to look for, and for each row the number of its own; None where it costs more.

    Telling keys apart by a table costs about four searches for each row, by flags where they are
    small numbers about one, and next to nothing where equal keys stand together. So it pays if rows
    × runs searches are well above that and those for distinct keys.

    >>> numbered_keys(np.array([5, 7], np.uint64), 3) is None
    True
    """
    least, rows = thresholds.now.accumulate, len(keys)
    if not least or runs < 2 or rows * runs <= least:
        return None

    def pays(distinct: int, price: int) -> bool:
        return (rows - distinct) * runs - rows * price >= least

    starts = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    if pays(2 * (len(starts) + 1), 0):
        starts = np.concatenate([np.zeros(1, np.int64), starts])
        lengths = np.diff(starts, append=rows)
        return keys[starts], np.repeat(np.arange(len(starts), dtype=np.int64), lengths)
    most = int(keys.max()) + 1
    if most <= rows:
        there: Mask = np.zeros(most, np.bool_)
        there[keys] = True
        distinct = np.flatnonzero(there)
        if not pays(len(distinct), 1):
            return None
        places = np.cumsum(there) - 1
        return distinct.astype(np.uint64), places[keys]
    if not pays(_distinct(keys), 4):
        return None
    known = Interner()
    numbers, _ = known.ids(keys)
    return known.keys, numbers.astype(np.int64)


def _distinct(keys: Keys) -> int:
    """About how many different keys there are: the more a sample repeats, the fewer.

    Of d keys a sample of m has m² / 2d pairs of equal ones.
    """
    sample = keys[:: max(1, len(keys) // 1024)]
    found = len(np.unique(sample))
    pairs = len(sample) - found
    if not pairs:
        return len(keys)
    return min(len(keys), max(found, len(sample) ** 2 // (2 * pairs)))


def present(index: RunIndex, keys: Keys, lead: int) -> Mask:
    """Which keys have a match."""
    found: Mask = np.zeros(len(keys), np.bool_)
    if not index.is_exact:
        for rows, _ in RunMatches(index, keys, lead).chunks(thresholds.now.room):
            found[rows] = True
        return found
    for run in index.runs:
        sieve = run.filter(index.shift, len(keys))
        probe.mark_present(
            keys, run.keys, index.shift, run.bounds, lead, sieve.bits, sieve.log, found
        )
    return found


class PackedIndex:
    """A version of a packed relation by its first columns in some order."""

    def __init__(
        self,
        packing: Packing,
        runs: Sequence[Run],
        bound: int,
        hidden: Callable[[Keys], Mask] | None = None,
    ) -> None:
        self.packing = packing
        self.runs = runs
        self._hidden = hidden
        self.shift = packing.prefix_shift(bound)
        self._bound = packing.order[:bound]

    @property
    def is_exact(self) -> bool:
        return self._hidden is None

    def key(self, words: Mapping[int, Words | int], rows: int) -> tuple[Keys, int]:
        return self.packing.prefix_key([words[c] for c in self._bound], rows)

    def find(self, keys: Keys, lead: int) -> RunMatches:
        return RunMatches(self, keys, lead)

    def present(self, keys: Keys, lead: int) -> Mask:
        return present(self, keys, lead)

    def column(self, hits: Keys, column: int) -> Words:
        return self.packing.column(hits, column)

    def alive(self, hits: Keys) -> Mask | None:
        return None if self._hidden is None else ~self._hidden(hits)
