"""Pairs of words, and the small steps that shapes take with them before a kernel takes over.

Places: tuples of words as the nodes of a graph that relations recurse in together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from caladan.columns.interner import Tuples
from caladan.columns.kernels.graph import adjacency, components, longest
from caladan.columns.layout import Counts, Keys, Words
from caladan.program import thresholds

Pairs: TypeAlias = tuple[Words, Words]
NO_PAIRS: Final[Pairs] = (np.empty(0, np.uint32), np.empty(0, np.uint32))


class Interrupted(Exception):
    """The stop flag was raised while a kernel ran: whoever raised it knows why."""


class Declined(Exception):
    """A shape does not suit the facts: says why."""


@dataclass(frozen=True, slots=True)
class ShapeLimits:
    """What a shape may use: bytes for its result, threads, and the flag that ends it.

    With `max_rounds` it declines if rounds would be more: they stop where they have to.
    """

    budget: int
    threads: int
    stop: Counts
    max_rounds: int | None = None

    def check(self) -> None:
        """Raise if we were told to stop; kernels look at the flag too and come back early."""
        if self.stop[0] != 0:
            raise Interrupted

    def require(self, *pairs: Pairs) -> None:
        """Decline unless there are enough pairs, with words close enough to index arrays by."""
        self.require_some(sum(len(first) for first, _ in pairs))
        self.require_close(*(column for pair in pairs for column in pair))

    def require_close(self, *columns: Words) -> None:
        """Decline unless words are close enough to index arrays by them."""
        if extent(*columns) > 16 * sum(map(len, columns)) + thresholds.now.shape_spread:
            raise Declined("its values are spread too thin to index arrays by them")

    def require_path(self, longest: float) -> None:
        """Decline if rounds are limited, and paths are so long that they might be more."""
        if self.max_rounds is not None and longest > self.max_rounds - 2:
            raise Declined("it cannot tell how many rounds there would be, and they are limited")

    def require_some(self, count: int) -> None:
        """Decline unless there are enough pairs."""
        if count < thresholds.now.shape:
            raise Declined(f"it goes over fewer than {thresholds.now.shape:,} pairs")


@dataclass(frozen=True, slots=True)
class Graph:
    """Adjacency lists: the successors of v are targets[bounds[v]:bounds[v + 1]]."""

    bounds: Counts
    targets: Words

    @classmethod
    def of(cls, sources: Words, targets: Words, nodes: int) -> Graph:
        """The lists of pairs, in the order of the pairs."""
        bounds = np.zeros(nodes + 1, np.int64)
        grouped = np.empty(len(sources), np.uint32)
        adjacency(
            np.ascontiguousarray(sources, np.uint32), np.ascontiguousarray(targets, np.uint32),
            bounds, grouped,
        )  # fmt: skip
        return cls(bounds, grouped)

    @property
    def nodes(self) -> int:
        """How many nodes."""
        return len(self.bounds) - 1


def extent(*columns: Words) -> int:
    """One more than the largest word."""
    return 1 + max((int(c.max()) for c in columns if len(c)), default=-1)


def distinct(first: Words, second: Words) -> Pairs:
    """Pairs in ascending order, each once."""
    keys = _keys((first, second))
    keys.sort()
    fresh = np.empty(len(keys), np.bool_)
    fresh[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    keys = keys[fresh]
    return (keys >> np.uint64(32)).astype(np.uint32), keys.astype(np.uint32)


def union(parts: Sequence[Pairs]) -> Pairs:
    """The pairs of all parts, each once."""
    if len(parts) < 2:
        return parts[0] if parts else NO_PAIRS
    return distinct(
        np.concatenate([first for first, _ in parts]),
        np.concatenate([second for _, second in parts]),
    )


def longest_path(step: Pairs, nodes: int) -> float:
    """How many steps the longest path has; no end where they lead in circles."""
    graph = Graph.of(*step, nodes)
    component = np.empty(nodes, np.uint32)
    count = components(graph.bounds, graph.targets, component)
    if count < nodes or bool(np.any(step[0] == step[1])):
        return np.inf
    order = np.empty(nodes, np.uint32)
    order[component] = np.arange(nodes, dtype=np.uint32)
    return longest(graph.bounds, graph.targets, order)


def transpose(pairs: Pairs) -> Pairs:
    """Pairs with their columns exchanged."""
    return pairs[1], pairs[0]


def contains(outer: Pairs, inner: Pairs) -> bool:
    """Whether all of some pairs are among others; both are distinct."""
    if outer[0] is inner[0] and outer[1] is inner[1]:
        return True
    if len(inner[0]) > len(outer[0]):
        return False
    wanted, known = _keys(inner), _keys(outer)
    wanted.sort()
    known.sort()
    at = np.searchsorted(known, wanted)
    return bool(np.all(at < len(known))) and bool(np.array_equal(known[at], wanted))


def _keys(pairs: Pairs) -> Keys:
    return (pairs[0].astype(np.uint64) << np.uint64(32)) | pairs[1]


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Tuples of words, numbered: `words` has their columns by number, None if a word is its number.

    In a graph over several places the numbers of this one begin at `begin`.
    """

    words: tuple[Words, ...] | None
    size: int
    begin: int = 0

    @property
    def range(self) -> tuple[int, int]:
        """The nodes of the place."""
        return self.begin, self.begin + self.size

    def columns(self, numbers: Words) -> tuple[Words, ...]:
        """The columns of some tuples."""
        if self.words is None:
            return (numbers,)
        return tuple(column[numbers] for column in self.words)


def number_tuples(
    parts: Sequence[tuple[Words, ...]], rows: Sequence[int]
) -> tuple[NodePlace, list[Words]]:
    """A place for all tuples of some parts, and the numbers of each part's tuples.

    Single words that are close enough to index arrays by them stay what they are.
    """
    width = len(parts[0])
    if not width:
        return NodePlace((), 1), [np.zeros(count, np.uint32) for count in rows]
    if width == 1:
        size = extent(*(part[0] for part in parts))
        if size <= 16 * sum(rows) + thresholds.now.shape_spread:
            return NodePlace(None, size), [part[0] for part in parts]
    tuples = Tuples(width)
    ids = [tuples.ids(part, count)[0] for part, count in zip(parts, rows, strict=True)]
    return NodePlace(tuple(tuples.columns()), len(tuples)), ids
