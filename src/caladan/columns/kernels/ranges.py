"""Kernels over rows kept as ranges: row r is ranges[bounds[r]:bounds[r + 1]].

A range is a pair of classes, first and last, packed as first << 32 | last. Those of a row ascend,
and between two of them at least one class is missing. Rows are classes, as for bit rows.
"""

from __future__ import annotations

from typing import Any

from numpy import int64 as i8, uint32 as u4, uint64 as u8

from caladan.columns.kernels import helper, kernel

Array = Any

_NONE = u4(0xFFFFFFFF)
_LOW = u8(0xFFFFFFFF)
_HALF = u8(32)
_ONE = u8(1)


@kernel("i8(i8[::1], u8[::1], i8[::1], i8[::1])")
def weigh_ranges(bounds: Array, ranges: Array, sums: Array, out: Array) -> int:
    """For each row the sum of its classes' weights; sums[c] is the weight of all before c."""
    for r in range(bounds.size - 1):
        total = 0
        for p in range(bounds[r], bounds[r + 1]):
            total += sums[i8(ranges[p] & _LOW) + 1] - sums[i8(ranges[p] >> _HALF)]
        out[r] = total
    return bounds.size - 1


@helper
def _covers(ranges: Array, low: int, high: int, c: Any) -> bool:
    """Whether a class is in one of the ranges low … high - 1: a binary search."""
    while low < high:
        middle = (low + high) >> 1
        if (ranges[middle] >> _HALF) <= c:
            if (ranges[middle] & _LOW) >= c:
                return True
            low = middle + 1
        else:
            high = middle
    return False


@kernel("i8(i8[::1], u8[::1], u4[::1], u4[::1], u4[::1], u4[::1], b1[::1])")
def contains_ranges(
    bounds: Array,
    ranges: Array,
    row_of: Array,
    column_of: Array,
    first: Array,
    second: Array,
    out: Array,
) -> int:
    """Which of the facts (first[i], second[i]) are there: a binary search for each."""
    for i in range(first.size):
        out[i] = False
        x = first[i]
        y = second[i]
        if x < row_of.size and y < column_of.size:
            r = row_of[x]
            c = column_of[y]
            if r != _NONE and c != _NONE:
                out[i] = _covers(ranges, bounds[r], bounds[r + 1], u8(c))
    return first.size


@kernel("i8(i8[::1], u8[::1], u4[::1], u4[::1], i8[::1], u4[::1], i8[::1], u4[::1], u4[::1])")
def emit_ranges(
    bounds: Array,
    ranges: Array,
    words: Array,
    row_of: Array,
    column_bounds: Array,
    members: Array,
    cursor: Array,
    first: Array,
    second: Array,
) -> int:
    """List facts until the output is full; goes on at `cursor` and leaves it behind the last.

    The words of neighbouring classes are neighbours in `members`, so a range is one stretch of it.
    The cursor is (position in `words`, range of the row, position in the stretch).
    """
    i = cursor[0]
    k = cursor[1]
    m = cursor[2]
    w = 0
    while i < words.size:
        x = words[i]
        r = row_of[x]
        for at in range(bounds[r] + k, bounds[r + 1]):
            begin = column_bounds[i8(ranges[at] >> _HALF)]
            end = column_bounds[i8(ranges[at] & _LOW) + 1]
            p = begin + m
            while p < end and w < first.size:
                first[w] = x
                second[w] = members[p]
                w += 1
                p += 1
            if p < end:
                cursor[0] = i
                cursor[1] = at - bounds[r]
                cursor[2] = p - begin
                return w
            m = 0
        k = 0
        i += 1
    cursor[0] = i
    cursor[1] = 0
    cursor[2] = 0
    return w


@kernel("i8(i8[::1], u8[::1], i8, b1[::1])")
def column_ranges(bounds: Array, ranges: Array, column: int, out: Array) -> int:
    """Which rows have a class; a binary search in each. Returns how many."""
    count = 0
    for r in range(bounds.size - 1):
        out[r] = _covers(ranges, bounds[r], bounds[r + 1], u8(column))
        count += out[r]
    return count


@kernel("i8(i8[::1], u8[::1], i8[::1], i8[::1], i8[::1])")
def weigh_columns_ranges(
    bounds: Array, ranges: Array, ahead: Array, weights: Array, out: Array
) -> int:
    """For each wanted class the summed weight of the rows that have it.

    ahead[c] is how many wanted classes are before c; `out` is zeroed and has one place more. What a
    range adds to neighbours is noted where it begins and ends, and summed up at last.
    """
    for r in range(bounds.size - 1):
        for p in range(bounds[r], bounds[r + 1]):
            out[ahead[i8(ranges[p] >> _HALF)]] += weights[r]
            out[ahead[i8(ranges[p] & _LOW) + 1]] -= weights[r]
    total = 0
    for k in range(out.size):
        total += out[k]
        out[k] = total
    return out.size - 1


@kernel("i8(i8[::1], u8[::1], i8[::1], i8[::1], u4[::1])")
def list_columns_ranges(
    bounds: Array, ranges: Array, ahead: Array, cursor: Array, out: Array
) -> int:
    """The rows of each wanted class, from out[cursor[k]] on; leaves the cursors behind them."""
    done = 0
    for r in range(bounds.size - 1):
        for p in range(bounds[r], bounds[r + 1]):
            begin = ahead[i8(ranges[p] >> _HALF)]
            end = ahead[i8(ranges[p] & _LOW) + 1]
            for k in range(begin, end):
                out[cursor[k]] = r
                cursor[k] += 1
            done += end - begin
    return done


@kernel("i8(i8[::1], u8[::1], i8[:, ::1], i8[::1])")
def best_ranges(bounds: Array, ranges: Array, best: Array, out: Array) -> int:
    """For each row the least of its classes' values; rows without classes stay as they are.

    best[j, c] is the least of the classes c … c + 2^j - 1, so two of them cover a range.
    """
    for r in range(bounds.size - 1):
        for p in range(bounds[r], bounds[r + 1]):
            first = i8(ranges[p] >> _HALF)
            last = i8(ranges[p] & _LOW)
            level = 0
            while (1 << (level + 1)) <= last - first + 1:
                level += 1
            least = min(best[level, first], best[level, last + 1 - (1 << level)])
            out[r] = min(out[r], least)
    return bounds.size - 1


@kernel("i8(i8[::1], u8[::1], i8[::1], i8[::1], u4[::1], u8[:, ::1])")
def fill_columns_ranges(
    bounds: Array, ranges: Array, ahead: Array, place_bounds: Array, places: Array, out: Array
) -> int:
    """Set the bits of wanted classes in every row that has them.

    ahead[c] is how many wanted classes are before c; those of the k-th are the places from
    place_bounds[k] on.
    """
    for r in range(bounds.size - 1):
        for p in range(bounds[r], bounds[r + 1]):
            begin = place_bounds[ahead[i8(ranges[p] >> _HALF)]]
            end = place_bounds[ahead[i8(ranges[p] & _LOW) + 1]]
            for j in range(begin, end):
                out[r, places[j] >> u4(6)] |= _ONE << u8(places[j] & u4(63))
    return bounds.size - 1


@kernel("i8(u4[::1], u4[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8[::1])")
def tally(
    first: Array, second: Array, left: Array, right: Array, one: Array, other: Array, out: Array
) -> int:
    """Add up what facts are worth, one[x] * other[y], at the place left[x] + right[y] of each."""
    for i in range(first.size):
        x = first[i]
        y = second[i]
        out[left[x] + right[y]] += one[x] * other[y]
    return first.size
