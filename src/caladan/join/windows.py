"""Windows: amounts of the facts between two values, without looking at each of them.

    next(U, T, min<S>) <- ev(U, T, _), ev(U, S, _), S > T.
    busy(U, T, count<_>, sum<K>) <- ev(U, T, _), ev(U, S, K), S >= T, S - T <= 60.

The facts of an atom that agree in what is bound stand together in a sorted run, in the order of the
column that comparisons keep between two ends. So a rollup of that atom alone finds, for each row,
where they begin and end: the count is their distance, the least and the most value of the column
are the first and the last of them, and a sum is the difference of two sums over the run so far.

Nothing is taken where words are in no order, where ends cannot be computed, or where a sum over the
run might not fit: then the facts are listed, and compared one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from caladan.columns.domains import between
from caladan.columns.index import RunMatches
from caladan.columns.layout import Counts, Keys
from caladan.columns.packed import PackedIndex
from caladan.columns.ranks import CODED, LEAST, MOST, Ranks, nothing_yet, rank_floats
from caladan.join.access import Access, Amount, Check, Probe, Range
from caladan.join.arithmetic import ValueColumn
from caladan.join.constraints.lookup import AtomLookup
from caladan.join.constraints.narrowing import Narrowing
from caladan.join.expressions import Evaluator
from caladan.join.frontier import Bindings
from caladan.join.selections import isolated
from caladan.program import Expression, Type, Variable, names
from caladan.program.kinds import Kind

_FAR: Final = 1 << 62

End: TypeAlias = "tuple[Expression, bool]"  # and whether it is left out itself
Span: TypeAlias = "tuple[Keys, Counts, Counts]"  # a run, and for each row start and length


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
        found = isolated(test, variable, types)
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

    def _spans(self, rows: Bindings) -> tuple[PackedIndex, list[Span]] | None:
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
        return between(domain, low, high)

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

    def _best(self, index: PackedIndex, spans: Sequence[Span], *, smaller: bool) -> ValueColumn:
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
        self, expression: Expression, index: PackedIndex, spans: Sequence[Span]
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


def windowed(
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
