"""What an aggregate column keeps for each group, and how solutions change it.

    Best     min, max, mmin, mmax: the best rank
    TextBest the same of texts that rules make, whose words are in no order
    Sum      sum, count, msum, mcount, countd: a total, of plain amounts and of contributors' places
    Average  avg: a total and how many
    DecimalSum, DecimalMean  the same of decimals
    Gathered median, quantile, arg_min …: all solutions

Groups are numbered by whoever owns the column. `ranks(groups)` gives the current values. What is
kept can be taken out as arrays and put back, so that it can be saved: `columns` and `restore` for
the groups, and likewise `places` for contributors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from caladan.columns.decimals import DecimalColumn, decimals_from, decimals_of
from caladan.columns.domains import Domain, TextDomain, encode
from caladan.columns.interner import Tuples
from caladan.columns.kernels import groups as kernels
from caladan.columns.layout import Counts, Mask, Words, grown
from caladan.columns.ranks import CODED, Ranks, float_ranks, rank_floats
from caladan.join.arithmetic import Infinite, OutOfType, Overflow, ValueColumn, report_failures
from caladan.program.aggregates import AggregateFunction
from caladan.program.functions import CallFailed
from caladan.program.kinds import Kind
from caladan.program.operations import mean
from caladan.program.types import Type
from caladan.rules.program import Contributors


class Accumulator:
    """The state of an aggregate column: an entry for each group in each of some arrays."""

    places: ContributorValues | None = None
    """The contributors, where they are told apart."""
    keeps_texts = False
    """Whether it keeps words of a dictionary that grows, which only `add` puts back."""

    def __init__(self, *types: type[Any]) -> None:
        self._kept: list[NDArray[Any]] = [np.empty(0, each) for each in types]

    def nbytes(self) -> int:
        """What is kept takes."""
        places = 0 if self.places is None else self.places.nbytes()
        return sum(each.nbytes for each in self._kept) + places

    def columns(self, groups: int) -> list[NDArray[Any]]:
        """All that is kept for the first so many groups."""
        return [each[:groups] for each in self._kept]

    def restore(self, columns: Sequence[NDArray[Any]]) -> None:
        """Keep what `columns` gave, in arrays that are ours from now on."""
        self._kept = list(columns)

    def grow(self, groups: int) -> None:
        """Make room for so many groups."""
        self._kept = [grown(each, groups) for each in self._kept]

    def expect(self, place: Contributors, domains: tuple[Domain, ...]) -> None:
        """A rule will give amounts of contributors, whose keys are of these domains."""
        del domains
        if self.places is not None:
            self.places.expect(place)

    def add(self, groups: Counts, amounts: ValueColumn, solutions: Counts | None = None) -> None:
        """Take an amount for each of the groups: of a solution, or of so many added up."""
        raise NotImplementedError

    def place(
        self, groups: Counts, amounts: ValueColumn, place: Contributors, keys: tuple[Words, ...]
    ) -> None:
        """Take amounts of contributors that are known by their keys, group by group."""
        del place, keys
        self.add(groups, amounts)

    def ranks(self, groups: Counts) -> Ranks:
        """The current values of groups."""
        raise NotImplementedError

    def _placed(
        self, place: Contributors, groups: Counts, keys: tuple[Words, ...], amounts: NDArray[Any]
    ) -> tuple[Counts, Words, NDArray[Any], NDArray[Any], Mask, bool]:
        assert self.places is not None
        return self.places.given(place, groups, keys, amounts)


def accumulator(row: AggregateFunction, domain: Domain, type: Type) -> Accumulator:
    """The state for an aggregate over a column of some type and domain."""
    match row.kernel:
        case "least" | "greatest":
            if isinstance(domain, TextDomain):
                return TextBest(domain, smaller=row.is_least)
            return Best(smaller=row.is_least)
        case "mean" | "total" if domain.kind is Kind.DECIMAL:
            assert isinstance(domain, TextDomain), "what is added up is in a dictionary that grows"
            return (DecimalMean if row.is_mean else DecimalSum)(domain, type)
        case "mean":
            return Average()
        case "total":
            return FloatSum() if domain.kind is Kind.FLOAT else IntegerSum()
        case "gathered":
            return Gathered(row, domain)
        case "folded":
            return Folded(row, domain)


class Best(Accumulator):
    """The smallest or largest rank of each group."""

    def __init__(self, *, smaller: bool) -> None:
        super().__init__(np.int64, np.bool_)
        self._smaller = smaller

    def add(self, groups: Counts, amounts: ValueColumn, solutions: Counts | None = None) -> None:
        best, known = self._kept
        kernels.improve(groups, amounts.ranks, best, known, self._smaller)

    def ranks(self, groups: Counts) -> Ranks:
        return self._kept[0][groups]


class TextBest(Best):
    """The smallest or largest text of each group, among texts that rules make.

    A batch is put in order together with the texts that its groups have. These are words of a
    dictionary that grows, so nothing is handed out to be saved: `add` puts them back.
    """

    keeps_texts = True

    def __init__(self, domain: TextDomain, *, smaller: bool) -> None:
        super().__init__(smaller=smaller)
        self._domain = domain

    def columns(self, groups: int) -> list[NDArray[Any]]:
        return []

    def restore(self, columns: Sequence[NDArray[Any]]) -> None:
        assert not columns

    def add(self, groups: Counts, amounts: ValueColumn, solutions: Counts | None = None) -> None:
        held, is_known = self._kept
        each, of = np.unique(groups, return_inverse=True)
        known = is_known[each]
        words = np.concatenate((amounts.data.astype(np.int64), held[each[known]]))
        different, places = np.unique(words, return_inverse=True)
        order = self._domain.order(different.astype(np.uint32))
        ranks = order[places]
        best: Ranks = np.zeros(len(each), np.int64)
        best[known] = ranks[len(groups) :]
        kernels.improve(
            of.astype(np.int64), ranks[: len(groups)].copy(), best, known, self._smaller
        )
        held[each] = different[np.argsort(order)][best]
        is_known[each] = True


class ContributorValues:
    """The contributors of a column: their numbers by place, group and key, and what each holds.

    Solutions of contributors have tables of the same kind, by group, contributor and solution.
    """

    def __init__(self, dtype: Any) -> None:
        self._tables: dict[str, tuple[Tuples, NDArray[Any], Mask]] = {}
        self._solutions: dict[str, dict[str, int]] = {}  # the tables of a place, how long its keys
        self._chains: dict[str, tuple[int, Words, Words]] = {}
        self.dtype = dtype

    def nbytes(self) -> int:
        """What the tables and the chains take."""
        arrays = [each for _, *pair in self._chains.values() for each in pair]
        for tuples, *pair in self._tables.values():
            arrays += [tuples, *pair]
        return sum(each.nbytes for each in arrays)

    def expect(self, place: Contributors) -> None:
        """A rule will put amounts there."""
        if place.solutions is not None:
            self._solutions.setdefault(place.place, {})[place.solutions] = place.width

    def columns(self, table: str) -> list[NDArray[Any]]:
        """The contributors of a table: groups, keys, what each holds, and whether it does."""
        if table not in self._tables:
            return []
        tuples, held, known = self._tables[table]
        return [*tuples.columns(), held[: len(tuples)], known[: len(tuples)]]

    def restore(self, table: str, columns: Sequence[NDArray[Any]]) -> None:
        """Keep what `columns` gave, in arrays that are ours from now on."""
        *keys, held, known = columns
        tuples = Tuples(len(keys))
        tuples.ids(keys, len(held))
        self._tables[table] = (tuples, held, known)
        self._chains.pop(table, None)

    def of(
        self, table: str, groups: Counts, keys: tuple[Words, ...]
    ) -> tuple[Words, NDArray[Any], Mask]:
        """The numbers of contributors, and the arrays of held amounts and of who holds one."""
        if table not in self._tables:
            empty: Mask = np.empty(0, np.bool_)
            self._tables[table] = (Tuples(1 + len(keys)), np.empty(0, self.dtype), empty)
        tuples, held, known = self._tables[table]
        numbers, _ = tuples.ids([groups.astype(np.uint32), *keys], len(groups))
        held, known = grown(held, len(tuples)), grown(known, len(tuples))
        self._tables[table] = (tuples, held, known)
        return numbers, held, known

    def given(
        self, place: Contributors, groups: Counts, keys: tuple[Words, ...], amounts: NDArray[Any]
    ) -> tuple[Counts, Words, NDArray[Any], NDArray[Any], Mask, bool]:
        """Groups, contributors and amounts; what the latter hold; whether the latest counts."""
        who, held, known = self.of(place.place, groups, keys[: place.width])
        if place.solutions is None:
            return groups, who, amounts, held, known, place.latest
        # Each contributor once, with the best of what its solutions have now.
        which, values, has = self.of(place.solutions, groups, keys)
        each, rows, of = np.unique(who, return_index=True, return_inverse=True)
        best, is_known = held[each], known[each]
        fallen: Mask = np.zeros(len(each), np.bool_)
        kernels.hold(
            of.astype(np.int64), which, amounts, values, has, place.latest, best, is_known, fallen
        )
        if fallen.any():
            best[fallen] = self._largest(place.place, each[fallen])
        return groups[rows], each, best, held, known, True

    def _largest(self, place: str, contributors: Words) -> NDArray[Any]:
        """The largest amount of all solutions that contributors have."""
        found: Mask = np.zeros(len(contributors), np.bool_)
        best = np.zeros(len(contributors), self.dtype)
        for table, width in self._solutions[place].items():
            if table in self._tables:
                first, following = self._chained(place, table, width)
                values = self._tables[table][1]
                kernels.largest(contributors, first, following, values, found, best)
        return best

    def _chained(self, place: str, table: str, width: int) -> tuple[Words, Words]:
        """The chains of the solutions in a table; those that are new are put into them."""
        nothing: Words = np.empty(0, np.uint32)
        done, first, following = self._chains.get(table, (0, nothing, nothing))
        solutions, contributors = self._tables[table][0], self._tables[place][0]
        first, following = grown(first, len(contributors)), grown(following, len(solutions))
        if done < len(solutions):
            keys = [column[done:] for column in solutions.columns()[: 1 + width]]
            numbers: Words = np.arange(done, len(solutions), dtype=np.uint32)
            kernels.chain(numbers, contributors.find(keys, len(numbers)), first, following)
        self._chains[table] = (len(solutions), first, following)
        return first, following


class IntegerSum(Accumulator):
    """Exact sums of integers."""

    def __init__(self) -> None:
        super().__init__(np.uint64, np.int64)
        self.places = ContributorValues(np.int64)

    def add(self, groups: Counts, amounts: ValueColumn, solutions: Counts | None = None) -> None:
        kernels.add_integers(groups, amounts.data, *self._kept)

    def place(
        self, groups: Counts, amounts: ValueColumn, place: Contributors, keys: tuple[Words, ...]
    ) -> None:
        given = self._placed(place, groups, keys, amounts.data)
        kernels.place_integers(*given, *self._kept)

    def ranks(self, groups: Counts) -> Ranks:
        found = self.wide(groups)
        if found.dtype == np.object_:
            raise Overflow
        return found

    def wide(self, groups: Counts) -> NDArray[Any]:
        """The sums of groups: numbers of 64 bits or, where some have more, Python's."""
        low, high = (each[groups] for each in self._kept)
        found = low.view(np.int64)
        if np.array_equal(high, found >> 63):
            return found
        pairs = zip(high.tolist(), low.tolist(), strict=True)
        return np.array([(above << 64) + below for above, below in pairs], object)


