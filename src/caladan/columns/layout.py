"""What every layout of a relation offers its readers, however it keeps its facts.

Sorted runs, rows, bit rows: some layouts hold billions of facts and never list them. Whoever reads
a relation asks for its count, for blocks of bounded size, for membership of a batch, or for the
facts that agree with given words; nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint32]
Keys: TypeAlias = NDArray[np.uint64]
Counts: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


class Layout(Protocol):
    """A relation as its readers see it; columns are arrays of words, all of one length.

    The tuples below have one array for each column. A relation without columns has at most one
    fact, and its blocks are empty tuples: ask `count`.
    """

    @property
    def arity(self) -> int:
        """How many columns."""
        ...

    @property
    def form(self) -> str:
        """What it is, in a word or two, for stats and explain."""
        ...

    @property
    def nbytes(self) -> int:
        """The bytes its arrays take."""
        ...

    def count(self) -> int:
        """How many facts; they are distinct."""
        ...

    def blocks(self, rows: int | None = None) -> Iterator[tuple[Words, ...]]:
        """All facts, at most `rows` at a time; without it, as many as stay in cache."""
        ...

    def head(self, rows: int) -> tuple[Words, ...]:
        """Some facts: `rows` of them, or all if there are fewer."""
        ...

    def contains(self, columns: tuple[Words, ...]) -> Mask:
        """Which facts of a batch are in the relation."""
        ...

    def select(
        self, bound: Mapping[int, int], rows: int | None = None
    ) -> Iterator[tuple[Words, ...]]:
        """The facts that have the given words at the given columns, as whole facts."""
        ...


def concatenated(blocks: Iterator[tuple[Words, ...]], arity: int) -> tuple[Words, ...]:
    """Blocks as one: a tuple with one array for each column."""
    parts: list[tuple[Words, ...]] = list(blocks)
    if not parts:
        return tuple(np.empty(0, np.uint32) for _ in range(arity))
    return tuple(np.concatenate([part[c] for part in parts]) for c in range(arity))


def first_rows(blocks: Iterator[tuple[Words, ...]], arity: int, rows: int) -> tuple[Words, ...]:
    """The first rows of a stream of blocks."""
    parts: list[tuple[Any, ...]] = []
    left = rows
    for block in blocks:
        if left <= 0 or not block:
            break
        part = tuple(column[:left] for column in block)
        parts.append(part)
        left -= len(part[0])
    return concatenated(iter(parts), arity)
