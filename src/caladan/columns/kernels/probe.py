"""Looking keys up in runs: the range of each, and whether there is one; and spreading the ranges.

A run is sorted packed keys. A lookup key is the packed columns that are bound, right-aligned: it
matches the run's keys that equal it when shifted right by `shift`. `bounds`, if not empty, has for
each word of the leading column where its keys start; `lead` is that column's place inside the
lookup key. With bounds and one bound column a lookup is two reads; else a binary search.

A filter is a bitmap that tells most keys that have no match, for the price of one read. With
`filter_log` 0 it has a bit for every possible lookup key, and is exact; else the key is hashed to
so many bits.
"""

from __future__ import annotations

from typing import Any

from numpy import int64 as i8, uint32 as u4, uint64 as u8

from caladan.columns.kernels import helper, kernel
from caladan.columns.kernels.sorted import WHOLE, lower_bound

Array = Any
Scalar = Any  # numba tells signed and unsigned apart, Python does not


@kernel("void(u8[::1], i8, i8[::1])")
def leading_bounds(run: Array, shift: Scalar, bounds: Array) -> None:
    """Where each word of the leading column starts: its keys are bounds[w]:bounds[w + 1]."""
    by = u8(shift)
    bounds[:] = 0
    for i in range(run.size):
        bounds[i8(run[i] >> by) + 1] += 1
    for w in range(bounds.size - 1):
        bounds[w + 1] += bounds[w]


@helper
def end_of(run: Array, low: Scalar, high: Scalar, shift: Scalar, key: Scalar) -> Scalar:
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


@helper
def filter_bit(key: Scalar, filter_log: Scalar) -> Scalar:
    """The place of a lookup key in a filter."""
    if filter_log == 0:
        return key
    return (key * u8(0x9E3779B97F4A7C15)) >> u8(64 - filter_log)


@helper
def may_match(key: Scalar, bits: Array, filter_log: Scalar) -> bool:
    """Whether a filter lets a key pass."""
    bit = filter_bit(key, filter_log)
    word = bit >> u8(6)
    return word < u8(bits.size) and (bits[word] >> (bit & u8(63))) & u8(1) != u8(0)


@kernel("void(u8[::1], i8, i8, u8[::1])")
def fill_filter(run: Array, shift: Scalar, filter_log: Scalar, bits: Array) -> None:
    """Set the bits of all lookup keys that match a key of the run."""
    by = u8(shift)
    for i in range(run.size):
        bit = filter_bit(run[i] >> by, filter_log)
        bits[bit >> u8(6)] |= u8(1) << (bit & u8(63))


@kernel("i8(u8[::1], u8[::1], i8, i8[::1], i8, u8[::1], i8, i8[::1], i8[::1])")
def ranges(
    keys: Array,
    run: Array,
    shift: Scalar,
    bounds: Array,
    lead: Scalar,
    bits: Array,
    filter_log: Scalar,
    starts: Array,
    counts: Array,
) -> Scalar:
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
            if bits.size > 0 and not may_match(key, bits, filter_log):
                pass
            elif bounds.size > 0:
                word = key >> by_lead
                if word < u8(bounds.size - 1):
                    start = bounds[word]
                    end = bounds[word + u8(1)]
                    if lead != 0 and start < end:
                        start = lower_bound(run, start, end, WHOLE, key << by)
                        end = end_of(run, start, end, by, key)
            else:
                start = lower_bound(run, 0, run.size, WHOLE, key << by)
                end = end_of(run, start, run.size, by, key)
        starts[i] = start
        counts[i] = end - start
        total += end - start
    return total


