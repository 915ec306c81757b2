"""Kernels for the least sum along paths, from each of many sources."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import uint32 as u4, uint64 as u8

from caladan.columns.kernels import kernel
from caladan.columns.kernels.intrinsics import lowest

Array = Any

_ONE = u8(1)
_ZERO = u8(0)
_LOW = u8(63)
_SHIFT = u8(6)


@kernel(
    "i8(i8[::1], u4[::1], f8[::1], u4[::1], i8[::1], u4[::1], f8[::1], i8, i8, i8, b1, b1, "
    "b1[::1], f8[:, ::1], u8[:, ::1], i8[:, ::1], u8[:, :, ::1], "
    "i8[::1], u4[::1], f8[::1], i8[::1])"
)
def nearest(
    bounds: Array,
    targets: Array,
    weights: Array,
    step_of: Array,
    start_bounds: Array,
    starts: Array,
    values: Array,
    first: int,
    last: int,
    offset: int,
    ordered: bool,
    tested: bool,
    widest: Array,
    limits: Array,
    may: Array,
    numbers: Array,
    masks: Array,
    row_bounds: Array,
    nodes: Array,
    least: Array,
    stop: Array,
) -> int:
    """For each source first … last - 1 the nodes it reaches, and the least sum to each.

    Source s starts from starts[start_bounds[s]:start_bounds[s + 1]] with their values. Edge p is of
    the step step_of[p]: it adds a weight, or if that is the `widest`, takes it if it is more. If
    `tested`, source s takes a step whose bit s - offset is set in `may`, and in the masks that
    `numbers` has for its two ends, as far as both sums are within the step's `limits`.

    If nodes are `ordered`, edges lead to larger ones, and the least of those that wait is next, so
    every node is gone through once. Otherwise they wait in a queue, and no step may make a sum
    less. Returns the number of sources done: fewer if there is no room for all nodes of another
    one, or if `stop` was raised.
    """
    count = bounds.size - 1
    sums = np.empty(count, np.float64)
    source = np.full(count, -1, np.int64)  # the last one that has reached a node
    waits = np.zeros(count, np.bool_)
    queue = np.empty(count + 1, np.uint32)
    pending = np.zeros((count + 63) // 64 + 1, np.uint64)
    w = 0
    work = 0
    row_bounds[0] = 0
    for s in range(first, last):
        if w + count > nodes.size:
            return s - first
        if work > 1 << 22:
            work = 0
            if stop[0] != 0:
                return s - first
        begin = w
        head = 0
        waiting = 0
        bit = u8(s - offset)
        at, place = bit >> _SHIFT, bit & _LOW
        low = u8(pending.size - 1)
        for p in range(start_bounds[s], start_bounds[s + 1]):
            v = starts[p]
            if source[v] != s:
                source[v] = s
                sums[v] = values[p]
                nodes[w] = v
                w += 1
                waits[v] = True
                queue[waiting] = v
                waiting += 1
                pending[u8(v) >> _SHIFT] |= _ONE << (u8(v) & _LOW)
                if u8(v) >> _SHIFT < low:
                    low = u8(v) >> _SHIFT
            elif values[p] < sums[v]:
                sums[v] = values[p]
        while waiting > 0:
            if ordered:
                while pending[low] == _ZERO:
                    low += _ONE
                v = u4((low << _SHIFT) | lowest(pending[low]))
                pending[low] &= pending[low] - _ONE
            else:
                v = queue[head]
                head = head + 1 if head < count else 0
            waiting -= 1
            waits[v] = False
            work += bounds[v + 1] - bounds[v] + 1
            for p in range(bounds[v], bounds[v + 1]):
                t = targets[p]
                k = step_of[p]
                sum_here = sums[v]
                if tested:
                    if sum_here > limits[k, 0] or not (may[k, at] >> place) & _ONE:
                        continue
                    one, other = numbers[k, 0], numbers[k, 1]
                    if one >= 0 and not (masks[one, v, at] >> place) & _ONE:
                        continue
                    if other >= 0 and not (masks[other, t, at] >> place) & _ONE:
                        continue
                if not widest[k]:
                    sum_here += weights[p]
                elif weights[p] > sum_here:
                    sum_here = weights[p]
                if tested and sum_here > limits[k, 1]:
                    continue
                if source[t] != s:
                    source[t] = s
                    nodes[w] = t
                    w += 1
                elif sums[t] <= sum_here:
                    continue
                sums[t] = sum_here
                if not waits[t]:
                    waits[t] = True
                    if ordered:
                        pending[u8(t) >> _SHIFT] |= _ONE << (u8(t) & _LOW)
                    else:
                        end = head + waiting
                        queue[end if end <= count else end - count - 1] = t
                    waiting += 1
        if not ordered:
            for p in range(start_bounds[s], start_bounds[s + 1]):
                pending[u8(starts[p]) >> _SHIFT] = _ZERO
        for p in range(begin, w):
            least[p] = sums[nodes[p]]
        row_bounds[s - first + 1] = w
    return last - first
