"""Looking keys up in runs: the range of each, and whether there is one; and spreading the ranges.

A run is sorted packed keys. A lookup key is the packed columns that are bound, right-aligned: it
matches the run's keys that equal it when shifted right by `shift`. `bounds`, if not empty, has for
each word of the leading column where its keys start; `lead` is that column's place inside the
lookup key. With bounds and one bound column a lookup is two reads; else a binary search.
"""

from __future__ import annotations

from typing import Any

from numba import i8, u8

from caladan.columns.kernels import helper, kernel

Array = Any


@kernel("void(u8[::1], i8, i8[::1])")
def leading_bounds(run: Array, shift: int, bounds: Array) -> None:
    """Where each word of the leading column starts: bounds[w]:bounds[w + 1] are its keys. Linear."""
    by = u8(shift)
    bounds[:] = 0
    for i in range(run.size):
        bounds[i8(run[i] >> by) + 1] += 1
    for w in range(bounds.size - 1):
        bounds[w + 1] += bounds[w]


@helper
def lower_bound(run: Array, low: int, high: int, key: int) -> int:
    """The first position in low:high whose key is not smaller."""
    n = high - low
    while n > 0:
        half = n >> 1
        if run[low + half] < key:
            low += half + 1
            n -= half + 1
        else:
            n = half
    return low


@helper
def end_of(run: Array, low: int, high: int, shift: int, key: int) -> int:
    """Where the keys that match end, given where they start: log of how many there are."""
    if low >= high or (run[low] >> shift) != key:
        return low
    step = 1
    while low + step < high and (run[low + step] >> shift) == key:
        low += step
        step <<= 1
    high = min(low + step, high)
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if (run[middle] >> shift) == key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel("i8(u8[::1], u8[::1], i8, i8[::1], i8, i8[::1], i8[::1])")
def ranges(
    keys: Array, run: Array, shift: int, bounds: Array, lead: int, starts: Array, counts: Array
) -> int:
    """The range of each key in a run, as start and count; the sum of the counts is returned.

    A key equal to the one before reuses its answer, so sorted lookups cost one search a distinct
    key.
    """
    by = u8(shift)
    by_lead = u8(lead)
    total = 0
    start = end = 0
    last = u8(0)
    first = True
    for i in range(keys.size):
        key = keys[i]
        if first or key != last:
            last = key
            first = False
            start = end = 0
            if bounds.size > 0:
                word = key >> by_lead
                if word < u8(bounds.size - 1):
                    start = bounds[word]
                    end = bounds[word + u8(1)]
                    if lead != 0 and start < end:
                        start = lower_bound(run, start, end, key << by)
                        end = end_of(run, start, end, by, key)
            else:
                start = lower_bound(run, 0, run.size, key << by)
                end = end_of(run, start, run.size, by, key)
        starts[i] = start
        counts[i] = end - start
        total += end - start
    return total


@kernel("void(u8[::1], u8[::1], i8, i8[::1], i8, b1[::1])")
def mark_present(
    keys: Array, run: Array, shift: int, bounds: Array, lead: int, found: Array
) -> None:
    """Set the flags of the keys that match something in the run; flags already set stay."""
    by = u8(shift)
    by_lead = u8(lead)
    for i in range(keys.size):
        if found[i]:
            continue
        key = keys[i]
        low = 0
        high = run.size
        if bounds.size > 0:
            word = key >> by_lead
            if word >= u8(bounds.size - 1):
                continue
            low = bounds[word]
            high = bounds[word + u8(1)]
            if lead == 0:
                found[i] = low < high
                continue
        at = lower_bound(run, low, high, key << by)
        found[i] = at < high and (run[at] >> by) == key


@kernel("i8(i8[::1], i8, i8, i8[::1])")
def fitting(counts: Array, first: int, room: int, rows: Array) -> int:
    """How far from row `first` the counts fit into the room; the end row is returned.

    `rows` gets the row of every match: row i is written counts[i] times, in order.
    """
    written = 0
    i = first
    while i < counts.size and written + counts[i] <= room:
        for _ in range(counts[i]):
            rows[written] = i
            written += 1
        i += 1
    return i


@kernel("void(u8[::1], i8[::1], i8[::1], i8, i8, i8[::1], u8[::1])")
def copy_matches(
    run: Array, starts: Array, counts: Array, first: int, end: int, places: Array, hits: Array
) -> None:
    """Copy a run's keys that match rows first:end; row i's go to hits[places[i - first]:].

    The places move on, so that the next run's matches of a row follow: that is how the matches of
    several runs are accumulated before they are crossed with the rows.
    """
    for i in range(first, end):
        place = places[i - first]
        start = starts[i]
        for k in range(counts[i]):
            hits[place + k] = run[start + k]
        places[i - first] = place + counts[i]
