"""A frontier: a batch of partial solutions, one column of words for each variable bound so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from caladan.columns.kernels import packs
from caladan.columns.layout import Mask, Words


@dataclass(frozen=True, slots=True)
class Bindings:
    """`rows` solutions; a variable that nothing reads any more has no column."""

    rows: int
    columns: Mapping[str, Words]

    def where(self, keep: Mask) -> Bindings:
        """The solutions whose flag is set."""
        rows = int(np.count_nonzero(keep))
        if rows == self.rows:
            return self
        columns: dict[str, Words] = {}
        for name, words in self.columns.items():
            out: Words = np.empty(self.rows, np.uint32)
            packs.compress(words, keep, out)
            columns[name] = out[:rows]
        return Bindings(rows, columns)

    def at(self, rows: Words, names: Iterable[str]) -> dict[str, Words]:
        """Some columns at given rows, repeated or not."""
        columns: dict[str, Words] = {}
        for name in names:
            out: Words = np.empty(len(rows), np.uint32)
            packs.gather(self.columns[name], rows, out)
            columns[name] = out
        return columns

    def parts(self, rows: int) -> Iterator[Bindings]:
        """The solutions, so many at a time."""
        for start in range(0, self.rows, rows):
            end = min(start + rows, self.rows)
            yield Bindings(end - start, {n: c[start:end] for n, c in self.columns.items()})

    def sample(self, rows: int) -> Bindings:
        """About so many solutions, evenly spread."""
        if self.rows <= rows:
            return self
        picked: Words = np.linspace(0, self.rows - 1, rows).astype(np.uint32)
        return Bindings(rows, self.at(picked, self.columns))
