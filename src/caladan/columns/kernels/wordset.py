"""A set of keys as a hash table of 64-bit words: key >> 6 leads to a word with a bit for each key.

Between a bitmap and a hash set: where facts stand close together, as those of one row do, many
share a word, and keys that come in order find theirs without hashing. Slots are pairs (word number
+ 1, bits); four neighbouring words share a cache line.
"""

from __future__ import annotations

from typing import Any

from numpy import uint64 as u8

from caladan.columns.kernels import helper, kernel

Array = Any
Scalar = Any


@helper
def place_of(number: Scalar, mask: Scalar) -> Scalar:
    """Where to start looking for a word."""
    h = (number >> u8(2)) * u8(0x9E3779B97F4A7C15)
    h ^= h >> u8(29)
    return ((h << u8(2)) | (number & u8(3))) & mask


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
            at = place_of(number, mask)
            while True:
                held = table[at + at]
                if held == number:
                    break
                if held == u8(0):
                    table[at + at] = number
                    used += 1
                    break
                at = (at + u8(1)) & mask
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
            at = place_of(number, mask)
            while table[at + at] != number and table[at + at] != u8(0):
                at = (at + u8(1)) & mask
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
        at = place_of(number, mask)
        while table[at + at] != number and table[at + at] != u8(0):
            at = (at + u8(1)) & mask
        if table[at + at] == number and (table[at + at + u8(1)] >> (key & u8(63))) & u8(1):
            marks[i] = True


@kernel("void(u8[::1], u8[::1])")
def drop_words(keys: Array, table: Array) -> None:
    """Take keys out of the set that are in it."""
    mask = u8((table.size >> 1) - 1)
    for i in range(keys.size):
        key = keys[i]
        number = (key >> u8(6)) + u8(1)
        at = place_of(number, mask)
        while table[at + at] != number:
            at = (at + u8(1)) & mask
        table[at + at + u8(1)] &= ~(u8(1) << (key & u8(63)))


@kernel("void(u8[::1], u8[::1])")
def refill_words(old: Array, table: Array) -> None:
    """Put the words of a table into a larger, empty one."""
    mask = u8((table.size >> 1) - 1)
    for q in range(old.size >> 1):
        number = old[2 * q]
        if number != u8(0):
            at = place_of(number, mask)
            while table[at + at] != u8(0):
                at = (at + u8(1)) & mask
            table[at + at] = number
            table[at + at + u8(1)] = old[2 * q + 1]
