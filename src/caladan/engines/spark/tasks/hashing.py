"""Values and facts by their hashes: which part, or which slice, they fall to.

Values that are equal have the same hash, whatever their types: 1 and 1.0, too. Arrays go from Arrow
to numpy and back by their buffers: Arrow's own ways would load pandas, which takes longer than most
tasks do, and leaves objects behind that the garbage collector goes through after each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, cast
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from caladan.columns.ranks import numpy_of

compute: Any = pyarrow.compute
_MIX = np.uint64(0x9E3779B97F4A7C15)


def falls_to(values: Any, part: int, parts: int) -> NDArray[np.bool_]:
    """Which of some values fall to a part."""
    return slices(hashes(values), parts) == part


def slices(hashed: NDArray[np.uint64], count: int) -> NDArray[np.int64]:
    """The slice, of so many, that each hash falls into."""
    return ((hashed >> np.uint64(33)) % np.uint64(count)).view(np.int64)


def only(facts: pa.Table, mask: NDArray[np.bool_]) -> pa.Table:
    """The facts that a mask has."""
    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))
    return cast("Any", facts).filter(pa.Array.from_buffers(pa.bool_(), len(mask), [None, bits]))


def hashes(values: Any) -> NDArray[np.uint64]:
    """A hash of each value, the same for equal values of any type."""
    return mixed(_bits(values))


def mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hashes of some bits; the upper half is the better one."""
    hashed = bits * _MIX
    hashed ^= hashed >> np.uint64(32)
    return hashed * _MIX


def _bits(values: Any) -> NDArray[np.uint64]:
    """For each value 64 bits, the same for equal values of any type."""
    type = values.type
    if pa.types.is_floating(type):
        return _of_doubles(numpy_of(values.cast(pa.float64())))
    if pa.types.is_decimal(type):
        return _of_each(values, _of_decimal)
    if pa.types.is_string(type):
        return _of_each(values, lambda text: crc32(text.encode()))
    if pa.types.is_binary(type):
        return _of_each(values, crc32)
    if pa.types.is_date(type) or pa.types.is_boolean(type):
        values = values.cast(pa.int32() if pa.types.is_date(type) else pa.int8())
    return numpy_of(values.cast(pa.int64())).astype(np.int64).view(np.uint64)


def _of_doubles(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    with np.errstate(invalid="ignore"):
        whole = np.where(np.abs(values) < 2.0**63, values, 0.0).astype(np.int64)
    bits = np.where(np.isnan(values), np.nan, values).view(np.uint64)
    return np.where(whole == values, whole.view(np.uint64), bits)


def _of_decimal(value: Decimal) -> int:
    """That of the whole number or the double that it equals, if there is one."""
    if value == int(value) and -(2**63) <= value < 2**63:
        return int(value) % 2**64
    if Decimal(float(value)) == value:
        return int(_of_doubles(np.array([float(value)]))[0])
    return crc32(str(value.normalize()).encode())


def _of_each(values: Any, hashed: Callable[[Any], int]) -> NDArray[np.uint64]:
    """Facts are many and their values few: each value is hashed once."""
    encoded = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    encoded = compute.dictionary_encode(encoded)
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    codes = [hashed(value) for value in encoded.dictionary.to_pylist()]
    return np.asarray(codes, np.uint64)[numpy_of(encoded.indices)]
