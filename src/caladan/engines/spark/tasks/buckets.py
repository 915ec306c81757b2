"""The hash by which Spark spreads rows: parts of a pivot's values are its buckets.

    groupBy("A") of a closure that tasks derived by values of A needs no shuffle: Spark knows that
    all facts with one A are in one partition, and that its own exchange would put them there.

Spark hashes with Murmur3, 32 bits wide, from the seed 42; whole numbers of up to 32 bits and dates
in one go, longs in two. A value counts as it is, whatever column it stands in: where all columns
that hold the pivot are narrow it is hashed as an int, else as a long. What is neither (texts,
fractions) is hashed by its 64 bits (shard.py), and Spark is told nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from caladan.analysis.core import RelationInfo
from caladan.program import Column, Type
from caladan.rules.program import DeltaClique

_NARROW: Final = (Type.BYTE, Type.SHORT, Type.INTEGER, Type.DATE)
_SEED: Final = np.uint32(42)


def is_narrow(relations: Mapping[str, RelationInfo], clique: DeltaClique) -> bool:
    """True if every column that holds the pivot of a clique has at most 32 bits."""
    pivot = clique.pivot or {}
    return all(relations[name].columns[column].type in _NARROW for name, column in pivot.items())


def hashed_as(column: Column) -> bool | None:
    """True if Spark hashes the values of a column as ints, False if as longs, None if neither."""
    if column.type in _NARROW:
        return True
    return False if column.type is Type.LONG else None


def is_sparks_hash(
    relations: Mapping[str, RelationInfo], clique: DeltaClique, column: int, info: RelationInfo
) -> bool:
    """True if Spark would spread a relation by this column as the parts of the clique are."""
    return hashed_as(info.columns[column]) is is_narrow(relations, clique)


def buckets(bits: NDArray[np.uint64], count: int, *, narrow: bool) -> NDArray[np.int64]:
    """The bucket, of so many, that Spark puts each value into.

    >>> five = np.array([5], np.uint64)
    >>> int(buckets(five, 200, narrow=True)[0]), int(buckets(five, 200, narrow=False)[0])
    (69, 161)
    """
    low = bits.astype(np.uint32)
    with np.errstate(over="ignore"):
        hashed = _mix(np.full(len(bits), _SEED), low)
        if not narrow:
            hashed = _mix(hashed, (bits >> np.uint64(32)).astype(np.uint32))
        hashed = _finish(hashed, 4 if narrow else 8)
    return np.mod(hashed.view(np.int32).astype(np.int64), count)


def _rotate(values: NDArray[np.uint32], by: int) -> NDArray[np.uint32]:
    return (values << np.uint32(by)) | (values >> np.uint32(32 - by))


def _mix(hashed: NDArray[np.uint32], word: NDArray[np.uint32]) -> NDArray[np.uint32]:
    word = _rotate(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotate(hashed ^ word, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finish(hashed: NDArray[np.uint32], length: int) -> NDArray[np.uint32]:
    hashed = hashed ^ np.uint32(length)
    hashed = (hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashed = (hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashed ^ (hashed >> np.uint32(16))
