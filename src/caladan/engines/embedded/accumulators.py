"""What an aggregate column keeps for each group, and how solutions change it.

    Best     min, max, mmin, mmax: the best rank
    Sum      sum, count, msum, mcount, countd: a total, of plain amounts and of contributors' places
    Average  avg: a total and how many

Groups are numbered by whoever owns the column. `ranks(groups)` gives the current values. What is
kept can be taken out as arrays and put back, so that it can be saved: `columns` and `restore` for
the groups, and likewise `places` for contributors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from caladan.columns.interner import Tuples
from caladan.columns.kernels import groups as kernels
from caladan.columns.layout import Counts, Mask, Words
from caladan.columns.ranks import Kind, Ranks, float_ranks
from caladan.engines.embedded.arithmetic import Overflow, Values
from caladan.program import AggregateFunction

SMALLEST: Final = ("min", "mmin")
LARGEST: Final = ("max", "mmax")
TOTALS: Final = ("sum", "msum", "count", "mcount", "countd")


class Accumulator(Protocol):
    """The state of an aggregate column."""

    @property
    def places(self) -> Places | None:
        """The contributors, where they are told apart."""
        ...

    def columns(self, groups: int) -> list[NDArray[Any]]:
        """All that is kept for the first so many groups."""
        ...

    def restore(self, columns: Sequence[NDArray[Any]]) -> None:
        """Keep what `columns` gave, in arrays that are ours from now on."""
        ...

    def grow(self, groups: int) -> None:
        """Make room for so many groups."""
        ...

    def add(self, groups: Counts, amounts: Values) -> None:
        """Take an amount for each of the groups."""
        ...

    def place(self, groups: Counts, amounts: Values, place: str, keys: tuple[Words, ...]) -> None:
        """Take amounts of contributors that are known by their keys, group by group."""
        ...

    def ranks(self, groups: Counts) -> Ranks:
        """The current values of groups."""
        ...


def accumulator(function: AggregateFunction, kind: Kind) -> Accumulator:
    """The state for a function over a column of some kind."""
    if function in SMALLEST or function in LARGEST:
        return Best(smaller=function in SMALLEST)
    if function == "avg":
        return Average()
    return FloatSum() if kind is Kind.FLOAT else IntegerSum()


class Best:
    """The smallest or largest rank of each group."""

    places = None

    def __init__(self, *, smaller: bool) -> None:
        self._smaller = smaller
        self._best: Ranks = np.empty(0, np.int64)
        self._known: Mask = np.empty(0, np.bool_)

    def columns(self, groups: int) -> list[NDArray[Any]]:
        return [self._best[:groups], self._known[:groups]]

    def restore(self, columns: Sequence[NDArray[Any]]) -> None:
        self._best, self._known = columns

    def grow(self, groups: int) -> None:
        self._best = grown(self._best, groups)
        self._known = grown(self._known, groups)

    def add(self, groups: Counts, amounts: Values) -> None:
        kernels.improve(groups, amounts.ranks, self._best, self._known, self._smaller)

    def place(self, groups: Counts, amounts: Values, place: str, keys: tuple[Words, ...]) -> None:
        self.add(groups, amounts)

    def ranks(self, groups: Counts) -> Ranks:
        return self._best[groups]


class Places:
    """The contributors of a column: their numbers by place, group and key, and what each holds."""

    def __init__(self, dtype: Any) -> None:
        self._tables: dict[str, tuple[Tuples, NDArray[Any], Mask]] = {}
        self.dtype = dtype

    def columns(self, place: str) -> list[NDArray[Any]]:
        """The contributors of a place: groups, keys, what each holds, and whether it does."""
        if place not in self._tables:
            return []
        tuples, held, known = self._tables[place]
        return [*tuples.columns(), held[: len(tuples)], known[: len(tuples)]]

    def restore(self, place: str, columns: Sequence[NDArray[Any]]) -> None:
        """Keep what `columns` gave, in arrays that are ours from now on."""
        *keys, held, known = columns
        tuples = Tuples(len(keys))
        tuples.ids(keys, len(held))
        self._tables[place] = (tuples, held, known)

    def of(
        self, place: str, groups: Counts, keys: tuple[Words, ...]
    ) -> tuple[Words, NDArray[Any], Mask]:
        """The numbers of contributors, and the arrays of held amounts and of who holds one."""
        if place not in self._tables:
            empty: Mask = np.empty(0, np.bool_)
            self._tables[place] = (Tuples(1 + len(keys)), np.empty(0, self.dtype), empty)
        tuples, held, known = self._tables[place]
        numbers, _ = tuples.ids([groups.astype(np.uint32), *keys], len(groups))
        held, known = grown(held, len(tuples)), grown(known, len(tuples))
        self._tables[place] = (tuples, held, known)
        return numbers, held, known


class IntegerSum:
    """Exact sums of integers."""

    def __init__(self) -> None:
        self._low: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._high: Ranks = np.empty(0, np.int64)
        self.places = Places(np.int64)

    def columns(self, groups: int) -> list[NDArray[Any]]:
        return [self._low[:groups], self._high[:groups]]

    def restore(self, columns: Sequence[NDArray[Any]]) -> None:
        self._low, self._high = columns

    def grow(self, groups: int) -> None:
        self._low = grown(self._low, groups)
        self._high = grown(self._high, groups)

    def add(self, groups: Counts, amounts: Values) -> None:
        kernels.add_integers(groups, amounts.data, self._low, self._high)

    def place(self, groups: Counts, amounts: Values, place: str, keys: tuple[Words, ...]) -> None:
        who, held, known = self.places.of(place, groups, keys)
        larger = "rule" not in place
        kernels.place_integers(
            groups, who, amounts.data, held, known, larger, self._low, self._high
        )

    def ranks(self, groups: Counts) -> Ranks:
        low = self._low[groups].view(np.int64)
        if np.any(self._high[groups] != low >> 63):
            raise Overflow
        return low


class FloatSum:
    """Sums of doubles."""

    def __init__(self) -> None:
        empty: NDArray[np.float64] = np.empty(0, np.float64)
        self._total = self._error = self._plain = empty
        self.places = Places(np.float64)

    def columns(self, groups: int) -> list[NDArray[Any]]:
        return [self._total[:groups], self._error[:groups], self._plain[:groups]]

    def restore(self, columns: Sequence[NDArray[Any]]) -> None:
        self._total, self._error, self._plain = columns

    def grow(self, groups: int) -> None:
        self._total = grown(self._total, groups)
        self._error = grown(self._error, groups)
        self._plain = grown(self._plain, groups)

    def add(self, groups: Counts, amounts: Values) -> None:
        numbers = amounts.widened(Kind.FLOAT).data
        kernels.add_floats(groups, numbers, self._total, self._error, self._plain)

    def place(self, groups: Counts, amounts: Values, place: str, keys: tuple[Words, ...]) -> None:
        who, held, known = self.places.of(place, groups, keys)
        numbers = amounts.widened(Kind.FLOAT).data
        kernels.place_floats(
            groups, who, numbers, held, known, "rule" not in place,
            self._total, self._error, self._plain,
        )  # fmt: skip

    def numbers(self, groups: Counts) -> NDArray[np.float64]:
        """The sums of groups."""
        plain = self._plain[groups]
        with np.errstate(all="ignore"):
            exact = self._total[groups] + self._error[groups]
        return np.where(np.isfinite(exact), exact, plain)

    def ranks(self, groups: Counts) -> Ranks:
        return float_ranks(self.numbers(groups))


class Average:
    """Means of numbers, as doubles."""

    places = None

    def __init__(self) -> None:
        self._sum = FloatSum()
        self._count = IntegerSum()

    def columns(self, groups: int) -> list[NDArray[Any]]:
        return [*self._sum.columns(groups), *self._count.columns(groups)]

    def restore(self, columns: Sequence[NDArray[Any]]) -> None:
        self._sum.restore(columns[:3])
        self._count.restore(columns[3:])

    def grow(self, groups: int) -> None:
        self._sum.grow(groups)
        self._count.grow(groups)

    def add(self, groups: Counts, amounts: Values) -> None:
        self._sum.add(groups, amounts)
        self._count.add(groups, Values(Kind.INTEGER, np.ones(len(groups), np.int64)))

    def place(self, groups: Counts, amounts: Values, place: str, keys: tuple[Words, ...]) -> None:
        self.add(groups, amounts)

    def ranks(self, groups: Counts) -> Ranks:
        return float_ranks(self._sum.numbers(groups) / self._count.ranks(groups))


def grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """An array with room for `size` entries, new ones 0."""
    if size <= len(array):
        return array
    larger = np.zeros(max(size, 2 * len(array), 16), array.dtype)
    larger[: len(array)] = array
    return larger
