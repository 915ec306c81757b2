"""Limits: the first distinct rows of a rule in an order. Without a limit all rows are facts.

Ties are broken by the head's columns from the left, ascending, so that every engine cuts at the
same place. Columns past the head's own are there to sort by, and are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from caladan.columns.domains import Domain, TextDomain
from caladan.columns.layout import Words
from caladan.columns.ranks import Ranks
from caladan.join.expressions import Evaluator
from caladan.join.frontier import Bindings
from caladan.program import Expression, Variable, thresholds
from caladan.rules.body import Body


class CutRows:
    """Collects a rule's rows; `finish` hands on those that the cut leaves.

    It cuts as soon as there are twice as many as it may leave, and so never holds many more.
    """

    def __init__(
        self,
        body: Body,
        evaluator: Evaluator,
        domains: Sequence[Domain],
        add: Callable[[Sequence[Words], int], None],
    ) -> None:
        assert body.cut is not None
        assert body.cut.limit is not None
        self._cut, self._limit = body.cut, body.cut.limit
        self._columns = body.columns
        self._evaluator = evaluator
        self._domains = domains
        self._add = add
        self._parts: list[list[Ranks]] = []
        self._rows = 0

    def nbytes(self) -> int:
        """What the rows take."""
        return 8 * self._rows * len(self._columns)

    def _domain(self, key: Expression) -> Domain:
        assert isinstance(key, Variable)
        return self._evaluator.domain(key.name)

    def take(self, frontier: Bindings) -> None:
        """Rows of a batch, as ranks."""
        part: list[Ranks] = []
        for i, expression in enumerate(self._columns):
            domain = self._domains[i] if i < len(self._domains) else None
            values = self._evaluator.values(expression, frontier, domain)
            part.append((values if domain is None else values.widened(domain.kind)).ranks)
        self._parts.append(part)
        self._rows += frontier.rows
        if self._rows > 2 * (self._limit + thresholds.now.room):
            self._parts = [self._first()]
            self._rows = len(self._parts[0][0]) if self._columns else 1

    def finish(self) -> None:
        """Sort, cut, and add what is left to the relation."""
        if not self._parts:
            return
        columns = self._first()
        head = columns[: self._cut.width]
        rows = (
            len(columns[0])
            if columns
            else 1
            if self._cut.limit is None
            else min(1, self._cut.limit)
        )
        self._parts, self._rows = [], 0
        self._add([d.words(c) for d, c in zip(self._domains, head, strict=True)], rows)

    def _first(self) -> list[Ranks]:
        """The distinct rows in order, up to the limit."""
        columns = [np.concatenate(column) for column in zip(*self._parts, strict=True)]
        domains = [*self._domains, *map(self._domain, self._columns[len(self._domains) :])]
        ordered = [in_order(d, column) for d, column in zip(domains, columns, strict=True)]
        order = sorted_rows(ordered, self._cut.order, self._cut.width)
        order = order[_distinct(columns, order)][: self._limit]
        return [column[order] for column in columns]


def in_order(domain: Domain, ranks: Ranks) -> Ranks:
    """Numbers in the order of values; ranks of texts that rules computed only tell them apart."""
    return domain.ordered(ranks) if isinstance(domain, TextDomain) else ranks


def sorted_rows(columns: Sequence[Ranks], order: Sequence[tuple[int, bool]], width: int) -> Ranks:
    """The rows in an order of (column, descending), ties by the first `width` columns."""
    if not columns:
        return np.zeros(1, np.int64)
    # A descending order of integers is the ascending order of their complements, without overflow.
    keys = [~columns[c] if descending else columns[c] for c, descending in order]
    return np.lexsort([*reversed(columns[:width]), *reversed(keys)])


def _distinct(columns: Sequence[Ranks], order: Ranks) -> Ranks:
    """The positions in a sorted order at which a new row starts; equal rows are neighbours."""
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for column in columns:
        ordered = column[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    return np.flatnonzero(new)