class FloatSum(Accumulator):
    """Sums of doubles, what rounding lost of each, and how often NaN and infinities are in it."""

    def __init__(self) -> None:
        super().__init__(np.float64, np.float64, np.int64)
        self.places = ContributorValues(np.float64)

    def columns(self, groups: int) -> list[NDArray[Any]]:
        *sums, special = self._kept
        apart = special[: 3 * groups].reshape(groups, 3).T
        return [*(each[:groups] for each in sums), *map(np.ascontiguousarray, apart)]

    def restore(self, columns: Sequence[NDArray[Any]]) -> None:
        total, error, *special = columns
        self._kept = [total, error, np.stack(special, axis=1).reshape(-1)]

    def grow(self, groups: int) -> None:
        total, error, special = self._kept
        self._kept = [grown(total, groups), grown(error, groups), grown(special, 3 * groups)]

    def add(self, groups: Counts, amounts: ValueColumn, solutions: Counts | None = None) -> None:
        kernels.add_floats(groups, amounts.widened(Kind.FLOAT).data, *self._kept)

    def place(
        self, groups: Counts, amounts: ValueColumn, place: Contributors, keys: tuple[Words, ...]
    ) -> None:
        numbers = amounts.widened(Kind.FLOAT).data
        kernels.place_floats(*self._placed(place, groups, keys, numbers), *self._kept)

    def numbers(self, groups: Counts) -> NDArray[np.float64]:
        """The sums of groups."""
        total, error, special = self._kept
        with np.errstate(all="ignore"):
            sums = total[groups] + error[groups]
        if not np.all(np.isfinite(sums)):
            raise Infinite
        odd = special[3 * groups[:, None] + np.arange(3)] > 0
        if odd.any():
            nan, plus, minus = odd.T
            sums[plus], sums[minus], sums[nan | (plus & minus)] = np.inf, -np.inf, np.nan
        return sums

    def ranks(self, groups: Counts) -> Ranks:
        return float_ranks(self.numbers(groups))


