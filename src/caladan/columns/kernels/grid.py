"""Kernels for several rules over rows of bits, a row for each tuple of one side of a relation.

    p(X, Z) <- p(X, Y), r(Y, Z), X > 10      stays: rows are left where they are
    p(X, Z) <- l(X, Y), q(Y, Z)              steps rows, and keeps columns
    p(X, Y) <- p(Y, X), X < 5                crosses
    p(X, Z) <- p(X, Y), p(Y, Z), X < Z       joins

Rows wait with what is new in them, and are taken in the order that steps lead in: where these do
not lead in circles, each is taken once. A rule that stays is followed to its end at once; one
without tests by what its columns lead to, which `close_columns` finds for all rows before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import int64 as i8, uint64 as u8

from caladan.columns.kernels import helper, kernel
from caladan.columns.kernels.generations import step_row
from caladan.columns.kernels.intrinsics import lowest

Array = Any

_ONE = u8(1)
_ZERO = u8(0)

# Columns of the table of rules that `step_grid` goes by.
KIND, SOURCE, SECOND, TARGET, APART, KEEPS, LEAVING, ARRIVING = range(8)
STEP, STAY, CROSS, JOIN = range(4)  # kinds


@kernel("i8(i8[::1], u4[::1], u4[::1], u4[::1], u8[:, ::1], i8[::1])")
def close_columns(
    bounds: Array, targets: Array, order: Array, group_of: Array, ends: Array, stop: Array
) -> int:
    """Put into ends[y] what column y leads to by a step or more; returns how many were done.

    Columns of one component stand together in the order, behind those that they lead to.
    """
    done = 0
    work = 0
    while done < order.size:
        group = group_of[order[done]]
        last = done
        while last < order.size and group_of[order[last]] == group:
            last += 1
        row = ends[order[done]]
        circles = False
        for i in range(done, last):
            y = i8(order[i])
            for p in range(bounds[y], bounds[y + 1]):
                t = i8(targets[p])
                if group_of[t] == group:
                    circles = True
                elif (row[t >> 6] >> u8(t & 63)) & _ONE == _ZERO:
                    row[t >> 6] |= _ONE << u8(t & 63)
                    for q in range(row.size):
                        row[q] |= ends[t, q]
                    work += row.size
        if circles:
            for i in range(done, last):
                y = i8(order[i])
                row[y >> 6] |= _ONE << u8(y & 63)
        for i in range(done + 1, last):
            for q in range(row.size):
                ends[order[i], q] = row[q]
        done = last
        if work > 1 << 23:
            work = 0
            if stop[0] != 0:
                return done
    return done


@helper
def _wait(queue: Array, place: Any) -> None:
    """Put a row into the queue: a bit for each place of the order."""
    queue[i8(place) >> 6] |= _ONE << u8(i8(place) & 63)


@helper
def _next(queue: Array, at: int) -> Any:
    """The first place of the queue that is taken, from one on and then from the first; or -1."""
    q = at >> 6 if at >> 6 < queue.size else 0
    skipped = u8(at & 63) if at >> 6 < queue.size else _ZERO
    word = (queue[q] >> skipped) << skipped
    for _ in range(queue.size + 1):
        if word != _ZERO:
            return (q << 6) | i8(lowest(word))
        q = q + 1 if q + 1 < queue.size else 0
        word = queue[q]
    return -1


@helper
def _follow(ends: Array, row: Array, given: Array, todo: Array) -> int:
    """Add to a row, and to what it is given, whatever that leads to; returns how many words."""
    for k in range(todo.size):
        todo[k] = given[k]
    looked = 0
    q = 0
    while q < todo.size:
        if todo[q] == _ZERO:
            q += 1
            continue
        y = (q << 6) | i8(lowest(todo[q]))
        todo[q] &= todo[q] - _ONE
        looked += todo.size
        for k in range(todo.size):
            word = ends[y, k]
            fresh = word & ~row[k]
            row[k] |= fresh
            given[k] |= fresh
            todo[k] &= ~word
    return looked


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
    applies: Array,
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
        if table[i, KIND] != STAY or table[i, SOURCE] != relation or not applies[i, x]:
            continue
        leaving = table[i, LEAVING]
        arriving = table[i, ARRIVING]
        for k in range(todo.size):
            mine[k] = given[k] & masks[leaving, x, k] if leaving >= 0 else given[k]
        fans = fan[first[i, 1] : first[i, 1] + fan_bounds[i, fan_bounds.shape[1] - 1]]
        backs = back[first[i, 1] : first[i, 1] + fans.size]
        if not step_row(mine, fan_bounds[i], fans, back_bounds[i], backs, spread):
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
            if table[i, KIND] != STAY or table[i, SOURCE] != relation or not applies[i, x]:
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
    "i8(i8[:, ::1], b1[:, ::1], i8, i8[:, ::1], u4[::1], i8[::1], i8[:, ::1], u4[::1], "
    "i8[:, ::1], u4[::1], i8[:, ::1], u4[::1], u8[:, :, ::1], b1[:, ::1], u8[:, :, ::1], "
    "u8[:, ::1], u8[:, ::1], i8[::1])"
)
def step_grid(
    table: Array,
    applies: Array,
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
    ends: Array,
    closes: Array,
    masks: Array,
    bits: Array,
    pending: Array,
    stop: Array,
) -> int:
    """Step rows by several rules until nothing is new: rule i has row i of each table.

    Relation r has the rows from r * size on. A rule leads from bits of its source to bits of its
    target: rows to `children`, columns to `fan`, lists that stand from first[i] on; `back` is `fan`
    turned round. It applies to a row x if applies[i, x]. One that leaves rows where they are is
    followed to the end at once; one that crosses exchanges row and column first; one that joins
    gives a row whatever the rows of the second relation have that its columns lead to. Rules that
    keep rows and columns apart give no row the column same[row], if there is one. Of the `masks` a
    rule has a number for each end, or -1: it steps from, and to, what is set there. Rows that
    closes[r] has get all ends[r] of their columns. `pending` has what rows have yet to pass on;
    they wait in the order given. Returns how many were taken, -1 if `stop` was raised.
    """
    place = np.empty(order.size, np.uint32)
    queue = np.zeros((order.size >> 6) + 1, np.uint64)
    width = bits.shape[1]
    every = np.full(width, ~_ZERO, np.uint64)
    spread = np.zeros(width, np.uint64)
    given = np.empty(width, np.uint64)
    todo = np.empty(width, np.uint64)
    mine = np.empty(width, np.uint64)
    for i in range(order.size):
        place[order[i]] = i
        some = _ZERO
        for q in range(width):
            some |= pending[order[i], q]
        if some != _ZERO:
            _wait(queue, i)
    taken = 0
    work = 0
    at = _next(queue, 0)
    while at >= 0:
        queue[at >> 6] &= ~(_ONE << u8(at & 63))
        c = i8(order[at])
        taken += 1
        # A slice of another array would raise what no stored kernel can (columns/object_code.py).
        for q in range(width):
            given[q] = pending[c, q]
            pending[c, q] = _ZERO
        x = c % size
        relation = c // size
        if closes[relation, x]:
            work += _follow(ends[relation], bits[c], given, todo)
        work += _close(
            x, relation, table, applies, first, fan_bounds, fan, back_bounds, back, same[x], masks,
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
                        if bits[begin + e, y >> 6] & bit == _ZERO or not applies[i, e]:
                            continue
                        if leaving >= 0 and masks[leaving, e, y >> 6] & bit == _ZERO:
                            continue
                        may = masks[arriving, e] if arriving >= 0 else every
                        hole = same[e] if table[i, APART] else i8(-1)
                        t = target + e
                        if _receive(given, may, hole, bits[t], pending[t]):
                            _wait(queue, place[t])
                        work += width
            if table[i, SOURCE] != relation or kind == STAY or not applies[i, x]:
                continue
            for q in range(width):
                mine[q] = given[q]
            if leaving >= 0:
                for q in range(width):
                    mine[q] &= masks[leaving, x, q]
            if kind == STEP:
                lo = first[i, 0] + child_bounds[i, x]
                hi = first[i, 0] + child_bounds[i, x + 1]
                if lo == hi:
                    continue
                if table[i, KEEPS]:
                    for q in range(width):
                        spread[q] = mine[q]
                elif not step_row(mine, fan_bounds[i], fans, back_bounds[i], backs, spread):
                    continue
                for p in range(lo, hi):
                    e = i8(children[p])
                    may = masks[arriving, e] if arriving >= 0 else every
                    hole = same[e] if table[i, APART] else i8(-1)
                    t = target + e
                    if _receive(spread, may, hole, bits[t], pending[t]):
                        _wait(queue, place[t])
                    work += width
                continue
            for q in range(width):
                word = mine[q]
                while word != _ZERO:
                    y = (q << 6) | i8(lowest(word))
                    word &= word - _ONE
                    if kind == JOIN:
                        may = masks[arriving, x] if arriving >= 0 else every
                        hole = same[x] if table[i, APART] else i8(-1)
                        t = target + x
                        new = False
                        for p in range(fan_bounds[i, y], fan_bounds[i, y + 1]):
                            other = bits[table[i, SECOND] * size + i8(fans[p])]
                            new |= _receive(other, may, hole, bits[t], pending[t])
                            work += width
                        if new:
                            _wait(queue, place[t])
                        continue
                    for p in range(child_bounds[i, y], child_bounds[i, y + 1]):
                        e = i8(children[first[i, 0] + p])
                        may = masks[arriving, e] if arriving >= 0 else every
                        hole = same[e] if table[i, APART] else i8(-1)
                        t = target + e
                        for r in range(fan_bounds[i, x], fan_bounds[i, x + 1]):
                            f = i8(fans[r])
                            bit = (_ONE << u8(f & 63)) & may[f >> 6] & ~bits[t, f >> 6]
                            if bit == _ZERO or f == hole:
                                continue
                            bits[t, f >> 6] |= bit
                            pending[t, f >> 6] |= bit
                            _wait(queue, place[t])
                        work += fan_bounds[i, x + 1] - fan_bounds[i, x]
        if work > 1 << 23:
            work = 0
            if stop[0] != 0:
                return -1
        at = _next(queue, at + 1)
    return taken
