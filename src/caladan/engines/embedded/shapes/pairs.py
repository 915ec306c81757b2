"""Pairs of words, and the small steps that shapes take with them before a kernel takes over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from caladan import thresholds
from caladan.columns.kernels.graph import adjacency
from caladan.columns.layout import Counts, Keys, Words

Pairs: TypeAlias = tuple[Words, Words]


class Interrupted(Exception):
    """The stop flag was raised while a kernel ran: whoever raised it knows why."""


class Declined(Exception):
    """A shape does not suit the facts: says why."""


@dataclass(frozen=True, slots=True)
class Limits:
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
