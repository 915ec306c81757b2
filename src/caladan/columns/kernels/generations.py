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
def _step(
    row: Array, bounds: Array, targets: Array, back_bounds: Array, sources: Array, into: Array
) -> bool:
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
            if _step(bits[c], fan_bounds, fan, back_bounds, back, spread):
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
            if not _step(mine, fan_bounds, fan, back_bounds, back, spread):
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


# Columns of the table of rules that `step_products` goes by.
KIND, SOURCE, SECOND, TARGET, APART, LEAVING, ARRIVING = range(7)
STEP, STAY, CROSS, JOIN = range(4)  # kinds


@helper
def _receive(given: Array, may: Array, without: Any, row: Array, later: Array) -> bool:
    """Add to a row what it may have of some bits, and to what it has yet to pass on; if any."""
    new = _ZERO
    for q in range(given.size):
        fresh = given[q] & may[q] & ~row[q]
        if without >> 6 == q:
            fresh &= ~(_ONE << u8(without & 63))
        row[q] |= fresh
        later[q] |= fresh
        new |= fresh
    return new != _ZERO


@helper
def _close(
    x: Any,
    relation: Any,
    table: Array,
    first: Array,
    fan_bounds: Array,
    fan: Array,
    back_bounds: Array,
    back: Array,
    without: Any,
    masks: Array,
    row: Array,
    given: Array,
    todo: Array,
    mine: Array,
    spread: Array,
) -> int:
    """Follow what is given to a row along the rules that leave rows where they are, to the end.

    What is new is added to the row, and to what is given; returns how many steps were looked at.
    """
    for k in range(todo.size):
        todo[k] = _ZERO
    looked = 0
    for i in range(table.shape[0]):  # the first step of all at once, which may be the last
        if table[i, KIND] != STAY or table[i, SOURCE] != relation:
            continue
        leaving = table[i, LEAVING]
        arriving = table[i, ARRIVING]
        for k in range(todo.size):
            mine[k] = given[k] & masks[leaving, x, k] if leaving >= 0 else given[k]
        fans = fan[first[i, 1] : first[i, 1] + fan_bounds[i, fan_bounds.shape[1] - 1]]
        backs = back[first[i, 1] : first[i, 1] + fans.size]
        if not _step(mine, fan_bounds[i], fans, back_bounds[i], backs, spread):
            continue
        at = without if table[i, APART] else i8(-1)
        looked += todo.size
        for k in range(todo.size):
            fresh = spread[k] & ~row[k]
            if arriving >= 0:
                fresh &= masks[arriving, x, k]
            if at >> 6 == k:
                fresh &= ~(_ONE << u8(at & 63))
            row[k] |= fresh
            todo[k] |= fresh
    for k in range(todo.size):
        given[k] |= todo[k]
    q = 0
    while q < todo.size:
        if todo[q] == _ZERO:
            q += 1
            continue
        y = (q << 6) | i8(lowest(todo[q]))
        todo[q] &= todo[q] - _ONE
        for i in range(table.shape[0]):
            if table[i, KIND] != STAY or table[i, SOURCE] != relation:
                continue
            leaving = table[i, LEAVING]
            arriving = table[i, ARRIVING]
            if leaving >= 0 and (masks[leaving, x, y >> 6] >> u8(y & 63)) & _ONE == _ZERO:
                continue
            for p in range(first[i, 1] + fan_bounds[i, y], first[i, 1] + fan_bounds[i, y + 1]):
                f = i8(fan[p])
                looked += 1
                bit = (_ONE << u8(f & 63)) & ~row[f >> 6]
                if arriving >= 0:
                    bit &= masks[arriving, x, f >> 6]
                if bit == _ZERO or (f == without and table[i, APART]):
                    continue
                row[f >> 6] |= bit
                given[f >> 6] |= bit
                todo[f >> 6] |= bit
                q = min(q, f >> 6)
    return looked


