"""Words into packed keys and out of them, gathering by position, and facts to the tasks that own
them: a hash of a column, and a stable sort by task. All are one linear pass.
"""

from __future__ import annotations

from typing import Any

from numpy import uint16 as u2, uint32 as u4, uint64 as u8

from caladan.columns.kernels import helper, kernel

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


@helper
def _mix(value: Scalar) -> Scalar:
    value = (value ^ (value >> u8(30))) * u8(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> u8(27))) * u8(0x94D049BB133111EB)
    return value ^ (value >> u8(31))


@kernel("void(u8[::1], u8[::1])")
def mix_in(hashes: Array, values: Array) -> None:
    """Let another column of values take part in hashes."""
    for i in range(hashes.size):
        hashes[i] = _mix(hashes[i] ^ values[i]) + u8(0x9E3779B97F4A7C15)


@kernel("void(u8[::1], i8, u8, i8, u2[::1], i8[::1])")
def owners(
    keys: Array, shift: Scalar, mask: Scalar, tasks: Scalar, out: Array, counts: Array
) -> None:
    """The task that owns each key, by the bits under a mask; `counts` adds up how many each has."""
    by = u8(shift)
    for i in range(keys.size):
        hashed = _mix((keys[i] >> by) & mask)
        owner = ((hashed >> u8(32)) * u8(tasks)) >> u8(32)
        out[i] = u2(owner)
        counts[owner] += 1


@kernel("void(u8[::1], u2[::1], i8[::1], u8[::1])")
def scatter(keys: Array, owner: Array, starts: Array, out: Array) -> None:
    """Keys grouped by owner, in their order; `starts` is where each group begins, and moves on."""
    for i in range(keys.size):
        task = owner[i]
        out[starts[task]] = keys[i]
        starts[task] += 1
