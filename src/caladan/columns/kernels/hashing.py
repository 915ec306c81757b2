"""Hash tables with linear probing: numbers for keys, and sets of keys. Expected constant time each.

Interning gives each distinct 64-bit key a number, in order of first appearance: `slots` holds
id + 1 (0 is free), `keys` the key of each id. The table is kept at most half full by its owner.

A set of keys is a table of 64-bit words: key >> 6 leads to a word with a bit for each key. It is
between a bitmap and a hash set: where facts stand close together, as those of one row do, many
share a word, and keys that come in order find theirs without hashing. Slots are pairs (word number
+ 1, bits); four neighbouring words share a cache line.
"""

from __future__ import annotations

from typing import Any

from numpy import int64 as i8, uint32 as u4, uint64 as u8

from caladan.columns.kernels import helper, kernel

# numba tells signed and unsigned apart, Python does not

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


Array = Any
Scalar = Any


@helper
def place_of(number: Scalar, mask: Scalar) -> Scalar:
    """Where to start looking for a word."""
    h = (number >> u8(2)) * u8(0x9E3779B97F4A7C15)
    h ^= h >> u8(29)
    return ((h << u8(2)) | (number & u8(3))) & mask


@helper
def word_at(number: Scalar, table: Array, mask: Scalar) -> Scalar:
    """The place of a word in a table, or the free one where it belongs."""
    at = place_of(number, mask)
    while table[at + at] != number and table[at + at] != u8(0):
        at = (at + u8(1)) & mask
    return at


@kernel("i8(u8[::1], i8, u8[::1], i8, i8[::1], u8[::1])")
def unseen_words(
    keys: Array, first: Scalar, table: Array, room: Scalar, done: Array, out: Array
) -> Scalar:
    """The keys from `first` on that are not in the set; now they are.

    Stops when `room` new words were used. done[0] is how many keys `out` holds before and after
    (it may be the keys themselves), done[1] grows by the new words. Returns the position reached.
    """
    mask = u8((table.size >> 1) - 1)
    written = u8(done[0])
    used = 0
    last = u8(0)
    at = u8(0)
    i = first
    while i < keys.size:
        key = keys[i]
        number = (key >> u8(6)) + u8(1)
        if number != last:
            if used >= room:
                break
            at = word_at(number, table, mask)
            if table[at + at] == u8(0):
                table[at + at] = number
                used += 1
            last = number
        bit = u8(1) << (key & u8(63))
        before = table[at + at + u8(1)]
        table[at + at + u8(1)] = before | bit
        out[written] = key
        written += u8((before & bit) == u8(0))
        i += 1
    done[0] = written
    done[1] += used
    return i


@kernel("i8(u8[::1], u8[::1], u8[::1])")
def unknown_words(keys: Array, table: Array, out: Array) -> Scalar:
    """The keys that are not in the set, which stays as it is; `out` may be the keys themselves.

    Another thread may be adding meanwhile: then a key it adds may still count as unknown. A word's
    number is written before its bits, and bits only come, so no key is taken for known wrongly.
    """
    mask = u8((table.size >> 1) - 1)
    written = u8(0)
    last = u8(0)
    bits = u8(0)
    for i in range(keys.size):
        key = keys[i]
        number = (key >> u8(6)) + u8(1)
        if number != last:
            at = word_at(number, table, mask)
            bits = table[at + at + u8(1)] if table[at + at] == number else u8(0)
            last = number
        out[written] = key
        written += u8((bits >> (key & u8(63))) & u8(1) == u8(0))
    return written


@kernel("void(u8[::1], u8[::1], b1[::1])")
def mark_words(keys: Array, table: Array, marks: Array) -> None:
    """Which keys are in the set; the others keep the mark they have."""
    mask = u8((table.size >> 1) - 1)
    for i in range(keys.size):
        key = keys[i]
        number = (key >> u8(6)) + u8(1)
        at = word_at(number, table, mask)
        if table[at + at] == number and (table[at + at + u8(1)] >> (key & u8(63))) & u8(1):
            marks[i] = True


@kernel("void(u8[::1], u8[::1])")
def drop_words(keys: Array, table: Array) -> None:
    """Take keys out of the set that are in it."""
    mask = u8((table.size >> 1) - 1)
    for i in range(keys.size):
        key = keys[i]
        at = word_at((key >> u8(6)) + u8(1), table, mask)
        table[at + at + u8(1)] &= ~(u8(1) << (key & u8(63)))


@kernel("void(u8[::1], u8[::1])")
def refill_words(old: Array, table: Array) -> None:
    """Put the words of a table into a larger, empty one."""
    mask = u8((table.size >> 1) - 1)
    for q in range(old.size >> 1):
        number = old[2 * q]
        if number != u8(0):
            at = word_at(number, table, mask)
            table[at + at] = number
            table[at + at + u8(1)] = old[2 * q + 1]
