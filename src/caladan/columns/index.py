"""An index: how to find the facts of a relation that agree with a batch on some columns.

A lookup goes: `key` packs the bound words, `Matches` finds each key's range in every run, and
spreads the ranges chunk by chunk into (row of the batch, key found); `column` then takes columns
out of the keys found. The matches of all runs are accumulated before they are crossed with the
batch, so the batch is passed over once however many runs there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from caladan.columns.kernels import probe
from caladan.columns.layout import Counts, Keys, Mask, Words
from caladan.columns.runs import Run


class Index(Protocol):
    """A relation, or one version of it, by some bound columns."""

    @property
    def runs(self) -> Sequence[Run]:
        """Where to look."""
        ...

    @property
    def shift(self) -> int:
        """By how much to shift the runs' keys to compare them with lookup keys."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether everything the runs hold belongs to the version."""
        ...

    def key(self, words: Mapping[int, Words | int], rows: int) -> tuple[Keys, int]:
        """Lookup keys for the bound columns, and the leading column's place in them."""
        ...

    def column(self, hits: Keys, column: int) -> Words:
        """A column of the facts found."""
        ...

    def alive(self, hits: Keys) -> Mask | None:
        """Which of the facts found belong to the version; None if the index is exact."""
        ...


class Matches:
    """The facts that agree with each row of a batch."""

    def __init__(self, index: Index, keys: Keys, lead: int) -> None:
        self._index = index
        self._rows = len(keys)
        self._found: list[tuple[Run, Counts, Counts]] = []
        self.total = 0
        for run in index.runs:
            starts: Counts = np.empty(len(keys), np.int64)
            counts: Counts = np.empty(len(keys), np.int64)
            total = probe.ranges(keys, run.keys, index.shift, run.bounds, lead, starts, counts)
            if total:
                self._found.append((run, starts, counts))
                self.total += total

    def chunks(self, room: int) -> Iterator[tuple[Counts, Keys]]:
        """Rows and the keys found for them, about `room` at a time; a row's are never split."""
        if not self._found:
            return
        counts = self._found[0][2]
        for _, _, more in self._found[1:]:
            counts = counts + more
        room = min(self.total, max(room, int(counts.max())))
        first = 0
        while first < self._rows:
            rows: Counts = np.empty(room, np.int64)
            end = probe.fitting(counts, first, room, rows)
            places: Counts = np.cumsum(counts[first:end])
            used = int(places[-1]) if len(places) else 0
            places -= counts[first:end]
            hits: Keys = np.empty(used, np.uint64)
            for run, starts, each in self._found:
                probe.copy_matches(run.keys, starts, each, first, end, places, hits)
            first = end
            if used:
                yield self._living(rows[:used], hits)

    def _living(self, rows: Counts, hits: Keys) -> tuple[Counts, Keys]:
        alive = self._index.alive(hits)
        return (rows, hits) if alive is None else (rows[alive], hits[alive])


def present(index: Index, keys: Keys, lead: int) -> Mask:
    """Which keys have a match."""
    found: Mask = np.zeros(len(keys), np.bool_)
    for run in index.runs:
        probe.mark_present(keys, run.keys, index.shift, run.bounds, lead, found)
    return found