class Average(Accumulator):
    """Means of numbers, as doubles."""

    def __init__(self) -> None:
        super().__init__()
        self._sum = FloatSum()
        self._count = IntegerSum()

    def nbytes(self) -> int:
        return self._sum.nbytes() + self._count.nbytes()

    def columns(self, groups: int) -> list[NDArray[Any]]:
        return [*self._sum.columns(groups), *self._count.columns(groups)]

    def restore(self, columns: Sequence[NDArray[Any]]) -> None:
        self._sum.restore(columns[:5])
        self._count.restore(columns[5:])

    def grow(self, groups: int) -> None:
        self._sum.grow(groups)
        self._count.grow(groups)

    def add(self, groups: Counts, amounts: ValueColumn, solutions: Counts | None = None) -> None:
        self._sum.add(groups, amounts)
        ones: Counts = np.ones(len(groups), np.int64)
        self._count.add(groups, ValueColumn(Kind.INTEGER, ones if solutions is None else solutions))

    def ranks(self, groups: Counts) -> Ranks:
        return float_ranks(self._sum.numbers(groups) / self._count.ranks(groups))


# ── Decimals ─────────────────────────────────────────────────────────────────────────────────────

_PART: Final = 62  # bits
_PARTS: Final = 3


class DecimalSum(Accumulator):
    """Exact sums of decimals: an error where one leaves the type of its column.

    Amounts are words of a dictionary. They are decoded to whole numbers of the last digit that the
    column has, and added as integers; numbers of more than 64 bits are added in three parts.
    """

    def __init__(self, domain: TextDomain, type: Type) -> None:
        super().__init__()
        self._domain = domain
        self._type = type
        self._parts = [IntegerSum() for _ in range(_PARTS)]
        self.places = self._parts[0].places

    def nbytes(self) -> int:
        return sum(part.nbytes() for part in self._parts)

    def columns(self, groups: int) -> list[NDArray[Any]]:
        return [column for part in self._parts for column in part.columns(groups)]

    def restore(self, columns: Sequence[NDArray[Any]]) -> None:
        for i, part in enumerate(self._parts):
            part.restore(columns[2 * i : 2 * i + 2])

    def grow(self, groups: int) -> None:
        for part in self._parts:
            part.grow(groups)

    def add(self, groups: Counts, amounts: ValueColumn, solutions: Counts | None = None) -> None:
        numbers = self._numbers(amounts)
        if numbers.dtype != np.object_:
            self._parts[0].add(groups, ValueColumn(Kind.INTEGER, numbers))
            return
        rest = (1 << _PART) - 1
        for i, part in enumerate(self._parts):
            shifted = [each >> (_PART * i) for each in numbers]
            own = [each if i == _PARTS - 1 else each & rest for each in shifted]
            part.add(groups, ValueColumn(Kind.INTEGER, np.array(own, np.int64)))

    def place(
        self, groups: Counts, amounts: ValueColumn, place: Contributors, keys: tuple[Words, ...]
    ) -> None:
        numbers = self._numbers(amounts)
        if numbers.dtype == np.object_:
            raise OutOfType("decimal")  # what contributors hold has 64 bits
        self._parts[0].place(groups, ValueColumn(Kind.INTEGER, numbers), place, keys)

    def totals(self, groups: Counts) -> DecimalColumn:
        """The sums of groups."""
        low, *others = (part.wide(groups) for part in self._parts)
        if any(each.dtype == np.object_ or each.any() for each in others):
            low = low.astype(object)
            for i, each in enumerate(others):
                low = low + each.astype(object) * (1 << (_PART * (i + 1)))
        return DecimalColumn(low, self._type.width[1])

    def ranks(self, groups: Counts) -> Ranks:
        with report_failures():
            made = self.totals(groups).rounded(self._type)
        return self._domain.take_column(made.arrow()).astype(np.int64)

    def _numbers(self, amounts: ValueColumn) -> NDArray[Any]:
        words = amounts.data.astype(np.uint32)
        return decimals_of(self._domain.arrow(words, CODED[Kind.DECIMAL]), self._type).numbers


