"""How relations are spread over partitions. Pure: explain reads this without Spark."""

from __future__ import annotations

from typing import Final

from caladan.analysis.core import RelationInfo
from caladan.delta.program import DeltaClique

SMALL: Final = 20_000
"""Facts that one partition holds well: below that, more tasks only cost time."""

FULL: Final = 250_000
"""Facts of a partition of a larger relation: a hash table of so many stays near the processor."""

WAVES: Final = 32
"""How many times more partitions there may be than tasks that run at once."""

BROADCAST: Final = 200_000
"""Rows up to which a side of a join is sent to everybody."""

CELLS_FROM: Final = 1_000_000
"""Facts in the atoms of a cyclic body from which cells solve it sooner than joins of frames do."""

_MANY: Final = 2_048  # partitions to which tasks do not take turns: each may send to each


def partitioning(clique: DeltaClique, info: RelationInfo) -> tuple[int, ...]:
    """The columns by whose hash a relation of a clique is partitioned.

    The pivot, if there is one: then a rule's facts are born where they belong. Else all columns
    that tell facts apart, so that duplicates meet after one exchange.
    """
    if clique.pivot is not None:
        return (clique.pivot[info.name],)
    return info.group


def partitions(facts: int, at_once: int) -> int:
    """How many partitions suit so many facts, if so many tasks run at once.

    A power of two, or the most there may be. With more than run at once tasks take turns, each
    with little in memory.
    """
    if facts <= SMALL:
        return 1
    wanted = max(min(2, at_once), -(-facts // FULL))
    most = max(at_once, min(WAVES * at_once, _MANY))
    return min(most, 1 << (wanted - 1).bit_length())
