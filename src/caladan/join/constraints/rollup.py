"""Rollups: parts of a body that only aggregates read, solved once for what they share.

A `RollupConstraint` numbers the different values of its shared variables. For those that are new
it goes through its steps, which may be rollups themselves, and adds up what their solutions give;
rows whose values have no solution fall out. A row is handed on with the number of its values, under
the name of each amount: `AmountDomain` makes the amount of it, so that expressions read it like any
other variable.

Amounts of parts that have no solution with the rest may fail, and so may sums that would cancel
out in the end: then the walk puts the step off, or the rule is gone through solution by solution
(`RulePlan.run`). Only a number of solutions beyond 64 bits is a failure for good.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from caladan.columns.interner import Tuples
from caladan.columns.kernels import groups as kernels
from caladan.columns.layout import Counts, Mask, Words, grown
from caladan.columns.ranks import Ranks
from caladan.join.access import Amount
from caladan.join.arithmetic import Overflow, ValueColumn
from caladan.join.constraints.protocol import BodyConstraint
from caladan.join.eager import ONE
from caladan.join.expressions import Evaluator
from caladan.join.frontier import Bindings
from caladan.program import names
from caladan.program.kinds import Kind

if TYPE_CHECKING:
    from caladan.join.extend import ExtendStep, Through
    from caladan.join.windows import WindowAmounts


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