class DecimalMean(Accumulator):
    """Means of decimals, rounded half up to the digits that the column has."""

    def __init__(self, domain: TextDomain, type: Type) -> None:
        super().__init__()
        self._domain = domain
        self._type = type
        self._sum = DecimalSum(domain, type)
        self._count = IntegerSum()

    def nbytes(self) -> int:
        return self._sum.nbytes() + self._count.nbytes()

    def columns(self, groups: int) -> list[NDArray[Any]]:
        return [*self._sum.columns(groups), *self._count.columns(groups)]

    def restore(self, columns: Sequence[NDArray[Any]]) -> None:
        self._sum.restore(columns[: 2 * _PARTS])
        self._count.restore(columns[2 * _PARTS :])

    def grow(self, groups: int) -> None:
        self._sum.grow(groups)
        self._count.grow(groups)

    def add(self, groups: Counts, amounts: ValueColumn, solutions: Counts | None = None) -> None:
        self._sum.add(groups, amounts)
        ones: Counts = np.ones(len(groups), np.int64)
        self._count.add(groups, ValueColumn(Kind.INTEGER, ones if solutions is None else solutions))

    def ranks(self, groups: Counts) -> Ranks:
        sums = self._sum.totals(groups).python()
        counts = self._count.ranks(groups).tolist()
        with report_failures():
            means = [mean(a, b, self._type) for a, b in zip(sums, counts, strict=True)]
        made = decimals_from(means, self._type.width[1])
        return self._domain.take_column(made.arrow()).astype(np.int64)


