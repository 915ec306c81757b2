"""Rollups: parts of a body that only aggregates read, solved once for what they share.

A `RollupConstraint` numbers the different values of its shared variables. For those that are new
it goes through its steps, which may be rollups themselves, and adds up what their solutions give;
rows whose values have no solution fall out. A row is handed on with the number of its values, under
the name of each amount: `AmountDomain` makes the amount of it, so that expressions read it like any
other variable.

Amounts of parts that have no solution with the rest may fail, and so may sums that would cancel
out in the end: then the walk puts the step off, or the rule is gone through solution by solution
(`RulePlan.run`). Only a number of solutions beyond 64 bits is a failure for good.

Windows: where the part is one atom and comparisons of one of its columns, the facts of a row stand
together in a sorted run. So their count is a distance, the least and the most are the first and the
last, and a sum is the difference of two sums over the run:

    next(U, T, min<S>) <- ev(U, T, _), ev(U, S, _), S > T.
    busy(U, T, count<_>, sum<K>) <- ev(U, T, _), ev(U, S, K), S >= T, S - T <= 60.

Where words are in no order, ends cannot be computed, or a sum might not fit, facts are listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from caladan.columns.domains import find_between
from caladan.columns.index import RunMatches
from caladan.columns.interner import Tuples
from caladan.columns.kernels import groups as kernels
from caladan.columns.layout import Counts, Keys, Mask, Words, grown
from caladan.columns.packed import PackedIndex
from caladan.columns.ranks import CODED, LEAST, MOST, Ranks, nothing_yet, rank_floats
from caladan.join.access import Access, Amount, Check, Probe, Range
from caladan.join.arithmetic import Overflow, ValueColumn
from caladan.join.constraints.lookup import AtomLookup
from caladan.join.constraints.narrowing import Narrowing
from caladan.join.constraints.protocol import BodyConstraint
from caladan.join.eager import ONE
from caladan.join.expressions import Evaluator
from caladan.join.frontier import Bindings
from caladan.join.selections import isolate
from caladan.program import Expression, Type, Variable, names
from caladan.program.kinds import Kind

if TYPE_CHECKING:
    from caladan.join.extend import ExtendStep, Through


class Uncountable(Overflow):
    """There are more solutions than 64 bits can count."""


class AmountDomain:
    """An amount of a rollup, by the numbers of what it is of."""

    grows = False

    def __init__(self, amount: Amount, evaluator: Evaluator) -> None:
        self.kind = Kind.INTEGER
        self._amount = amount
        self._evaluator = evaluator
        self._ranks: Ranks = np.empty(0, np.int64)
        self._high: Counts = np.empty(0, np.int64)  # what sums have beyond 64 bits
        self._known: Mask = np.empty(0, np.bool_)

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self._ranks)

    def ranks(self, words: Words) -> Ranks:
        """The amounts with some numbers."""
        return self._ranks[words]

    @property
    def is_sum(self) -> bool:
        """Whether it may be 0 of several solutions."""
        return self._amount.function == "sum"

    def has(self, numbers: Words) -> Mask:
        """Which numbers have a solution, unless it is a sum."""
        if self._amount.function == "count":
            return self._ranks[numbers] > 0
        return self._known[numbers]

    @property
    def nbytes(self) -> int:
        """What the amounts take."""
        return self._ranks.nbytes + self._high.nbytes + self._known.nbytes

    def clear(self) -> None:
        """Have nothing."""
        self._ranks = self._high = np.zeros(0, np.int64)
        self._known = np.zeros(0, np.bool_)

    def grow(self, size: int) -> None:
        """Make room for so many."""
        self._ranks, self._high = grown(self._ranks, size), grown(self._high, size)
        self._known = grown(self._known, size)

    def take(self, numbers: Counts, found: Bindings) -> None:
        """Let every solution give to the amount with its number."""
        amount = self._amount
        if amount.expression == ONE:
            self._ranks += np.bincount(numbers, minlength=len(self._ranks))
            return
        try:
            values = self._evaluator.values(amount.expression, found, None)
        except Overflow:
            raise Uncountable if amount.function == "count" else Overflow from None
        self.kind = values.kind
        if amount.function in ("min", "max"):
            smaller = amount.function == "min"
            kernels.improve(numbers, values.ranks, self._ranks, self._known, smaller)
        else:
            kernels.add_integers(numbers, values.data, self._ranks.view(np.uint64), self._high)

    def put(self, numbers: Words, values: ValueColumn) -> None:
        """Have these amounts."""
        self.kind = values.kind
        self._ranks[numbers] = values.ranks
        self._known[numbers] = True

    def check(self, numbers: Words) -> None:
        """Fail where a sum has left 64 bits."""
        far = self._high[numbers] != self._ranks[numbers] >> 63
        if self._amount.function not in ("min", "max") and far.any():
            raise Uncountable if self._amount.function == "count" else Overflow


class RollupTable:
    """The values of shared variables that were met, by number, which of them have a solution,
    and their amounts."""

    def __init__(self, arity: int, amounts: Sequence[Amount], evaluator: Evaluator) -> None:
        self.domains = tuple(AmountDomain(each, evaluator) for each in amounts)
        self._arity = arity
        # A count, or a best value, tells by itself whether there is a solution.
        self._shows = next((d for d in self.domains if not d.is_sum), None)
        self.clear()

    @property
    def nbytes(self) -> int:
        """What the values and their amounts take."""
        amounts = sum(domain.nbytes for domain in self.domains)
        return self._tuples.nbytes + self._has.nbytes + amounts

    def clear(self) -> None:
        """Forget everything."""
        self.is_spent = False
        """Whether it is to be forgotten before more is added up: memory is short."""
        self._tuples = Tuples(self._arity)
        self._has: Mask = np.zeros(0, np.bool_)
        for domain in self.domains:
            domain.clear()

    def numbers(self, columns: Sequence[Words], rows: int) -> tuple[Words, Words]:
        """The number of each row, and the rows whose number is new."""
        ids, fresh = self._tuples.ids(columns, rows)
        self._has = grown(self._has, len(self._tuples))
        for domain in self.domains:
            domain.grow(len(self._has))
        return ids, fresh.astype(np.uint32)

    def has(self, numbers: Words) -> Mask:
        """Which of them have a solution."""
        return self._has[numbers] if self._shows is None else self._shows.has(numbers)

    def take(self, numbers: Words, found: Bindings) -> None:
        """Let solutions give to the amounts with their numbers."""
        groups = numbers.astype(np.int64)
        if self._shows is None:
            self._has[numbers] = True
        for domain in self.domains:
            domain.take(groups, found)

    def put(self, numbers: Words, solutions: Counts, amounts: Sequence[ValueColumn]) -> None:
        """Take how many solutions there are for numbers that are new, and their amounts."""
        some = solutions > 0
        self._has[numbers] = some
        for domain, values in zip(self.domains, amounts, strict=True):
            domain.put(numbers[some], replace(values, data=values.data[some]))


@dataclass(frozen=True, slots=True, eq=False)
class RollupConstraint(BodyConstraint):
    """Steps whose solutions are added up, once for what they share with the rest."""

    is_pure = False

    mark: str
    shared: tuple[str, ...]
    steps: tuple[ExtendStep, ...]
    amounts: tuple[Amount, ...]
    table: RollupTable
    through: Through
    window: WindowAmounts | None = None

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        return frozenset(self.shared)

    @property
    def binds(self) -> frozenset[str]:
        """The variables of the amounts."""
        return frozenset(f"{self.mark}{i}" for i in range(len(self.amounts)))

    @property
    def part(self) -> Sequence[ExtendStep]:
        """The steps."""
        return self.steps

    def prepare(self) -> None:
        """Make the indexes of its steps."""
        for step in self.steps:
            step.prepare()

    def restart(self) -> None:
        """Forget what was added up: relations have changed since, or something failed."""
        self.table.clear()
        for step in self.steps:
            step.restart()

    def apply(self, frontier: Bindings) -> Bindings:
        """The solutions that the steps have one for, with its amounts."""
        if self.table.is_spent:  # nobody reads amounts of an earlier frontier any more
            self.restart()
        columns = [frontier.columns[name] for name in self.shared]
        ids, fresh = self.table.numbers(columns, frontier.rows)
        if len(fresh):
            values = frontier.at(fresh, self.shared)
            values[self.mark] = ids[fresh]
            try:
                self._add(Bindings(len(fresh), values))
            except ArithmeticError:
                self.restart()
                raise
        longer = {**frontier.columns, **dict.fromkeys(self.binds, ids)}
        return Bindings(frontier.rows, longer).where(self.table.has(ids))

    def _add(self, values: Bindings) -> None:
        """Add up the solutions for values that are met for the first time."""
        numbers = values.columns[self.mark]
        if (counts := self._counts(values)) is not None:
            self.table.put(numbers, counts, [ValueColumn(Kind.INTEGER, counts)])
            return
        if self.window is not None:
            found = self.window.of(values, self.amounts)
            if found is not None:
                self.table.put(numbers, *found)
                return
        keep = names(*(each.expression for each in self.amounts)) | {self.mark}

        def take(found: Bindings) -> None:
            self.table.take(found.columns[self.mark], found)

        self.through(self.steps, values, take, keep)
        for domain in self.table.domains:
            domain.check(numbers)

    def _counts(self, values: Bindings) -> Counts | None:
        """How many facts of the one atom there are, if that is all; None if it takes listing."""
        first = self.steps[0].lookup if len(self.steps) == 1 else None
        if first is None or first.checked:
            return None
        if any(each.function != "count" for each in self.amounts):
            return None
        if first.within is not None or not first.index().is_exact:
            return None
        return first.counts(values)


def rollup_tables(steps: Sequence[ExtendStep]) -> Iterator[RollupTable]:
    """The tables of all rollups among some steps, and in parts of theirs."""
    for step in steps:
        for each in step.constraints:
            if isinstance(each, RollupConstraint):
                yield each.table
            if isinstance(each, BodyConstraint):
                yield from rollup_tables(each.part)


# ── Windows ──────────────────────────────────────────────────────────────────────────────────────

_FAR: Final = 1 << 62

End: TypeAlias = "tuple[Expression, bool]"  # and whether it is left out itself
WindowSpan: TypeAlias = "tuple[Keys, Counts, Counts]"  # a run, and for each row start and length


@dataclass(frozen=True, slots=True)
class Window:
    """The one column of an atom that comparisons keep between ends."""

    variable: str
    lower: tuple[End, ...]
    upper: tuple[End, ...]
    moved: tuple[Expression, ...]


def window(steps: Sequence[Access], types: Mapping[str, Type]) -> Window | None:
    """What the steps of a rollup are, if they are a lookup and comparisons of one new column."""
    first, *others = steps
    tests = [step.comparison for step in others if isinstance(step, Check)]
    if not isinstance(first, Probe) or first.checked or not tests or len(tests) < len(others):
        return None
    asked = {name for test in tests for name in names(test) & first.binds}
    if len(asked) != 1:
        return None
    (variable,) = asked
    lower: list[End] = []
    upper: list[End] = []
    moved: list[Expression] = []
    for test in tests:
        if test.operator not in ("<", "<=", ">", ">="):
            return None
        found = isolate(test, variable, types)
        if found is None:
            return None
        operator, end = found
        (upper if operator in ("<", "<=") else lower).append((end, operator in ("<", ">")))
        moved += [] if end in (test.left, test.right) else [end]
    return Window(variable, tuple(lower), tuple(upper), tuple(moved))


@dataclass(frozen=True, slots=True)
class WindowAmounts:
    """The amounts of a lookup's facts within a window, for rows with what it needs."""

    window: Window
    lookup: AtomLookup
    evaluator: Evaluator

    def of(
        self, rows: Bindings, amounts: Sequence[Amount]
    ) -> tuple[Counts, list[ValueColumn]] | None:
        """How many facts there are for each row, and the amounts; None if they are to be listed."""
        if not all(map(self._is_told, amounts)):
            return None
        found = self._spans(rows)
        if found is None:
            return None
        index, spans = found
        counts: Counts = np.zeros(rows.rows, np.int64)
        for _, _, each in spans:
            counts += each
        if not spans:
            return counts, [ValueColumn(Kind.INTEGER, counts) for _ in amounts]
        values: list[ValueColumn] = []
        for amount in amounts:
            if amount.function == "count":
                values.append(ValueColumn(Kind.INTEGER, counts))
            elif amount.function == "sum":
                total = self._sum(amount.expression, index, spans)
                if total is None:
                    return None
                values.append(ValueColumn(Kind.INTEGER, total))
            else:
                values.append(self._best(index, spans, smaller=amount.function == "min"))
        return counts, values

    def _is_told(self, amount: Amount) -> bool:
        """Whether an amount can be told from where facts begin and end."""
        if amount.function in ("min", "max"):
            return amount.expression == Variable(self.window.variable)
        return names(amount.expression) <= self.lookup.binds

    def _spans(self, rows: Bindings) -> tuple[PackedIndex, list[WindowSpan]] | None:
        """Where the facts of each row are, in the runs that have some."""
        index = self._index()
        ends = None if index is None else self._ends(rows)
        if index is None or ends is None:
            return None
        if self.lookup.bound:
            found = index.find(*index.key(self.lookup.words(rows), rows.rows))
        else:
            found = RunMatches.all_of(index, rows.rows)
        column = self._column
        narrower = found.within(index.packing.shifts[column], index.packing.widths[column], *ends)
        spans = narrower.spans
        return None if spans is None else (index, spans)

    @property
    def _column(self) -> int:
        return next(c for c, name in self.lookup.new.items() if name == self.window.variable)

    def _index(self) -> PackedIndex | None:
        """The relation as it is looked up, if the column of the window is next to what is bound."""
        bound, index = len(self.lookup.bound), self.lookup.index()
        if not isinstance(index, PackedIndex) or not index.is_exact:
            return None
        is_next = index.packing.order[bound] == self._column
        return PackedIndex(index.packing, index.runs, bound) if is_next else None

    def _ends(self, rows: Bindings) -> tuple[np.ndarray, np.ndarray] | None:
        """The first and the last word of each row's window; None if nobody can tell."""
        domain = self.evaluator.domain(self.window.variable)
        ends = Range((), (), self.window.moved)
        if domain.kind in CODED or not Narrowing(self.evaluator, domain, ends).is_small:
            return None
        try:
            low = self._end(self.window.lower, rows, domain.kind, 1)
            high = self._end(self.window.upper, rows, domain.kind, -1)
        except ArithmeticError:
            return None
        if (self.window.lower and low is None) or (self.window.upper and high is None):
            return None
        return find_between(domain, low, high)

    def _end(self, ends: Sequence[End], rows: Bindings, kind: Kind, inwards: int) -> Ranks | None:
        found: Ranks | None = None
        for expression, is_open in ends:
            values = self.evaluator.values(expression, rows, None)
            # An open end at the last of all ranks leaves nothing, which has no ends.
            edge = MOST if inwards > 0 else LEAST
            if values.kind is not kind or (is_open and bool(np.any(values.ranks == edge))):
                return None
            ranks = values.ranks + inwards if is_open else values.ranks
            narrower = np.maximum if inwards > 0 else np.minimum
            found = ranks if found is None else narrower(found, ranks)
        return found

    def _best(
        self, index: PackedIndex, spans: Sequence[WindowSpan], *, smaller: bool
    ) -> ValueColumn:
        """The value of the column that the first or the last fact has, in the best run."""
        domain = self.evaluator.domain(self.window.variable)
        best: Ranks | None = None
        for run, starts, counts in spans:
            at = starts if smaller else starts + counts - 1
            words = index.column(run[np.where(counts > 0, at, 0)], self._column)
            ranks = np.where(counts > 0, domain.ranks(words), nothing_yet(smallest=smaller))
            narrower = np.minimum if smaller else np.maximum
            best = ranks if best is None else narrower(best, ranks)
        assert best is not None
        data = rank_floats(best) if domain.kind is Kind.FLOAT else best
        return ValueColumn(domain.kind, data)

    def _sum(
        self, expression: Expression, index: PackedIndex, spans: Sequence[WindowSpan]
    ) -> Ranks | None:
        """The sum over each row's facts; None where listing them is less, or it may not fit."""
        total: Ranks | None = None
        columns = {name: c for c, name in self.lookup.new.items() if name in names(expression)}
        for run, starts, counts in spans:
            if int(counts.sum()) < len(run):
                return None
            read = {name: index.column(run, c) for name, c in columns.items()}
            values = self.evaluator.values(expression, Bindings(len(run), read), None)
            if (
                values.kind is not Kind.INTEGER
                or np.abs(values.data.astype(np.float64)).sum() >= _FAR
            ):
                return None
            sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(values.data)])
            each = sums[starts + counts] - sums[starts]
            total = each if total is None else total + each
        return total


def find_window(
    steps: Sequence[Access],
    lookup: AtomLookup | None,
    types: Mapping[str, Type],
    evaluator: Evaluator,
) -> WindowAmounts | None:
    """The window of a rollup's steps, over relations as they are stored; None if it has none."""
    found = window(steps, types)
    if found is None or lookup is None:
        return None
    return WindowAmounts(found, lookup, evaluator)
