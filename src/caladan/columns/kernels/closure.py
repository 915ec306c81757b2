"""Kernels for reachability between all nodes of an acyclic graph, as bit rows or as ranges.

The rows are numbered so that every edge leads from a row to a smaller one (`graph.components` and
`graph.condense` see to that), so one pass over the rows suffices: the row of r is the union, over
its successors d, of d and the row of d. A successor that is already in the union brings nothing
new and is skipped; successors are taken from the largest down, so that those come last which the
others are likely to reach.

The first rows are also the columns (`columns` of them); rows behind them are sources that nothing
leads to. `cyclic` rows, components with an edge inside, contain themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import int64 as i8, uint32 as u4, uint64 as u8

from caladan.columns.kernels import helper, kernel
from caladan.columns.kernels.intrinsics import lowest

Array = Any

_ZERO = u8(0)
_ONE = u8(1)
_SIX = u8(6)
_63 = u8(63)
_HALF = u8(32)
_LOW = u8(0xFFFFFFFF)
_ALL = u8(0xFFFFFFFFFFFFFFFF)
_FEW = 4  # successors whose rows are merged; more are collected in bits


@kernel("i8(i8[::1], u4[::1], b1[::1], u8[:, ::1], i8, i8, i8[::1])")
def closure_bits(
    bounds: Array, targets: Array, cyclic: Array, bits: Array, first: int, last: int, stop: Array
) -> int:
    """Fill the words first … last - 1 of every bit row; `bits` comes in zeroed.

    A row r < columns has bits up to r only, which halves the work. Cost: at most edges × words.
    Returns the number of rows done: fewer than all if `stop` was raised.
    """
    work = 0
    for r in range(bounds.size - 1):
        row = bits[r]
        for p in range(bounds[r + 1] - 1, bounds[r] - 1, -1):
            d = targets[p]
            w = i8(d >> u4(6))
            bit = _ONE << u8(d & u4(63))
            if first <= w < last:
                if row[w] & bit:
                    continue
                row[w] |= bit
            end = min(last, w + 1)
            below = bits[d]
            for q in range(first, end):
                row[q] |= below[q]
            work += end - first
        if r < cyclic.size and cyclic[r]:
            w = r >> 6
            if first <= w < last:
                row[w] |= _ONE << u8(r & 63)
        if work > 1 << 24:
            work = 0
            if stop[0] != 0:
                return r
    return bounds.size - 1


@helper
def put(ranges: Array, begin: Any, w: Any, first: Any, last: Any) -> Any:
    """Append a range that starts behind the last one's start; it may touch or overlap that one.

    The row starts at `begin` and ends before `w`; returns the new end.
    """
    if w > begin and first <= (ranges[w - _ONE] & _LOW) + _ONE:
        if last > (ranges[w - _ONE] & _LOW):
            ranges[w - _ONE] = (ranges[w - _ONE] & ~_LOW) | last
        return w
    ranges[w] = (first << _HALF) | last
    return w + _ONE


@helper
def _has(ranges: Array, low: Any, high: Any, c: Any) -> bool:
    while low < high:
        middle = (low + high) >> _ONE
        if (ranges[middle] >> _HALF) <= c:
            if (ranges[middle] & _LOW) >= c:
                return True
            low = middle + _ONE
        else:
            high = middle
    return False


@helper
def _merge(
    one: Array, i: Any, end: Any, other: Array, j: Any, stop: Any, c: Any, out: Array
) -> Any:
    """The union of two lists of ranges and of c, which is behind all of the second; its length."""
    w = _ZERO
    pending = True
    while i < end or j < stop or pending:
        if (
            i < end
            and (j >= stop or one[i] <= other[j])
            and (j < stop or not pending or (one[i] >> _HALF) <= c)
        ):
            w = put(out, _ZERO, w, one[i] >> _HALF, one[i] & _LOW)
            i += _ONE
        elif j < stop:
            w = put(out, _ZERO, w, other[j] >> _HALF, other[j] & _LOW)
            j += _ONE
        else:
            w = put(out, _ZERO, w, c, c)
            pending = False
    return w


@helper
def _fill(bits: Array, summary: Array, first: Any, last: Any) -> None:
    """Set the bits first … last, and the summary's bit for each word touched."""
    q = first >> _SIX
    end = last >> _SIX
    low = _ALL << (first & _63)
    while q < end:
        bits[q] |= low
        summary[q >> _SIX] |= _ONE << (q & _63)
        low = _ALL
        q += _ONE
    bits[q] |= low & (_ALL >> (_63 - (last & _63)))
    summary[q >> _SIX] |= _ONE << (q & _63)


@helper
def put_word(out: Array, begin: Any, w: Any, q: Any, word: Any) -> Any:
    """Append the classes of a word of bits, the q-th of a row; returns the new end."""
    while word != _ZERO:
        low = lowest(word)
        rest = ~(word >> low)
        length = lowest(rest) if rest != _ZERO else u8(64)
        first = (q << _SIX) | low
        w = put(out, begin, w, first, first + length - _ONE)
        if low + length >= u8(64):
            break
        word &= _ALL << (low + length)
    return w


@helper
def _drain(bits: Array, summary: Array, begin: Any, out: Array) -> Any:
    """Write the set bits as a row of ranges from `begin` on, and clear them; returns its end."""
    w = begin
    for s in range(u8(summary.size)):
        marks = summary[s]
        summary[s] = _ZERO
        while marks != _ZERO:
            q = (u8(s) << _SIX) | lowest(marks)
            marks &= marks - _ONE
            w = put_word(out, begin, w, q, bits[q])
            bits[q] = _ZERO
    return w