@kernel("void(u8[::1], u8[::1], i8, i8[::1], i8, u8[::1], i8, b1[::1])")
def mark_present(
    keys: Array,
    run: Array,
    shift: Scalar,
    bounds: Array,
    lead: Scalar,
    bits: Array,
    filter_log: Scalar,
    found: Array,
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
        if bits.size > 0:
            if not may_match(key, bits, filter_log):
                continue
            if filter_log == 0:
                found[i] = True
                continue
        if bounds.size > 0:
            word = key >> by_lead
            if word >= u8(bounds.size - 1):
                continue
            low = bounds[word]
            high = bounds[word + u8(1)]
            if lead == 0:
                found[i] = low < high
                continue
        at = lower_bound(run, low, high, WHOLE, key << by)
        found[i] = at < high and (run[at] >> by) == key


@kernel("i8(u8[::1], i8[::1], i8[::1], i8, i8, i8[::1], u4[::1], u8[::1])")
def spread(
    run: Array,
    starts: Array,
    counts: Array,
    first: Scalar,
    room: Scalar,
    used: Array,
    rows: Array,
    hits: Array,
) -> Scalar:
    """Write row and matching key of every match, from row `first` on while whole rows fit.

    The end row is returned; used[0] is how many were written.
    """
    written = u8(0)
    i = first
    while i < counts.size:
        count = u8(counts[i])
        if written + count > u8(room):
            break
        start = u8(starts[i])
        for k in range(count):
            rows[written + k] = u4(i)
            hits[written + k] = run[start + k]
        written += count
        i += 1
    used[0] = i8(written)
    return i


@kernel("i8(i8[::1], i8, i8, i8[::1], u4[::1], i8[::1])")
def find_fit(
    counts: Array, first: Scalar, room: Scalar, used: Array, rows: Array, places: Array
) -> Scalar:
    """How far from row `first` the counts fit into the room; the end row is returned.

    `rows` gets the row of every match: row i is written counts[i] times, in order. Its matches
    start at places[i - first]. used[0] is how many were written.
    """
    written = 0
    i = first
    while i < counts.size and written + counts[i] <= room:
        places[i - first] = written
        for _ in range(counts[i]):
            rows[written] = u4(i)
            written += 1
        i += 1
    used[0] = written
    return i


@kernel("void(u8[::1], i8[::1], i8[::1], i8, i8, i8[::1], u8[::1])")
def copy_matches(
    run: Array, starts: Array, counts: Array, first: Scalar, end: Scalar, places: Array, hits: Array
) -> None:
    """Copy a run's keys that match rows first:end; row i's go to hits[places[i - first]:].

    The places move on, so that the next run's matches of a row follow: that is how the matches of
    several runs are accumulated before they are crossed with the rows.
    """
    for i in range(first, end):
        count = u8(counts[i])
        if count != u8(0):
            place = u8(places[i - first])
            start = u8(starts[i])
            for k in range(count):
                hits[place + k] = run[start + k]
            places[i - first] += counts[i]


@kernel(
    "i8(u8[::1], i8[::1], i8[::1], i8, i8, u8[::1], i8[::1], u8[::1], i8[::1], i8[::1], u8[::1])"
)
def emit(
    run: Array,
    starts: Array,
    counts: Array,
    first: Scalar,
    room: Scalar,
    bases: Array,
    from_shifts: Array,
    masks: Array,
    to_shifts: Array,
    used: Array,
    out: Array,
) -> Scalar:
    """Write head keys straight from matches: the row's base, and columns of the key found moved in.

    From row `first` on while whole rows fit; the end row is returned, used[0] is how many were
    written. One pass, eight bytes a match.
    """
    written = u8(0)
    i = first
    from_shift = u8(from_shifts[0])
    mask = masks[0]
    to_shift = u8(to_shifts[0])
    while i < counts.size:
        count = u8(counts[i])
        if written + count > u8(room):
            break
        if count != u8(0):
            start = u8(starts[i])
            base = bases[i]
            for k in range(count):
                out[written + k] = base | (((run[start + k] >> from_shift) & mask) << to_shift)
            for field in range(1, masks.size):
                for k in range(count):
                    out[written + k] |= (
                        (run[start + k] >> u8(from_shifts[field])) & masks[field]
                    ) << u8(to_shifts[field])
            written += count
        i += 1
    used[0] = i8(written)
    return i
