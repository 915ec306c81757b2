"""Words into packed keys and out of them, and gathering by position. All are one linear pass."""

from __future__ import annotations

from typing import Any

from numpy import uint32 as u4, uint64 as u8

from caladan.columns.kernels import kernel

Array = Any
Scalar = Any  # numba tells signed and unsigned apart, Python does not


@kernel("void(u8[::1], u4[::1], i8)")
def pack(keys: Array, words: Array, shift: Scalar) -> None:
    """Start keys with a column of words, shifted to its place."""
    by = u8(shift)
    for i in range(keys.size):
        keys[i] = u8(words[i]) << by


@kernel("void(u8[::1], u4[::1], i8)")
def pack_into(keys: Array, words: Array, shift: Scalar) -> None:
    """Add a column to keys whose bits there are still 0."""
    by = u8(shift)
    for i in range(keys.size):
        keys[i] |= u8(words[i]) << by


@kernel("void(u8[::1], i8, u8, u4[::1])")
def unpack(keys: Array, shift: Scalar, mask: Scalar, out: Array) -> None:
    """A column of keys; the mask is that of its width."""
    by = u8(shift)
    for i in range(keys.size):
        out[i] = u4((keys[i] >> by) & mask)


@kernel("void(u8[::1], i8[::1], u8[::1], i8[::1], u8[::1])")
def repack(keys: Array, from_shifts: Array, masks: Array, to_shifts: Array, out: Array) -> None:
    """Move every column of the keys to another place; their widths may only grow."""
    for i in range(keys.size):
        key = keys[i]
        moved = u8(0)
        for c in range(masks.size):
            moved |= ((key >> u8(from_shifts[c])) & masks[c]) << u8(to_shifts[c])
        out[i] = moved


@kernel("void(u4[::1], u4[::1], u4[::1])")
def gather(words: Array, rows: Array, out: Array) -> None:
    """The words at given rows."""
    for i in range(rows.size):
        out[i] = words[rows[i]]


@kernel("i8(u4[::1], b1[::1], u4[::1])")
def compress(words: Array, keep: Array, out: Array) -> Scalar:
    """The words whose flag is set. `out` has room for all; no branches."""
    written = 0
    for i in range(words.size):
        out[written] = words[i]
        written += keep[i]
    return written


@kernel("u4(u4[::1])")
def largest(words: Array) -> Scalar:
    """The largest word; 0 if there is none."""
    most = u4(0)
    for i in range(words.size):
        most = max(most, words[i])
    return most
