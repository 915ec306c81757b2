"""Pairs of words, and the small steps that shapes take with them before a kernel takes over.

Words of several relations side by side: the nodes of a graph that relations recurse in together.

Word w of the i-th place becomes node i × width + w. Behind the relations come the places between
the links of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from caladan.columns.kernels.graph import adjacency
from caladan.columns.layout import Counts, Keys, Mask, Words
from caladan.fixpoint.shapes.recognise import Step
from caladan.program import thresholds

Pairs: TypeAlias = tuple[Words, Words]


class Interrupted(Exception):
    """The stop flag was raised while a kernel ran: whoever raised it knows why."""


class Declined(Exception):
    """A shape does not suit the facts: says why."""


@dataclass(frozen=True, slots=True)
class ShapeLimits:
    """What a shape may use: bytes for its result, threads, and the flag that ends it."""

    budget: int
    threads: int
    stop: Counts

    def check(self) -> None:
        """Raise if we were told to stop; kernels look at the flag too and come back early."""
        if self.stop[0] != 0:
            raise Interrupted

    def require(self, *pairs: Pairs) -> None:
        """Decline unless there are enough pairs, with words close enough to index arrays by."""
        count = sum(len(first) for first, _ in pairs)
        chosen = thresholds.now
        if count < chosen.shape:
            raise Declined(f"it goes over fewer than {chosen.shape:,} pairs")
        if extent(*(c for p in pairs for c in p)) > 16 * count + chosen.shape_spread:
            raise Declined("its values are spread too thin to index arrays by them")


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
    if len(parts) == 1:
        return parts[0]
    return distinct(
        np.concatenate([first for first, _ in parts]),
        np.concatenate([second for _, second in parts]),
    )


def turned(pairs: Pairs) -> Pairs:
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
class NodeNumbers:
    """Where each relation's words begin."""

    names: tuple[str, ...]
    width: int

    @classmethod
    def of(
        cls,
        relations: tuple[str, ...],
        steps: Sequence[Step],
        columns: Sequence[Words],
    ) -> NodeNumbers:
        """Places for relations and steps, wide enough for all words of some columns."""
        inner = (_inner(i, step) for i, step in enumerate(steps))
        return cls((*relations, *(name for names in inner for name in names)), extent(*columns))

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.names) * self.width

    def require(self) -> None:
        """Decline unless nodes can be numbered like words."""
        if self.size >= 1 << 31:
            raise Declined("its relations have too many values between them")

    def range(self, relation: str) -> tuple[int, int]:
        """The nodes of a relation."""
        begin = self.names.index(relation) * self.width
        return begin, begin + self.width

    def put(self, relation: str, words: Words) -> Words:
        """Words of a relation as nodes."""
        return words + np.uint32(self.range(relation)[0])

    def edges(self, steps: Sequence[Step], links: Sequence[Sequence[Pairs]]) -> Pairs:
        """The pairs of all links of some steps as edges between nodes."""
        parts: list[Pairs] = []
        for i, (step, pairs) in enumerate(zip(steps, links, strict=True)):
            stops = pairwise((step.source, *_inner(i, step), step.target))
            parts += [
                (self.put(begin, first), self.put(end, second))
                for (begin, end), (first, second) in zip(stops, pairs, strict=True)
            ]
        return union(parts)

    def marked(self, relation: str, marks: Mask) -> Words:
        """The words of a relation whose nodes are marked."""
        begin, end = self.range(relation)
        return np.flatnonzero(marks[begin:end]).astype(np.uint32)


def _inner(number: int, step: Step) -> list[str]:
    """Names for the places between the links of a step; no relation is called so."""
    return [f"{number}/{k}" for k in range(1, len(step.links))]
