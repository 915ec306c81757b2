"""Kernels over graphs: adjacency lists from pairs, components, the condensed graph, reachability.

A graph of n nodes is `bounds` (n + 1) and `targets`: the successors of v are
targets[bounds[v]:bounds[v + 1]]. Everything here is linear in nodes and edges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import uint32 as u4

from caladan.columns.kernels import helper, kernel

Array = Any
Scalar = Any

_NONE = u4(0xFFFFFFFF)


@kernel("i8(u4[::1], u4[::1], i8[::1], u4[::1])")
def adjacency(sources: Array, targets: Array, bounds: Array, out: Array) -> int:
    """Group the targets of pairs by source (a counting sort, stable). `bounds` comes in zeroed.

    Afterwards out[bounds[v]:bounds[v + 1]] are the targets of v in the order of the pairs.
    """
    n = bounds.size - 1
    for i in range(sources.size):
        bounds[sources[i] + 1] += 1
    for v in range(n):
        bounds[v + 1] += bounds[v]
    # Fill from the back, moving each upper bound down to the lower: no second array of cursors.
    for i in range(sources.size - 1, -1, -1):
        v = sources[i] + 1
        bounds[v] -= 1
        out[bounds[v]] = targets[i]
    # Now bounds[v + 1] is where v starts; shift by one.
    for v in range(n):
        bounds[v] = bounds[v + 1]
    bounds[n] = sources.size
    return out.size


@kernel("i8(i8[::1], u4[::1], u4[::1])")
def components(bounds: Array, targets: Array, component: Array) -> int:
    """Number the strongly connected components so that every edge leads to a smaller or equal one.

    Tarjan's algorithm with an explicit stack: the component of each node goes to `component`, the
    count is returned. Sinks come first, which is the order a closure wants to be computed in.
    """
    n = bounds.size - 1
    index = np.zeros(n, np.uint32)  # order of discovery from 1; 0 is undiscovered
    low = np.empty(n, np.uint32)
    cursor = np.empty(n, np.int64)
    path = np.empty(n, np.uint32)  # nodes whose successors are being looked at
    stack = np.empty(n, np.uint32)  # nodes without a component yet
    component[:] = _NONE
    discovered = u4(0)
    depth = 0
    height = 0
    count = 0
    for root in range(n):
        if index[root] != 0:
            continue
        path[0] = root
        depth = 1
        while depth > 0:
            v = path[depth - 1]
            if index[v] == 0:
                discovered += u4(1)
                index[v] = discovered
                low[v] = discovered
                cursor[v] = bounds[v]
                stack[height] = v
                height += 1
            descended = False
            while cursor[v] < bounds[v + 1]:
                t = targets[cursor[v]]
                if index[t] == 0:
                    path[depth] = t
                    depth += 1
                    descended = True
                    break
                if component[t] == _NONE:
                    low[v] = min(low[v], low[t])
                cursor[v] += 1
            if descended:
                continue
            if low[v] == index[v]:
                while True:
                    height -= 1
                    t = stack[height]
                    component[t] = count
                    if t == v:
                        break
                count += 1
            depth -= 1
    return count


@helper
def sort_words(words: Array, first: Scalar, last: Scalar) -> None:
    """Sort words[first:last] where they are: few by insertion, more as a heap.

    Arrays have a `sort`, but numba's makes lists and may raise.
    """
    n = last - first
    if n <= 24:
        for i in range(first + 1, last):
            word = words[i]
            at = i
            while at > first and words[at - 1] > word:
                words[at] = words[at - 1]
                at -= 1
            words[at] = word
        return
    heap = n >> 1
    while n > 1:
        if heap > 0:
            heap -= 1
            word = words[first + heap]
        else:
            n -= 1
            word = words[first + n]
            words[first + n] = words[first]
        at = heap
        child = 2 * at + 1
        while child < n:
            if child + 1 < n and words[first + child + 1] > words[first + child]:
                child += 1
            if words[first + child] <= word:
                break
            words[first + at] = words[first + child]
            at = child
            child = 2 * at + 1
        words[first + at] = word


@kernel("i8(i8[::1], u4[::1], u4[::1], i8[::1], u4[::1], i8[::1], u4[::1], b1[::1])")
def condense(
    bounds: Array,
    targets: Array,
    component: Array,
    member_bounds: Array,
    members: Array,
    out_bounds: Array,
    out: Array,
    cyclic: Array,
) -> int:
    """The graph of components, each edge once, successors ascending; returns how many edges.

    `cyclic` tells the components with an edge inside. `out` has room for all edges of the graph.
    """
    count = out_bounds.size - 1
    seen = np.full(count, _NONE, np.uint32)
    w = 0
    out_bounds[0] = 0
    for c in range(count):
        cyclic[c] = False
        for i in range(member_bounds[c], member_bounds[c + 1]):
            v = members[i]
            for p in range(bounds[v], bounds[v + 1]):
                d = component[targets[p]]
                if d == c:
                    cyclic[c] = True
                elif seen[d] != c:
                    seen[d] = c
                    out[w] = d
                    w += 1
        sort_words(out, out_bounds[c], w)
        out_bounds[c + 1] = w
    return w


@kernel("i8(i8[::1], u4[::1], u4[::1], b1[::1])")
def reach(bounds: Array, targets: Array, starts: Array, reached: Array) -> int:
    """Mark the start nodes and all that can be reached from them; returns how many were marked.

    Nodes already marked count as explored and are passed by.
    """
    queue = np.empty(bounds.size, np.uint32)
    tail = 0
    for i in range(starts.size):
        v = starts[i]
        if not reached[v]:
            reached[v] = True
            queue[tail] = v
            tail += 1
    head = 0
    while head < tail:
        v = queue[head]
        head += 1
        for p in range(bounds[v], bounds[v + 1]):
            t = targets[p]
            if not reached[t]:
                reached[t] = True
                queue[tail] = t
                tail += 1
    return tail


@kernel("void(i8[::1], u4[::1], u4[::1], i8, i8, u4[::1], i8[::1])")
def spread(
    bounds: Array,
    targets: Array,
    starts: Array,
    first: int,
    last: int,
    origin: Array,
    stop: Array,
) -> None:
    """From each start first … last - 1 in turn, number what it reaches and has no number yet.

    Ends early if `stop` was raised.
    """
    queue = np.empty(bounds.size, np.uint32)
    for i in range(first, last):
        if origin[starts[i]] != _NONE:
            continue
        if i & 0xFFFF == 0 and stop[0] != 0:
            return
        origin[starts[i]] = i
        queue[0] = starts[i]
        head, tail = 0, 1
        while head < tail:
            v = queue[head]
            head += 1
            if head & 0xFFFFF == 0 and stop[0] != 0:
                return
            for p in range(bounds[v], bounds[v + 1]):
                t = targets[p]
                if origin[t] == _NONE:
                    origin[t] = i
                    queue[tail] = t
                    tail += 1


@kernel("i8(i8[::1], u4[::1], u4[::1])")
def longest(bounds: Array, targets: Array, order: Array) -> int:
    """The edges of the longest path of an acyclic graph; `order` has the nodes, sinks first."""
    lengths = np.zeros(bounds.size, np.int64)
    most = 0
    for i in range(order.size):
        v = order[i]
        for p in range(bounds[v], bounds[v + 1]):
            lengths[v] = max(lengths[v], lengths[targets[p]] + 1)
        most = max(most, lengths[v])
    return int(most)


@kernel("i8(i8[::1], u4[::1], i8[::1], u4[::1], i8, i8[::1])")
def farthest(
    bounds: Array, targets: Array, start_bounds: Array, starts: Array, most: int, stop: Array
) -> int:
    """The most steps that any source needs to one of the nodes it reaches; its starts need none.

    Source s starts from starts[start_bounds[s]:start_bounds[s + 1]]. One more than `most` if there
    is a source that needs more, or if `stop` was raised.
    """
    seen = np.full(bounds.size, -1, np.int64)
    queue = np.empty(bounds.size, np.uint32)
    deepest = 0
    work = 0
    for s in range(start_bounds.size - 1):
        tail = 0
        for p in range(start_bounds[s], start_bounds[s + 1]):
            if seen[starts[p]] != s:
                seen[starts[p]] = s
                queue[tail] = starts[p]
                tail += 1
        head = 0
        level = 0
        while True:
            end = tail
            while head < end:
                v = queue[head]
                head += 1
                for p in range(bounds[v], bounds[v + 1]):
                    if seen[targets[p]] != s:
                        seen[targets[p]] = s
                        queue[tail] = targets[p]
                        tail += 1
            if tail == end:
                break
            level += 1
            if level > most:
                return most + 1
        work += tail
        if work > 1 << 22:
            work = 0
            if stop[0] != 0:
                return most + 1
        deepest = max(deepest, level)
    return deepest
