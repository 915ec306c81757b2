"""Kernels for p(X, Y) <- l(A, X), p(A, B), r(B, Y): both columns step at once (same generation).

What the rule gives to X depends on nothing but the set of its A, so nodes with equal sets are one
*class*, and the same for Y: the derived part of p is a bit matrix over classes of X and of Y. A
row is stepped by *spreading*: its bits, taken along the second graph, become the bits that all
rows below it in the first graph receive, 64 at a time. In the order of the first graph's
components every row outside of a cycle is spread exactly once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import int64 as i8, uint32 as u4, uint64 as u8

from caladan.columns.kernels import helper, kernel
from caladan.columns.kernels.intrinsics import lowest, popcount

Array = Any

_NONE = u4(0xFFFFFFFF)
_ONE = u8(1)
_ZERO = u8(0)


@kernel("i8(i8[::1], u4[::1], u4[::1])")
def equal_sets(bounds: Array, members: Array, classes: Array) -> int:
    """Number the nodes by the set of lists they are in; nodes in no list get 2^32 - 1.

    Partition refinement: each list splits every class into those in it and those not. Classes are
    numbered by their smallest node. Returns how many there are; linear in the lists.
    """
    n = classes.size
    classes[:] = u4(0)
    total = members.size + 1
    split = np.empty(total, np.uint32)
    when = np.full(total, -1, np.int64)
    made = u4(1)
    for a in range(bounds.size - 1):
        for p in range(bounds[a], bounds[a + 1]):
            x = members[p]
            old = classes[x]
            if when[old] != a:
                when[old] = a
                split[old] = made
                made += u4(1)
            classes[x] = split[old]
    split[:] = _NONE
    count = u4(0)
    for x in range(n):
        c = classes[x]
        if c == 0:
            classes[x] = _NONE
            continue
        if split[c] == _NONE:
            split[c] = count
            count += u4(1)
        classes[x] = split[c]
    return int(count)


@helper
def _spread(row: Array, bounds: Array, targets: Array, into: Array) -> None:
    """The union of the targets of the set bits, as bits."""
    into[:] = _ZERO
    for q in range(u8(row.size)):
        word = row[q]
        base = u8(q) << u8(6)
        while word != _ZERO:
            b = base | lowest(word)
            word &= word - _ONE
            for p in range(u8(bounds[b]), u8(bounds[b + _ONE])):
                y = u8(targets[p])
                into[y >> u8(6)] |= _ONE << (y & u8(63))


@helper
def _gather(row: Array, bounds: Array, sources: Array, into: Array) -> None:
    """The same from the other end, for full rows: a bit is set at the first source that is set."""
    into[:] = _ZERO
    for y in range(u8(bounds.size - 1)):
        for p in range(u8(bounds[y]), u8(bounds[y + _ONE])):
            b = u8(sources[p])
            if (row[b >> u8(6)] >> (b & u8(63))) & _ONE:
                into[y >> u8(6)] |= _ONE << (y & u8(63))
                break


@helper
def step_row(
    row: Array, bounds: Array, targets: Array, back_bounds: Array, sources: Array, into: Array
) -> bool:
    """Step the bits of a row, by whichever way costs less; whether there are any."""
    ones = i8(0)
    for q in range(row.size):
        ones += i8(popcount(row[q]))
    if ones == 0:
        return False
    # Spreading costs a target for each bit and edge; gathering about two probes for each column.
    if ones * targets.size > 2 * (back_bounds.size - 1) * (bounds.size - 1):
        _gather(row, back_bounds, sources, into)
    else:
        _spread(row, bounds, targets, into)
    return True


@helper
def _wait(row: Any, queue: Array, queued: Array, head: int, waiting: int) -> int:
    """Put a row into the queue, a ring, unless it waits there already; how many wait."""
    if queued[row]:
        return waiting
    place = head + waiting
    queue[place if place < queue.size else place - queue.size] = row
    queued[row] = True
    return waiting + 1


@kernel("i8(i8[::1], u4[::1], i8[::1], u4[::1], i8[::1], u4[::1], u8[:, ::1], i8[::1])")
def seed_generations(
    pair_bounds: Array,
    pairs: Array,
    child_bounds: Array,
    children: Array,
    fan_bounds: Array,
    fan: Array,
    bits: Array,
    stop: Array,
) -> int:
    """One step from the pairs that start the recursion: pairs[pair_bounds[a]:…] are the b of a.

    The classes `fan` of all its b go to the rows `children` of a. Returns how many a were done.
    """
    spread = np.empty(bits.shape[1], np.uint64)
    work = 0
    for a in range(pair_bounds.size - 1):
        if pair_bounds[a] == pair_bounds[a + 1] or child_bounds[a] == child_bounds[a + 1]:
            continue
        spread[:] = _ZERO
        for i in range(pair_bounds[a], pair_bounds[a + 1]):
            b = pairs[i]
            for p in range(fan_bounds[b], fan_bounds[b + 1]):
                y = u8(fan[p])
                spread[y >> u8(6)] |= _ONE << (y & u8(63))
            work += fan_bounds[b + 1] - fan_bounds[b]
        for p in range(child_bounds[a], child_bounds[a + 1]):
            row = bits[children[p]]
            for q in range(spread.size):
                row[q] |= spread[q]
            work += spread.size
        if work > 1 << 24:
            work = 0
            if stop[0] != 0:
                return a
    return pair_bounds.size - 1


@kernel(
    "i8(i8[::1], u4[::1], u4[::1], b1[::1], u4[::1], i8[::1], u4[::1],"
    " i8[::1], u4[::1], i8[::1], u4[::1], u8[:, ::1], u8[:, ::1], i8[::1])"
)
def step_generations(
    group_bounds: Array,
    groups: Array,
    group_of: Array,
    cyclic: Array,
    slots: Array,
    child_bounds: Array,
    children: Array,
    fan_bounds: Array,
    fan: Array,
    back_bounds: Array,
    back: Array,
    bits: Array,
    pending: Array,
    stop: Array,
) -> int:
    """Step every row until nothing is new; returns how many components were done.

    The components of the first graph are groups[group_bounds[g]:…], numbered so that edges lead to
    smaller ones; they are taken from the last to the first. Rows of a `cyclic` component keep what
    they have yet to pass on in pending[slots[row]], and wait in a queue for their turn.
    """
    spread = np.empty(bits.shape[1], np.uint64)
    queue = np.empty(group_of.size + 1, np.uint32)  # a ring: each row is in it at most once
    queued = np.zeros(group_of.size, np.bool_)
    work = 0
    for g in range(group_bounds.size - 2, -1, -1):
        if stop[0] != 0:
            return group_bounds.size - 2 - g
        if not cyclic[g]:
            c = groups[group_bounds[g]]
            if child_bounds[c] == child_bounds[c + 1]:
                continue
            if step_row(bits[c], fan_bounds, fan, back_bounds, back, spread):
                for p in range(child_bounds[c], child_bounds[c + 1]):
                    row = bits[children[p]]
                    for q in range(spread.size):
                        row[q] |= spread[q]
            continue
        head = 0
        waiting = 0
        for i in range(group_bounds[g], group_bounds[g + 1]):
            c = groups[i]
            for q in range(spread.size):
                pending[slots[c], q] = bits[c, q]
            queue[waiting] = c
            queued[c] = True
            waiting += 1
        while waiting > 0:
            c = queue[head]
            head = head + 1 if head + 1 < queue.size else 0
            waiting -= 1
            queued[c] = False
            mine = pending[slots[c]]
            if not step_row(mine, fan_bounds, fan, back_bounds, back, spread):
                continue
            mine[:] = _ZERO
            for p in range(child_bounds[c], child_bounds[c + 1]):
                e = children[p]
                row = bits[e]
                if group_of[e] != g:
                    for q in range(spread.size):
                        row[q] |= spread[q]
                    continue
                later = pending[slots[e]]
                new = _ZERO
                for q in range(spread.size):
                    fresh = spread[q] & ~row[q]
                    row[q] |= fresh
                    later[q] |= fresh
                    new |= fresh
                if new != _ZERO:
                    waiting = _wait(e, queue, queued, head, waiting)
                work += spread.size
            if work > 1 << 23:
                work = 0
                if stop[0] != 0:
                    return group_bounds.size - 2 - g
    return group_bounds.size - 1
