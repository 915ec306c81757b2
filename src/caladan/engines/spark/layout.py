"""How relations are spread over partitions. Pure: explain reads this without Spark."""

from __future__ import annotations

from typing import Final

from caladan.analysis.core import RelationInfo
from caladan.delta.program import DeltaClique

SMALL: Final = 20_000
"""Facts that one partition holds well: below that, more tasks only cost time."""

FULL: Final = 250_000
"""Facts of a partition of a larger relation."""


def partitioning(clique: DeltaClique, info: RelationInfo) -> tuple[int, ...]:
    """The columns by whose hash a relation of a clique is partitioned.

    The pivot, if there is one: then a rule's facts are born where they belong. Else all columns
    that tell facts apart, so that duplicates meet after one exchange.
    """
    if clique.pivot is not None:
        return (clique.pivot[info.name],)
    return info.group


def partitions(facts: int, most: int) -> int:
    """How many partitions suit so many facts: a power of two, or `most`."""
    if facts <= SMALL:
        return 1
    wanted = max(2, -(-facts // FULL))
    return min(most, 1 << (wanted - 1).bit_length())