@kernel(
    "i8(i8[:, ::1], i8, i8[:, ::1], u4[::1], i8[::1], i8[:, ::1], u4[::1], i8[:, ::1], u4[::1], "
    "i8[:, ::1], u4[::1], u8[:, :, ::1], u8[:, ::1], u8[:, ::1], i8[::1])"
)
def step_products(
    table: Array,
    size: int,
    first: Array,
    order: Array,
    same: Array,
    child_bounds: Array,
    children: Array,
    fan_bounds: Array,
    fan: Array,
    back_bounds: Array,
    back: Array,
    masks: Array,
    bits: Array,
    pending: Array,
    stop: Array,
) -> int:
    """Step rows by several rules until nothing is new: rule i has row i of each table.

    Relation r has the rows from r * size on. A rule leads from bits of its source to bits of its
    target: rows to `children`, columns to `fan`, lists that stand from first[i] on; `back` is `fan`
    turned round. One that leaves rows where they are is followed to the end at once; one that
    crosses exchanges row and column first; one that joins gives a row whatever the rows of the
    second relation have that its columns lead to. Rules that keep rows and columns apart give no
    row the column same[row], if there is one. Of the `masks` a rule has a number for each end, or
    -1: it steps from, and to, what is set there. `pending` has what rows have yet to pass on; they
    wait in the order given. Returns how many were taken, -1 if `stop` was raised.
    """
    queue = np.empty(order.size, np.uint32)
    queued = np.zeros(order.size, np.bool_)
    width = bits.shape[1]
    every = np.full(width, ~_ZERO, np.uint64)
    spread = np.zeros(width, np.uint64)
    given = np.empty(width, np.uint64)
    todo = np.empty(width, np.uint64)
    mine = np.empty(width, np.uint64)
    waiting = 0
    head = 0
    for i in range(order.size):
        some = _ZERO
        for q in range(width):
            some |= pending[order[i], q]
        if some != _ZERO:
            waiting = _wait(order[i], queue, queued, head, waiting)
    taken = 0
    work = 0
    while waiting > 0:
        c = i8(queue[head])
        head = head + 1 if head + 1 < queue.size else 0
        waiting -= 1
        queued[c] = False
        taken += 1
        given[:] = pending[c]
        pending[c][:] = _ZERO
        x = c % size
        relation = c // size
        work += _close(
            x, relation, table, first, fan_bounds, fan, back_bounds, back, same[x], masks,
            bits[c], given, todo, mine, spread,
        )  # fmt: skip
        for i in range(table.shape[0]):
            kind = table[i, KIND]
            target = table[i, TARGET] * size
            leaving = table[i, LEAVING]
            arriving = table[i, ARRIVING]
            fans = fan[first[i, 1] : first[i, 1] + fan_bounds[i, fan_bounds.shape[1] - 1]]
            backs = back[first[i, 1] : first[i, 1] + fans.size]
            if kind == JOIN and table[i, SECOND] == relation:
                begin = table[i, SOURCE] * size
                for p in range(back_bounds[i, x], back_bounds[i, x + 1]):
                    y = i8(backs[p])
                    bit = _ONE << u8(y & 63)
                    for e in range(size):
                        if bits[begin + e, y >> 6] & bit == _ZERO:
                            continue
                        if leaving >= 0 and masks[leaving, e, y >> 6] & bit == _ZERO:
                            continue
                        may = masks[arriving, e] if arriving >= 0 else every
                        at = same[e] if table[i, APART] else i8(-1)
                        t = target + e
                        if _receive(given, may, at, bits[t], pending[t]):
                            waiting = _wait(t, queue, queued, head, waiting)
                        work += width
            if table[i, SOURCE] != relation or kind == STAY:
                continue
            mine[:] = given
            if leaving >= 0:
                for q in range(width):
                    mine[q] &= masks[leaving, x, q]
            if kind == STEP:
                lo = first[i, 0] + child_bounds[i, x]
                hi = first[i, 0] + child_bounds[i, x + 1]
                if lo == hi or not _step(mine, fan_bounds[i], fans, back_bounds[i], backs, spread):
                    continue
                for p in range(lo, hi):
                    e = i8(children[p])
                    may = masks[arriving, e] if arriving >= 0 else every
                    at = same[e] if table[i, APART] else i8(-1)
                    t = target + e
                    if _receive(spread, may, at, bits[t], pending[t]):
                        waiting = _wait(t, queue, queued, head, waiting)
                    work += width
                continue
            for q in range(width):
                word = mine[q]
                while word != _ZERO:
                    y = (q << 6) | i8(lowest(word))
                    word &= word - _ONE
                    if kind == JOIN:
                        may = masks[arriving, x] if arriving >= 0 else every
                        at = same[x] if table[i, APART] else i8(-1)
                        t = target + x
                        new = False
                        for p in range(fan_bounds[i, y], fan_bounds[i, y + 1]):
                            other = bits[table[i, SECOND] * size + i8(fans[p])]
                            new |= _receive(other, may, at, bits[t], pending[t])
                            work += width
                        if new:
                            waiting = _wait(t, queue, queued, head, waiting)
                        continue
                    for p in range(child_bounds[i, y], child_bounds[i, y + 1]):
                        e = i8(children[first[i, 0] + p])
                        may = masks[arriving, e] if arriving >= 0 else every
                        at = same[e] if table[i, APART] else i8(-1)
                        t = target + e
                        for r in range(fan_bounds[i, x], fan_bounds[i, x + 1]):
                            f = i8(fans[r])
                            bit = (_ONE << u8(f & 63)) & may[f >> 6] & ~bits[t, f >> 6]
                            if bit == _ZERO or f == at:
                                continue
                            bits[t, f >> 6] |= bit
                            pending[t, f >> 6] |= bit
                            waiting = _wait(t, queue, queued, head, waiting)
                        work += fan_bounds[i, x + 1] - fan_bounds[i, x]
        if work > 1 << 23:
            work = 0
            if stop[0] != 0:
                return -1
    return taken
