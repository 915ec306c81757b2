"""Interning: a number for each distinct 64-bit key, in order of first appearance.

The table is open addressing with linear probing: `slots` holds id + 1 (0 is free), `keys` the key
of each id. It is kept at most half full by its owner. Expected constant time a key.
"""

from __future__ import annotations

from typing import Any

from numpy import int64 as i8, uint32 as u4, uint64 as u8

from caladan.columns.kernels import helper, kernel

Array = Any
Scalar = Any  # numba tells signed and unsigned apart, Python does not

ABSENT = 0xFFFFFFFF  # the id of a key that is not there


@helper
def slot_of(key: Scalar, mask: Scalar) -> Scalar:
    """Where to start looking for a key."""
    h = key * u8(0x9E3779B97F4A7C15)
    return (h ^ (h >> u8(32))) & mask


@kernel("i8(u8[::1], u4[::1], u8[::1], i8, u4[::1], i8[::1])")
def intern(
    batch: Array, slots: Array, keys: Array, known: Scalar, ids: Array, fresh: Array
) -> Scalar:
    """The id of each key of a batch; new keys get the next ids. Returns how many are known now.

    `fresh` gets the positions in the batch of the keys that were new, in the order of their ids.
    `keys` has room for known + batch.size entries.
    """
    mask = u8(slots.size - 1)
    before = known
    for i in range(batch.size):
        key = batch[i]
        at = slot_of(key, mask)
        while True:
            held = slots[at]
            if held == u4(0):
                keys[known] = key
                fresh[known - before] = i
                known += 1
                slots[at] = u4(known)
                ids[i] = u4(known - 1)
                break
            if keys[i8(held) - 1] == key:
                ids[i] = held - u4(1)
                break
            at = (at + u8(1)) & mask
    return known


@kernel("void(u8[::1], u4[::1], u8[::1], u4[::1])")
def find(batch: Array, slots: Array, keys: Array, ids: Array) -> None:
    """The id of each key of a batch, ABSENT for keys that have none."""
    mask = u8(slots.size - 1)
    for i in range(batch.size):
        key = batch[i]
        at = slot_of(key, mask)
        ids[i] = u4(ABSENT)
        while True:
            held = slots[at]
            if held == u4(0):
                break
            if keys[i8(held) - 1] == key:
                ids[i] = held - u4(1)
                break
            at = (at + u8(1)) & mask


@kernel("void(u8[::1], i8, u4[::1])")
def refill(keys: Array, known: Scalar, slots: Array) -> None:
    """Put the known keys into an empty, larger table."""
    mask = u8(slots.size - 1)
    for i in range(known):
        at = slot_of(keys[i], mask)
        while slots[at] != u4(0):
            at = (at + u8(1)) & mask
        slots[at] = u4(i + 1)
