"""Columns of days, moments and intervals, computed from their ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from caladan.columns.ranks import Ranks
from caladan.program.operations import DAY, Operation, OutOfRange, bounds
from caladan.program.types import Type

_FITS: Final = 1 << 62


def compute_times(operation: Operation, given: Sequence[Ranks]) -> Ranks:
    """The ranks of what an operation gives; OutOfRange where its type has no such value."""
    compute, type = operation.row.ranks, operation.returns
    assert compute is not None, operation
    most = [max(abs(int(r.max(initial=0))), abs(int(r.min(initial=0)))) for r in given]
    # Days become microseconds, and intervals are multiplied: 64 bits may be too few on the way.
    largest = int(np.prod([max(each, 1) for each in most], dtype=object)) + DAY * sum(most)
    made: Any = compute(*(r if largest < _FITS else r.astype(object) for r in given))
    low, high = bounds(type)
    if len(made) and not (low <= made.min() and made.max() <= high):
        raise OutOfRange("interval" if type is Type.INTERVAL else "datetime")
    return made.astype(np.int64)
