"""From the last lookup straight into the head: no solutions are listed in between.

Where a head has only variables and constants, a head key is the columns known before the lookup,
packed once for each row, with the columns of the fact found moved into their places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from caladan import thresholds
from caladan.columns.domains import Domain
from caladan.columns.index import Matches
from caladan.columns.layout import Words
from caladan.columns.packed import PackedIndex
from caladan.columns.packing import packed
from caladan.columns.relation import StoredRelation
from caladan.engines.embedded.expressions import Evaluator
from caladan.engines.embedded.frontier import Frontier
from caladan.engines.embedded.steps import Lookup
from caladan.program import Constant, Expression, Variable


class DirectHead:
    """A head without arithmetic."""

    def __init__(
        self,
        columns: Sequence[Expression],
        domains: Sequence[Domain],
        relation: StoredRelation,
        evaluator: Evaluator,
    ) -> None:
        self._columns = columns
        self._domains = domains
        self._relation = relation
        self._evaluator = evaluator
        self.is_plain = all(
            isinstance(column, Constant)
            or (isinstance(column, Variable) and evaluator.domain(column.name) is domain)
            for column, domain in zip(columns, domains, strict=True)
        )

    def take(self, lookup: Lookup, frontier: Frontier, check: Callable[[], None]) -> int | None:
        """Emit the head keys of a last lookup; how many, None if it takes another way."""
        head = self._relation.packed()
        if head is None or not lookup.bound or lookup.checked:
            return None
        index = lookup.index()
        if not isinstance(index, PackedIndex):
            return None
        found = {name: column for column, name in lookup.new.items()}
        shifts = head.base.packing.shifts
        moves: list[tuple[int, int, int]] = []
        known: list[Words | int] = []
        known_shifts: list[int] = []
        for column, shift, domain in zip(self._columns, shifts, self._domains, strict=True):
            if isinstance(column, Variable) and column.name in found:
                source = found[column.name]
                moves.append((index.packing.shifts[source], index.packing.masks[source], shift))
            else:
                known.append(self._known(column, frontier, domain))
                known_shifts.append(shift)
        if not moves:
            return None
        bases = packed(known, known_shifts, frontier.rows)
        matches = Matches(index, *index.key(lookup.words(frontier), frontier.rows))
        for keys in matches.emitted(thresholds.now.room, bases, moves):
            check()
            head.add_keys(keys)
        return matches.total

    def _known(self, column: Expression, frontier: Frontier, domain: Domain) -> Words | int:
        if isinstance(column, Variable):
            return frontier.columns[column.name]
        one = Frontier(1, {})
        return int(np.asarray(self._evaluator.words(column, one, domain))[0])
