"""Facts to the tasks that own them: a hash of a column, and a stable sort by task in one pass."""

from __future__ import annotations

from typing import Any

from numpy import uint16 as u2, uint64 as u8

from caladan.columns.kernels import helper, kernel

Array = Any
Scalar = Any


@helper
def _mixed(value: Scalar) -> Scalar:
    value = (value ^ (value >> u8(30))) * u8(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> u8(27))) * u8(0x94D049BB133111EB)
    return value ^ (value >> u8(31))


@kernel("void(u8[::1], u8[::1])")
def mix_in(hashes: Array, values: Array) -> None:
    """Let another column of values take part in hashes."""
    for i in range(hashes.size):
        hashes[i] = _mixed(hashes[i] ^ values[i]) + u8(0x9E3779B97F4A7C15)


@kernel("void(u8[::1], i8, u8, i8, u2[::1], i8[::1])")
def owners(
    keys: Array, shift: Scalar, mask: Scalar, tasks: Scalar, out: Array, counts: Array
) -> None:
    """The task that owns each key, by the bits under a mask; `counts` adds up how many each has."""
    by = u8(shift)
    for i in range(keys.size):
        hashed = _mixed((keys[i] >> by) & mask)
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
