"""Sort and limit: a rule's distinct rows, the first ones of them in an order.

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
from caladan.program import Expression, Variable
from caladan.rules.body import Body


class CutRows:
    """Collects a rule's rows; `finish` hands on those that the cut leaves."""

    def __init__(
        self,
        body: Body,
        evaluator: Evaluator,
        domains: Sequence[Domain],
        add: Callable[[Sequence[Words], int], None],
    ) -> None:
        assert body.cut is not None
        self._cut = body.cut
        self._columns = body.columns
        self._evaluator = evaluator
        self._domains = domains
        self._add = add
        self._parts: list[list[Ranks]] = []

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

    def finish(self) -> None:
        """Sort, cut, and add what is left to the relation."""
        if not self._parts:
            return
        columns = [np.concatenate(column) for column in zip(*self._parts, strict=True)]
        self._parts = []
        domains = [*self._domains, *map(self._domain, self._columns[len(self._domains) :])]
        ordered = [in_order(d, column) for d, column in zip(domains, columns, strict=True)]
        order = sorted_rows(ordered, self._cut.order, self._cut.width)
        if self._cut.limit is not None:
            order = order[_distinct(columns, order)][: self._cut.limit]
        head = columns[: self._cut.width]
        words = [d.words(c[order]) for d, c in zip(self._domains, head, strict=True)]
        self._add(words, len(order))


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