@kernel("i8(i8[::1], u4[::1], b1[::1], i8[::1], u8[::1], i8[::1])")
def closure_ranges(
    bounds: Array, targets: Array, cyclic: Array, row_bounds: Array, out: Array, stop: Array
) -> int:
    """Write the rows as ranges, one row behind the other, into `out`; row_bounds[0] is 0.

    Components are numbered in the order a depth-first walk leaves them, so what a row reaches is
    mostly a few long ranges. Cost: the ranges of the successors; with many successors also the
    words they cover. Returns the number of rows done: fewer than all if `out` is full or `stop`
    was raised.
    """
    columns = cyclic.size
    words = (columns + 63) >> 6
    most = u8(columns // 2 + 2)  # ranges of a row
    bits = np.zeros(words + 1, np.uint64)
    summary = np.zeros((words >> 6) + 1, np.uint64)
    here = np.empty(columns // 2 + 2, np.uint64)
    there = np.empty(columns // 2 + 2, np.uint64)
    w = u8(0)
    work = 0
    for r in range(bounds.size - 1):
        lo = bounds[r]
        hi = bounds[r + 1]
        row_bounds[r + 1] = i8(w)
        if w + most > u8(out.size):
            return r
        if work > 1 << 22:
            work = 0
            if stop[0] != 0:
                return r
        begin = w
        if hi - lo == 1:
            d = u8(targets[lo])
            for p in range(u8(row_bounds[d]), u8(row_bounds[d + _ONE])):
                out[w] = out[p]
                w += _ONE
            w = put(out, begin, w, d, d)
        elif hi - lo <= _FEW:
            length = _ZERO
            for k in range(hi - 1, lo - 1, -1):
                d = u8(targets[k])
                if not _has(here, _ZERO, length, d):
                    length = _merge(
                        here,
                        _ZERO,
                        length,
                        out,
                        u8(row_bounds[d]),
                        u8(row_bounds[d + _ONE]),
                        d,
                        there,
                    )
                    here, there = there, here
                    work += i8(length)
            for p in range(length):
                out[w] = here[p]
                w += _ONE
        else:
            for k in range(hi - 1, lo - 1, -1):
                d = u8(targets[k])
                if (bits[d >> _SIX] >> (d & _63)) & _ONE == _ZERO:
                    _fill(bits, summary, d, d)
                    for p in range(u8(row_bounds[d]), u8(row_bounds[d + _ONE])):
                        _fill(bits, summary, out[p] >> _HALF, out[p] & _LOW)
                        work += 1 + i8(((out[p] & _LOW) - (out[p] >> _HALF)) >> _SIX)
            w = _drain(bits, summary, begin, out)
            work += words
        if r < columns and cyclic[r]:
            w = put(out, begin, w, u8(r), u8(r))
        work += i8(w - begin) + 1
        row_bounds[r + 1] = i8(w)
    return bounds.size - 1


@kernel("i8(i8[::1], u4[::1], i8[::1], u4[::1], i8, i8, i8[::1], u8[::1], i8[::1], i8[::1])")
def reach_ranges(
    bounds: Array,
    targets: Array,
    start_bounds: Array,
    starts: Array,
    first: int,
    last: int,
    row_bounds: Array,
    out: Array,
    walked: Array,
    stop: Array,
) -> int:
    """For each source first … last - 1 the nodes it reaches, as ranges: a search for each of them.

    Source s starts from starts[start_bounds[s]:start_bounds[s + 1]], which it reaches. Its row ends
    at row_bounds[s - first + 1]. `walked` counts the nodes and edges seen, which is the cost.
    Returns the number of sources done: fewer than asked if `out` is full or `stop` was raised.
    """
    columns = bounds.size - 1
    words = (columns + 63) >> 6
    most = u8(columns // 2 + 2)
    bits = np.zeros(words + 1, np.uint64)
    summary = np.zeros((words >> 6) + 1, np.uint64)
    queue = np.empty(columns + 1, np.uint32)  # one more: starts are written before they are tested
    w = u8(0)
    work = 0
    for s in range(first, last):
        if w + most > u8(out.size):
            return s - first
        if work > 1 << 22:
            work = 0
            if stop[0] != 0:
                return s - first
        head = _ZERO
        tail = _ZERO
        for p in range(start_bounds[s], start_bounds[s + 1]):
            y = u8(starts[p])
            q = y >> _SIX
            bit = _ONE << (y & _63)
            queue[tail] = u4(y)
            tail += u8((bits[q] & bit) == _ZERO)
            bits[q] |= bit
            summary[q >> _SIX] |= _ONE << (q & _63)
        while head < tail:
            v = queue[head]
            head += _ONE
            work += bounds[v + 1] - bounds[v] + 1
            walked[0] += bounds[v + 1] - bounds[v] + 1
            for p in range(bounds[v], bounds[v + 1]):
                y = u8(targets[p])
                q = y >> _SIX
                bit = _ONE << (y & _63)
                old = bits[q]
                if (old & bit) == _ZERO:
                    bits[q] = old | bit
                    summary[q >> _SIX] |= _ONE << (q & _63)
                    queue[tail] = u4(y)
                    tail += _ONE
        w = _drain(bits, summary, w, out)
        row_bounds[s - first + 1] = i8(w)
    return last - first
