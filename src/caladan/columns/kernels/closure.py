"""Kernels for reachability between all nodes of an acyclic graph, as bit rows or as sorted lists.

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
from numba import i8, u4, u8

from caladan.columns.kernels import helper, kernel
from caladan.columns.kernels.intrinsics import lowest

Array = Any

_ONE = u8(1)
_ZERO = u8(0)


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
def _drain(bits: Array, summary: Array, first: Any, last: Any, out: Array, w: Any) -> Any:
    """Write the set bits ascending and clear them; summary words first … last - 1 are looked at."""
    for s in range(u8(first), u8(last)):
        marks = summary[s]
        summary[s] = _ZERO
        while marks != _ZERO:
            q = (u8(s) << u8(6)) | lowest(marks)
            marks &= marks - _ONE
            word = bits[q]
            bits[q] = _ZERO
            base = q << u8(6)
            while word != _ZERO:
                out[w] = u4(base | lowest(word))
                w += _ONE
                word &= word - _ONE
    return w


@kernel("i8(i8[::1], u4[::1], b1[::1], i8[::1], u4[::1], i8[::1])")
def closure_lists(
    bounds: Array, targets: Array, cyclic: Array, row_bounds: Array, out: Array, stop: Array
) -> int:
    """Write the rows as ascending lists one behind the other into `out`; row_bounds[0] is 0.

    Cost: the lengths of the successors' rows, 1 to 3 ns each. Returns the number of rows done:
    fewer than all if `out` is full or `stop` was raised.
    """
    columns = cyclic.size
    words = (columns + 63) >> 6
    bits = np.zeros(words + 1, np.uint64)
    summary = np.zeros((words >> 6) + 1, np.uint64)
    w = u8(0)
    room = u8(out.size)
    work = 0
    for r in range(bounds.size - 1):
        lo = bounds[r]
        hi = bounds[r + 1]
        row_bounds[r + 1] = i8(w)
        most = 1
        for p in range(lo, hi):
            d = targets[p]
            most += row_bounds[d + 1] - row_bounds[d] + 1
        if w + u8(min(most, columns)) > room:
            return r
        if work + most > 1 << 22:
            work = 0
            if stop[0] != 0:
                return r
        work += most + 16
        if hi - lo == 1:
            d = targets[lo]
            for i in range(u8(row_bounds[d]), u8(row_bounds[d + 1])):
                out[w] = out[i]
                w += _ONE
            if not cyclic[d]:
                out[w] = d
                w += _ONE
        elif hi > lo:
            first = i8(summary.size)
            end = i8(0)
            for p in range(hi - 1, lo - 1, -1):
                d = u8(targets[p])
                q = d >> u8(6)
                bit = _ONE << (d & u8(63))
                if bits[q] & bit:
                    continue
                bits[q] |= bit
                s = q >> u8(6)
                summary[s] |= _ONE << (q & u8(63))
                end = max(end, i8(s) + 1)
                first = min(first, i8(s))
                begin = u8(row_bounds[d])
                stop_at = u8(row_bounds[d + _ONE])
                if begin < stop_at:
                    first = min(first, i8(out[begin] >> u4(12)))
                for i in range(begin, stop_at):
                    y = u8(out[i])
                    q = y >> u8(6)
                    bits[q] |= _ONE << (y & u8(63))
                    summary[q >> u8(6)] |= _ONE << (q & u8(63))
            w = _drain(bits, summary, first, end, out, w)
        if r < columns and cyclic[r]:
            out[w] = u4(r)
            w += _ONE
        row_bounds[r + 1] = i8(w)
    return bounds.size - 1


@kernel("i8(i8[::1], u4[::1], i8[::1], u4[::1], i8, i8, i8[::1], u4[::1], i8[::1])")
def reach_lists(
    bounds: Array,
    targets: Array,
    start_bounds: Array,
    starts: Array,
    first: int,
    last: int,
    row_bounds: Array,
    out: Array,
    stop: Array,
) -> int:
    """For each source first … last - 1 the nodes it reaches, ascending: a search for each of them.

    Source s starts from starts[start_bounds[s]:start_bounds[s + 1]], which it reaches. Its row ends
    at row_bounds[s - first + 1]. Cost: the edges leaving the nodes reached. Returns the number of
    sources done: fewer than asked if `out` is full or `stop` was raised.
    """
    columns = bounds.size - 1
    words = (columns + 63) >> 6
    bits = np.zeros(words + 1, np.uint64)
    summary = np.zeros((words >> 6) + 1, np.uint64)
    w = u8(0)
    room = u8(out.size)
    work = 0
    for s in range(first, last):
        if w + u8(columns) > room:
            return s - first
        if work > 1 << 22:
            work = 0
            if stop[0] != 0:
                return s - first
        # The row itself is the queue; draining the bits afterwards sorts it.
        head = w
        tail = w
        for p in range(start_bounds[s], start_bounds[s + 1]):
            y = u8(starts[p])
            q = y >> u8(6)
            bit = _ONE << (y & u8(63))
            out[tail] = u4(y)
            tail += u8((bits[q] & bit) == _ZERO)
            bits[q] |= bit
        while head < tail:
            v = out[head]
            head += _ONE
            work += bounds[v + 1] - bounds[v] + 1
            for p in range(bounds[v], bounds[v + 1]):
                y = u8(targets[p])
                q = y >> u8(6)
                bit = _ONE << (y & u8(63))
                old = bits[q]
                if (old & bit) == _ZERO:
                    bits[q] = old | bit
                    out[tail] = u4(y)
                    tail += _ONE
        for i in range(w, tail):
            q = u8(out[i]) >> u8(6)
            summary[q >> u8(6)] |= _ONE << (q & u8(63))
        w = _drain(bits, summary, 0, summary.size, out, w)
        row_bounds[s - first + 1] = i8(w)
    return last - first