class Folded(Accumulator):
    """What a function of the user's made of the values of each group so far, by rank."""

    def __init__(self, row: AggregateFunction, domain: Domain) -> None:
        super().__init__(np.int64, np.bool_)
        assert row.code is not None, row
        self._code = row.code
        self._identity = row.identity
        self._domain = domain
        self.keeps_texts = isinstance(domain, TextDomain)

    def columns(self, groups: int) -> list[NDArray[Any]]:
        return [] if self.keeps_texts else super().columns(groups)

    def restore(self, columns: Sequence[NDArray[Any]]) -> None:
        if not self.keeps_texts:
            super().restore(columns)

    def add(self, groups: Counts, amounts: ValueColumn, solutions: Counts | None = None) -> None:
        held, known = self._kept
        order = np.argsort(groups, kind="stable")
        each, values = self._combined(groups[order], self._values(amounts.ranks[order]))
        before = known[each]
        if before.any():
            values[before] = self._code.columns(self._values(held[each[before]]), values[before])
        held[each], known[each] = self._ranks(values), True

    def ranks(self, groups: Counts) -> Ranks:
        held, known = self._kept
        if known[groups].all():
            return held[groups]
        nothing = np.array([self._identity], object)  # where a head without groups has no solution
        return np.where(known[groups], held[groups], self._ranks(nothing))

    def _combined(self, groups: Counts, values: NDArray[Any]) -> tuple[Counts, NDArray[Any]]:
        """Each group once: neighbours are combined two by two, until there are none."""
        while True:
            starts = np.flatnonzero(np.diff(groups, prepend=-1))
            sizes = np.diff(np.append(starts, len(groups)))
            places = np.arange(len(groups)) - np.repeat(starts, sizes)
            left = np.flatnonzero((places % 2 == 0) & (places + 1 < np.repeat(sizes, sizes)))
            if not len(left):
                return groups, values
            values[left] = self._code.columns(values[left], values[left + 1])
            groups, values = np.delete(groups, left + 1), np.delete(values, left + 1)

    def _values(self, ranks: Ranks) -> NDArray[Any]:
        """Values as the function takes them, in an array that may change."""
        match self._domain.kind:
            case Kind.FLOAT:
                values = rank_floats(ranks)
            case Kind.BOOLEAN:
                values = ranks != 0
            case Kind.INTEGER:
                values = ranks.copy()
            case kind:
                listed = self._domain.arrow(self._domain.words(ranks), _ARROW[kind]).to_pylist()
                values = np.empty(len(listed), object)
                values[:] = listed
        return values if self._code.vectorized else values.astype(object)

    def _ranks(self, values: NDArray[Any]) -> Ranks:
        try:
            column = pa.chunked_array([pa.array(values.tolist(), _ARROW[self._domain.kind])])
        except (pa.ArrowException, OverflowError, TypeError) as problem:
            raise CallFailed(self._code.name, str(problem).partition("\n")[0]) from problem
        return self._domain.ranks(encode(column, self._domain))


