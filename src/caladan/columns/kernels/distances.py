"""Kernels for the least sum along paths, from each of many sources."""

from __future__ import annotations

from typing import Any

import numpy as np

from caladan.columns.kernels import kernel

Array = Any


@kernel(
    "i8(i8[::1], u4[::1], i8[::1], i8[::1], u4[::1], i8[::1], i8, i8, i8[::1], u4[::1], i8[::1], "
    "i8[::1])"
)
def nearest(
    bounds: Array,
    targets: Array,
    weights: Array,
    start_bounds: Array,
    starts: Array,
    values: Array,
    first: int,
    last: int,
    row_bounds: Array,
    nodes: Array,
    least: Array,
    stop: Array,
) -> int:
    """For each source first … last - 1 the nodes it reaches, and the least sum to each.

    Source s starts from starts[start_bounds[s]:start_bounds[s + 1]] with their values. No weight is
    below 0. Nodes whose sum has become less wait in a queue, so with equal weights every node is
    gone through once. Returns the number of sources done: fewer if there is no room for all nodes
    of another one, or if `stop` was raised.
    """
    count = bounds.size - 1
    sums = np.empty(count, np.int64)
    source = np.full(count, -1, np.int64)  # the last one that has reached a node
    waits = np.zeros(count, np.bool_)
    queue = np.empty(count + 1, np.uint32)
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
            elif values[p] < sums[v]:
                sums[v] = values[p]
        while waiting > 0:
            v = queue[head]
            head = head + 1 if head < count else 0
            waiting -= 1
            waits[v] = False
            work += bounds[v + 1] - bounds[v] + 1
            for p in range(bounds[v], bounds[v + 1]):
                t = targets[p]
                sum_here = sums[v] + weights[p]
                if source[t] != s:
                    source[t] = s
                    nodes[w] = t
                    w += 1
                elif sums[t] <= sum_here:
                    continue
                sums[t] = sum_here
                if not waits[t]:
                    waits[t] = True
                    place = head + waiting
                    queue[place if place <= count else place - count - 1] = t
                    waiting += 1
        for p in range(begin, w):
            least[p] = sums[nodes[p]]
        row_bounds[s - first + 1] = w
    return last - first
