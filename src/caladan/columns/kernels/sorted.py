"""Sorted keys: searching them, dropping repetitions, merging, and taking one from the other.

All searches give the first position of values[low:high] whose bits under `mask` are not below a
word. The mask of a whole key is `WHOLE`, which costs nothing where it is written out.

All other kernels but `radix` and `dedup` take arrays that are sorted and free of repetitions, and
keep them so.
Outputs are given by the caller, large enough for the worst case; the count of what was written is
returned.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy import uint64 as u8

from caladan.columns.kernels import helper, kernel

WHOLE: Final = u8(0xFFFFFFFFFFFFFFFF)


@helper
def lower_bound(values: Array, low: Scalar, high: Scalar, mask: Scalar, word: Scalar) -> Scalar:
    """By halves: log2(high - low) steps.

    Branches beat arithmetic here, for stretches are short and the processor runs ahead; unsigned
    indices spare numba's test for negative ones.
    """
    length = high - low
    while length > 0:
        half = length >> 1
        if (values[u8(low + half)] & mask) < word:
            low += half + 1
            length -= half + 1
        else:
            length = half
    return low


@helper
def gallop(values: Array, low: Scalar, high: Scalar, mask: Scalar, word: Scalar) -> Scalar:
    """By growing steps, about 2 log2(distance) of them: cheap when the answer is near `low`."""
    step = 1
    while low < high and (values[u8(low)] & mask) < word:
        ahead = low + step
        if ahead >= high or (values[u8(ahead)] & mask) >= word:
            return lower_bound(values, low + 1, min(ahead, high), mask, word)
        low = ahead + 1
        step += step
    return low


@helper
def seek(
    values: Array, low: Scalar, high: Scalar, mask: Scalar, word: Scalar, left: Scalar
) -> Scalar:
    """By the way that is cheaper when `left` more words will be sought.

    Few words in a long list are far apart: galloping would take twice the steps.
    """
    if high - low > left << 4:
        return lower_bound(values, low, high, mask, word)
    return gallop(values, low, high, mask, word)


Array = Any
Scalar = Any  # numba tells signed and unsigned apart, Python does not


@kernel("i8(u8[::1], u8[::1], i8, i8, i8)")
def radix(keys: Array, scratch: Array, low: Scalar, high: Scalar, width: Scalar) -> Scalar:
    """Sort keys by their bits from `low` to `high`, by digits of a width, the lowest one first.

    Keys that agree in those bits keep their order. A digit that all keys share costs a look at
    them. Whether the result is in `scratch`, which is as large, is returned.
    """
    counts = np.empty(1 << width, np.int64)
    mask = u8(counts.size - 1)
    is_swapped = False
    for shift in range(low, high, width):
        by = u8(shift)
        counts[:] = 0
        for i in range(keys.size):
            counts[(keys[i] >> by) & mask] += 1
        if counts[(keys[0] >> by) & mask] == keys.size:
            continue
        at = 0
        for digit in range(counts.size):
            count = counts[digit]
            counts[digit] = at
            at += count
        for i in range(keys.size):
            place = (keys[i] >> by) & mask
            scratch[counts[place]] = keys[i]
            counts[place] += 1
        keys, scratch = scratch, keys
        is_swapped = not is_swapped
    return is_swapped


@kernel("i8(u8[::1])")
def dedup(keys: Array) -> Scalar:
    """Drop repetitions from sorted keys, in place. One pass without branches."""
    n = keys.size
    if n == 0:
        return 0
    written = 1
    last = keys[0]
    for i in range(1, n):
        key = keys[i]
        keys[written] = key
        written += key != last
        last = key
    return written


@kernel("i8(u8[::1], u8[::1], u8[::1])")
def merge(left: Array, right: Array, out: Array) -> Scalar:
    """The union of two arrays. Linear; what both hold is written once."""
    i = j = written = 0
    while i < left.size and j < right.size:
        x = left[i]
        y = right[j]
        out[written] = x if x <= y else y
        i += x <= y
        j += y <= x
        written += 1
    while i < left.size:
        out[written] = left[i]
        i += 1
        written += 1
    while j < right.size:
        out[written] = right[j]
        j += 1
        written += 1
    return written


@kernel("void(u8[::1], u4[::1], u8[::1], u4[::1], u8[::1], u4[::1])")
def merge_ranked(
    left: Array, left_ranks: Array, right: Array, right_ranks: Array, out: Array, ranks: Array
) -> None:
    """The union of two arrays that have nothing in common, with a number beside each key."""
    i = j = written = 0
    while i < left.size and j < right.size:
        first = left[i] < right[j]
        out[written] = left[i] if first else right[j]
        ranks[written] = left_ranks[i] if first else right_ranks[j]
        i += first
        j += not first
        written += 1
    while i < left.size:
        out[written] = left[i]
        ranks[written] = left_ranks[i]
        i += 1
        written += 1
    while j < right.size:
        out[written] = right[j]
        ranks[written] = right_ranks[j]
        j += 1
        written += 1


@kernel("i8(u8[::1], u8[::1], u8[::1])")
def subtract_galloping(batch: Array, run: Array, out: Array) -> Scalar:
    """What of a batch is not in a much larger run: a search a key, from where the last ended.

    `out` may be the batch itself.
    """
    written = 0
    position = 0
    for i in range(batch.size):
        key = batch[i]
        position = gallop(run, position, run.size, WHOLE, key)
        out[written] = key
        written += not (position < run.size and run[position] == key)
    return written


@kernel("i8(u8[::1], u8[::1], u8[::1])")
def subtract_linear(batch: Array, run: Array, out: Array) -> Scalar:
    """What of a batch is not in a run of similar size: one pass over both, without branches.

    `out` may be the batch itself.
    """
    i = j = written = 0
    while i < batch.size and j < run.size:
        x = batch[i]
        y = run[j]
        out[written] = x
        written += x < y
        i += x <= y
        j += y <= x
    while i < batch.size:
        out[written] = batch[i]
        written += 1
        i += 1
    return written


@kernel("i8(u8[::1], u8[::1], u8[::1])")
def take_unseen(keys: Array, seen: Array, out: Array) -> Scalar:
    """The keys, in any order, whose bit in a bitmap was not set; now it is.

    `out` may be the keys themselves. One random access a key.
    """
    written = u8(0)
    for i in range(keys.size):
        key = keys[i]
        word = key >> u8(6)
        bit = u8(1) << (key & u8(63))
        before = seen[word]
        seen[word] = before | bit
        out[written] = key
        written += u8((before & bit) == u8(0))
    return written


@kernel("i8(u8[::1], u8[::1], u8[::1])")
def unknown(keys: Array, seen: Array, out: Array) -> Scalar:
    """The keys whose bit in a bitmap is not set, which stays as it is; `out` may be the keys."""
    written = u8(0)
    for i in range(keys.size):
        key = keys[i]
        out[written] = key
        written += u8((seen[key >> u8(6)] >> (key & u8(63))) & u8(1) == u8(0))
    return written