class Gathered(Accumulator):
    """All solutions of each group, as the words of their terms; values are made when asked for."""

    def __init__(self, row: AggregateFunction, domain: Domain) -> None:
        super().__init__()
        self._row = row
        self._domain = domain
        self._terms: tuple[Domain, ...] = ()
        self._batches: list[tuple[Counts, tuple[Words, ...]]] = []

    def nbytes(self) -> int:
        return sum(each.nbytes for groups, terms in self._batches for each in (groups, *terms))

    def expect(self, place: Contributors, domains: tuple[Domain, ...]) -> None:
        self._terms = domains

    def gather(self, groups: Counts, terms: tuple[Words, ...]) -> None:
        """Take the terms of a solution for each of the groups."""
        self._batches.append((groups, terms))

    def ranks(self, groups: Counts) -> Ranks:
        numbers = np.concatenate([each for each, _ in self._batches])
        words = [
            np.concatenate(parts) for parts in zip(*(w for _, w in self._batches), strict=True)
        ]
        self._batches = [(numbers, tuple(words))]
        places = np.searchsorted(groups, numbers)
        asked = (places < len(groups)) & (groups[np.minimum(places, len(groups) - 1)] == numbers)
        if not asked.all():
            places, words = places[asked], [each[asked] for each in words]
        ordered = [_in_order(d, d.ranks(w)) for d, w in zip(self._terms, words, strict=True)]
        wanted = self._row.picks or tuple((i, False) for i in range(len(words)))
        keys = [~ordered[term] if descending else ordered[term] for term, descending in wanted]
        order = np.lexsort([*reversed(keys), places])
        starts = np.flatnonzero(np.diff(places[order], prepend=-1))
        words = [each[order] for each in words]
        if self._row.picks:
            return self._domain.ranks(words[0][starts])  # the column has the domain of the term
        if self._row.columns is not None:
            numbers = [_numbers(d, w) for d, w in zip(self._terms, words, strict=True)]
            found = self._row.columns(starts, *numbers)
            return float_ranks(found) if self._domain.kind is Kind.FLOAT else found
        return self._folded(starts, words)

    def _folded(self, starts: Counts, words: Sequence[Words]) -> Ranks:
        """Values that are made group by group, of Python's values."""
        row, over = self._row, self._row.over
        assert over is not None, row
        columns = [
            d.arrow(w, _ARROW[d.kind]).to_pylist() for d, w in zip(self._terms, words, strict=True)
        ]
        lifted = list(map(row.lift, *columns))
        ends = [*starts[1:].tolist(), len(lifted)]
        made = [over(lifted[a:b]) for a, b in zip(starts.tolist(), ends, strict=True)]
        values = pa.chunked_array([pa.array(made, _ARROW[self._domain.kind])])
        return self._domain.ranks(encode(values, self._domain))


_ARROW: Final[dict[Kind, pa.DataType]] = {
    **CODED,
    Kind.INTEGER: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.DATE: pa.date32(),
    Kind.INTERVAL: pa.duration("us"),
    Kind.DATETIME: pa.timestamp("us"),
    Kind.OBJECT: pa.int64(),
}
"""What values of a kind are in Arrow."""


def _in_order(domain: Domain, ranks: Ranks) -> Ranks:
    return domain.ordered(ranks) if isinstance(domain, TextDomain) else ranks


def _numbers(domain: Domain, words: Words) -> NDArray[Any]:
    ranks = domain.ranks(words)
    return rank_floats(ranks) if domain.kind is Kind.FLOAT else ranks
