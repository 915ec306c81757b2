"""Narrowing: the range in which comparisons let the values of a column lie, row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from caladan.columns.domains import Domain, OffsetDomain, find_between
from caladan.columns.layout import Counts, Words
from caladan.columns.ranks import CODED
from caladan.join.access import Range
from caladan.join.expressions import Evaluator
from caladan.join.frontier import Bindings
from caladan.program import Constant, Expression, Variable
from caladan.program.transform import walk
from caladan.rules.body import names

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
        try:
            low, high = self.ranks(frontier)
        except ArithmeticError:
            return None
        return None if low is None and high is None else find_between(self.domain, low, high)

    def ranks(self, frontier: Bindings) -> tuple[Counts | None, Counts | None]:
        """The least and the most rank for each solution, None where there is no such end."""
        if self.ends.moved and not self.is_small:
            return None, None
        low = self._end(self.ends.lower, frontier, np.maximum)
        return low, self._end(self.ends.upper, frontier, np.minimum)

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

    @property
    def is_small(self) -> bool:
        """Whether sums and differences of the values cannot overflow, whatever is on which side."""
        domains = [self.domain, *map(self.evaluator.domain, names(*self.ends.moved))]
        constants = [each.value for each in walk(*self.ends.moved) if isinstance(each, Constant)]
        return all(isinstance(d, OffsetDomain) and abs(d.base) < _SMALL for d in domains) and all(
            isinstance(value, int) and abs(value) < _SMALL for value in constants
        )
