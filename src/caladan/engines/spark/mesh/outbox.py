"""What rules contribute to groups in a round, until it is sent.

Of best values only the best of each group is kept, as they come: a round may find a thousand values
for a group. Amounts that are added up all count, so all are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from caladan.analysis.core import RelationInfo
from caladan.columns.domains import Domain
from caladan.columns.interner import Tuples
from caladan.columns.layout import Words
from caladan.columns.ranks import Kind, rank_floats
from caladan.engines.embedded.accumulators import Accumulator, accumulator
from caladan.engines.embedded.groups import Contribution
from caladan.engines.spark.mesh.slots import Batch, Field


class Outbox(Protocol):
    """Takes contributions, and gives them away as a batch: groups, amounts, keys."""

    def add(self, contribution: Contribution) -> None:
        """Some more."""
        ...

    def leave(self) -> Batch | None:
        """All there is, None if nothing; then it is empty."""
        ...


class BestOutbox:
    """The best values of each group."""

    def __init__(self, info: RelationInfo, domains: Sequence[Domain]) -> None:
        self._info = info
        self._domains = domains
        self._clear()

    def add(self, contribution: Contribution) -> None:
        ids, fresh = self._tuples.ids(contribution.group, contribution.rows)
        if len(fresh):
            for parts, words in zip(self._groups, contribution.group, strict=True):
                parts.append(words[fresh])
            for column in self._columns.values():
                column.grow(len(self._tuples))
        numbers = ids.astype(np.int64)
        for i, column in self._columns.items():
            column.add(numbers, contribution.amounts[i])

    def leave(self) -> Batch | None:
        rows = len(self._tuples)
        if not rows:
            return None
        everything = np.arange(rows)
        fields: list[Field] = [np.concatenate(parts) for parts in self._groups]
        for i, column in self._columns.items():
            ranks = column.ranks(everything)
            fields.append(rank_floats(ranks) if self._domains[i].kind is Kind.FLOAT else ranks)
        self._clear()
        return Batch(rows, tuple(fields))

    def _clear(self) -> None:
        self._tuples = Tuples(len(self._info.group))
        self._groups: list[list[Words]] = [[] for _ in self._info.group]
        self._columns: dict[int, Accumulator] = {
            i: accumulator(function, self._domains[i])
            for i, function in enumerate(self._info.aggregates)
            if function is not None
        }


class WholeOutbox:
    """All contributions."""

    def __init__(self) -> None:
        self._kept: list[Contribution] = []

    def add(self, contribution: Contribution) -> None:
        self._kept.append(contribution)

    def leave(self) -> Batch | None:
        kept, self._kept = self._kept, []
        if not kept:
            return None
        columns = zip(*map(_fields, kept), strict=True)
        rows = sum(contribution.rows for contribution in kept)
        return Batch(rows, tuple(np.concatenate(parts) for parts in columns))


def _fields(contribution: Contribution) -> list[Field]:
    keys = [words for columns in contribution.keys.values() for words in columns]
    amounts = [values.data for values in contribution.amounts.values()]
    return [*contribution.group, *amounts, *keys]
