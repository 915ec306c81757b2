"""Kernels over rows kept as ascending lists, one behind the other: row r is
values[bounds[r]:bounds[r + 1]]. Rows and values are classes, as for bit rows.
"""

from __future__ import annotations

from typing import Any

from numba import u4

from caladan.columns.kernels import helper, kernel

Array = Any

_NONE = u4(0xFFFFFFFF)


@kernel("i8(i8[::1], u4[::1], i8[::1], i8[::1])")
def weigh_lists(bounds: Array, values: Array, weights: Array, out: Array) -> int:
    """For each row the sum of its values' weights."""
    for r in range(bounds.size - 1):
        total = 0
        for p in range(bounds[r], bounds[r + 1]):
            total += weights[values[p]]
        out[r] = total
    return bounds.size - 1


@helper
def _has(values: Array, lo: int, hi: int, y: int) -> int:
    while lo < hi:
        middle = (lo + hi) >> 1
        if values[middle] < y:
            lo = middle + 1
        else:
            hi = middle
    return lo


@kernel("i8(i8[::1], u4[::1], u4[::1], u4[::1], u4[::1], u4[::1], b1[::1])")
def contains_lists(
    bounds: Array,
    values: Array,
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
                p = _has(values, bounds[r], bounds[r + 1], c)
                out[i] = p < bounds[r + 1] and values[p] == c
    return first.size


@kernel("i8(i8[::1], u4[::1], u4[::1], u4[::1], i8[::1], u4[::1], i8[::1], u4[::1], u4[::1])")
def emit_lists(
    bounds: Array,
    values: Array,
    words: Array,
    row_of: Array,
    column_bounds: Array,
    members: Array,
    cursor: Array,
    first: Array,
    second: Array,
) -> int:
    """List facts until the output is full; goes on at `cursor` and leaves it behind the last.

    The cursor is (position in `words`, position in the row, position in the class).
    """
    i = cursor[0]
    k = cursor[1]
    m = cursor[2]
    w = 0
    while i < words.size:
        x = words[i]
        r = row_of[x]
        for at in range(bounds[r] + k, bounds[r + 1]):
            c = values[at]
            p = column_bounds[c] + m
            end = column_bounds[c + 1]
            while p < end and w < first.size:
                first[w] = x
                second[w] = members[p]
                w += 1
                p += 1
            if p < end:
                cursor[0] = i
                cursor[1] = at - bounds[r]
                cursor[2] = p - column_bounds[c]
                return w
            m = 0
        k = 0
        i += 1
    cursor[0] = i
    cursor[1] = 0
    cursor[2] = 0
    return w


@kernel("i8(i8[::1], u4[::1], i8, b1[::1])")
def column_lists(bounds: Array, values: Array, column: int, out: Array) -> int:
    """Which rows have a value; a binary search in each. Returns how many."""
    count = 0
    for r in range(bounds.size - 1):
        p = _has(values, bounds[r], bounds[r + 1], column)
        out[r] = p < bounds[r + 1] and values[p] == column
        count += out[r]
    return count
