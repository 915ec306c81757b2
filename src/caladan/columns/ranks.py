"""Ranks: values as signed 64-bit numbers, in the order of the values.

Integers, booleans, days, and microseconds of moments and intervals are their own rank, and objects
go by their number; where only equality counts, that will do. The rank of a double is its bits, with
those of negative numbers turned round; -0.0 has the rank of 0.0, and every NaN the one above
infinity. Texts, decimals and binary data have none of their own: they go by their place in a sorted
dictionary (see domains.py). So equality, order, min and max of any type are those of 64-bit
integers.

Every 64-bit number is the rank of some value: none is free to mark "no value", "unlimited" or "past
the end". So whoever has to say that says it beside the ranks (a mask, a count, None), and goes by
these:

    ends            are included; `LEAST` and `MOST` are ranks like any other
    the best of none    is `nothing_yet(…)`, which min or max leaves alone; a count beside it tells
                    whether there was any
    the other order is `~rank`; minus the least rank would be that rank itself
    a size          is `magnitude(…)`; the absolute value of the least rank is negative
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from caladan.data.schema import compute as pc
from caladan.program import Object, Value
from caladan.program.kinds import Kind

Ranks: TypeAlias = NDArray[np.int64]

_EPOCH: Final = dt.datetime(1970, 1, 1)
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_NUMPY: Final = {"float": "float32", "double": "float64", "halffloat": "float16"}
_MAGNITUDE: Final = 0x7FFFFFFFFFFFFFFF

LEAST: Final = -(2**63)
MOST: Final = 2**63 - 1


CODED: Final[dict[Kind, pa.DataType]] = {
    Kind.STRING: pa.string(),
    Kind.DECIMAL: pa.decimal256(76, 38),
    Kind.BINARY: pa.binary(),
    Kind.LIST: pa.binary(),
    Kind.STRUCT: pa.binary(),
}
"""The kinds that have dictionaries, with the types of these: decimals of every width share one."""


def in_order(ranks: Ranks, *, smallest: bool) -> Ranks:
    """Numbers of which the least is that of the best rank.

    >>> in_order(np.array([-(2**63), 0, 2**63 - 1]), smallest=False).tolist()
    [9223372036854775807, -1, -9223372036854775808]
    """
    return ranks if smallest else ~ranks


def nothing_yet(*, smallest: bool) -> int:
    """The least of no ranks, or the largest: any other takes its place, or equals it."""
    return MOST if smallest else LEAST


def magnitude(numbers: NDArray[Any]) -> float:
    """How far from 0 the farthest of some numbers is, as a double; 0 of none, NaN if one is NaN.

    >>> magnitude(np.array([-(2**63), 5])) == 2**63
    True
    """
    return float(np.abs(numbers.astype(np.float64)).max(initial=0))


def float_ranks(numbers: NDArray[np.float64]) -> Ranks:
    """The ranks of doubles."""
    numbers = numbers + 0.0  # -0.0 + 0.0 is 0.0
    numbers[np.isnan(numbers)] = np.nan
    bits = numbers.view(np.int64)
    return bits ^ ((bits >> 63) & _MAGNITUDE)


def rank_floats(ranks: Ranks) -> NDArray[np.float64]:
    """The doubles of ranks."""
    return (ranks ^ ((ranks >> 63) & _MAGNITUDE)).view(np.float64)


def rank_of(value: Value) -> int:
    """The rank of a Python value that has one.

    >>> rank_of(-1) < rank_of(0), rank_of(-1.5) < rank_of(-0.0) == rank_of(0.0) < rank_of(1e-300)
    (True, True)
    """
    if isinstance(value, float):
        value = math.nan if math.isnan(value) else value + 0.0
        (bits,) = struct.unpack("<q", struct.pack("<d", value))
        return bits ^ ((bits >> 63) & _MAGNITUDE)
    if isinstance(value, Object):
        return value.number
    if isinstance(value, dt.datetime):
        return (value - _EPOCH) // _MICROSECOND
    if isinstance(value, dt.timedelta):
        return value // _MICROSECOND
    if isinstance(value, dt.date):
        return (value - _EPOCH.date()).days
    assert isinstance(value, int), f"{value!r} has no rank"
    return int(value)


def arrow_ranks(column: pa.ChunkedArray | pa.Array, kind: Kind) -> Ranks:
    """The ranks of an Arrow column without nulls; a new array."""
    if kind is Kind.FLOAT:
        return float_ranks(numpy_of(column.cast(pa.float64())))
    if kind is Kind.BOOLEAN:
        return numpy_of(column.cast(pa.uint8())).astype(np.int64)
    if kind is Kind.DATETIME:
        return numpy_of(column.cast(pa.timestamp("us")).cast(pa.int64())).copy()
    if kind is Kind.INTERVAL:
        return numpy_of(column.cast(pa.duration("us")).cast(pa.int64())).copy()
    ranks = numpy_of(column.cast(pa.int32()) if kind is Kind.DATE else column)
    return ranks.astype(np.int64)


def rank_arrow(ranks: Ranks, kind: Kind, type: pa.DataType) -> pa.Array:
    """Ranks as an Arrow array; the values must fit its type."""
    if kind is Kind.FLOAT:
        floats = arrow_of(rank_floats(ranks))
        return floats if type == pa.float64() else floats.cast(type, safe=False)
    if kind is Kind.BOOLEAN:
        return arrow_of((ranks != 0).view(np.uint8)).cast(pa.bool_())
    integers = arrow_of(ranks)
    if kind is Kind.DATETIME:
        return integers.cast(pa.timestamp("us"))
    if kind is Kind.INTERVAL:
        return integers.cast(pa.duration("us"))
    if kind is Kind.DATE:
        return integers.cast(pa.int32()).cast(pa.date32())
    if pa.types.is_signed_integer(type):
        numbers = ranks.astype(type.to_pandas_dtype(), copy=False)  # NumPy's, and without pandas
        if numbers is ranks or (numbers == ranks).all():
            return arrow_of(numbers)
    return pc.cast(integers, type)  # or raise


def numpy_of(column: pa.ChunkedArray | pa.Array) -> NDArray[Any]:
    """Numbers without nulls as a numpy array. Arrow's own way would load pandas first."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks != 1:
            parts = [numpy_of(chunk) for chunk in column.chunks]
            return np.concatenate(parts) if parts else np.empty(0, np.int64)
        column = column.chunk(0)
    values = column.buffers()[1]
    dtype = np.dtype(_NUMPY.get(str(column.type), str(column.type)))
    if values is None or not len(column):
        return np.empty(0, dtype)
    return np.frombuffer(values, dtype)[column.offset : column.offset + len(column)]


def arrow_of(numbers: NDArray[Any]) -> pa.Array:
    """A numpy array of numbers as an Arrow array of the same type, without a copy."""
    numbers = np.ascontiguousarray(numbers)
    type = pa.from_numpy_dtype(numbers.dtype)
    return pa.Array.from_buffers(type, len(numbers), [None, pa.py_buffer(numbers)])
