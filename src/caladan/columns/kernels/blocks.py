"""Kernels for searches from 512 sources at a time: a row of bits for every node, one for a source.

A step hands the bits of a node on to its successors, eight words at once, whatever they stand for.
So rules that apply to some sources only, and tests of a source against a node, are masks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import int64 as i8, uint32 as u4, uint64 as u8

from caladan.columns.kernels import helper, kernel
from caladan.columns.kernels.closure import put_word

Array = Any

WORDS = 8  # of a node: a line of the cache
_ZERO = u8(0)
_ONE = u8(1)
_SIX = u8(6)
_63 = u8(63)
_HALF = u8(32)
_LOW = u8(0xFFFFFFFF)
_ALL = u8(0xFFFFFFFFFFFFFFFF)


@helper
def _hand_on(
    v: int,
    offsets: Array,
    bounds: Array,
    targets: Array,
    may: Array,
    tests: Array,
    masks: Array,
    bits: Array,
    fresh: Array,
    touched: Array,
    passing: Array,
    delta: Array,
    waits: Array,
    queue: Array,
    low: int,
    high: int,
    end: int,
) -> int:
    """Hand what is new at a node on to its successors; those of its component go to the queue.

    The queue is a ring of which `end` counts all that was ever put; returns it.
    """
    for k in range(8):
        delta[k] = fresh[v, k]
        fresh[v, k] = _ZERO
    for r in range(offsets.size):
        some = _ZERO
        leaving = tests[r, 0]
        for k in range(8):
            word = delta[k] & may[r, k]
            if leaving >= 0:
                word &= masks[leaving, v, k]
            passing[k] = word
            some |= word
        if some == _ZERO:
            continue
        arriving = tests[r, 1]
        for p in range(offsets[r] + bounds[r, v], offsets[r] + bounds[r, v + 1]):
            t = i8(targets[p])
            new = _ZERO
            if arriving >= 0:
                for k in range(8):
                    word = passing[k] & masks[arriving, t, k] & ~bits[t, k]
                    bits[t, k] |= word
                    fresh[t, k] |= word
                    new |= word
            else:
                for k in range(8):
                    word = passing[k] & ~bits[t, k]
                    bits[t, k] |= word
                    fresh[t, k] |= word
                    new |= word
            if new != _ZERO:
                touched[t >> 6] |= _ONE << u8(t & 63)
                if low <= t < high and not waits[t] and t != v:
                    waits[t] = True
                    queue[end % queue.size] = t
                    end += 1
    return end


@kernel(
    "i8(i8[::1], i8[:, ::1], u4[::1], u4[::1], i8[::1], u8[:, ::1], i8[:, ::1], u8[:, :, ::1], "
    "u8[:, ::1], u8[:, ::1], u8[::1], i8[::1])"
)
def step_block(
    offsets: Array,
    bounds: Array,
    targets: Array,
    component: Array,
    firsts: Array,
    may: Array,
    tests: Array,
    masks: Array,
    bits: Array,
    fresh: Array,
    touched: Array,
    stop: Array,
) -> int:
    """Close the rows of `bits` under some rules; `fresh` comes in with the same bits.

    Nodes are in the order of their components, which steps lead down: those of component c are
    firsts[c] … firsts[c + 1] - 1. Rule r leads from node v to the targets from offsets[r] +
    bounds[r, v] on, for the sources in may[r]. It leaves nodes where masks[tests[r, 0]] has the
    source, and arrives where masks[tests[r, 1]] has it; -1 is no test. `touched` has a bit for each
    node that has any. Returns 1, or 0 if `stop` was raised.
    """
    passing = np.zeros(8, np.uint64)
    delta = np.zeros(8, np.uint64)
    nodes = bits.shape[0]
    waits = np.zeros(nodes, np.bool_)
    queue = np.empty(nodes + 1, np.int64)
    v = nodes - 1
    work = 0
    while v >= 0:
        if touched[v >> 6] == _ZERO:
            v = ((v >> 6) << 6) - 1
            continue
        if (touched[v >> 6] >> u8(v & 63)) & _ONE == _ZERO:
            v -= 1
            continue
        work += 1
        if work > 1 << 16:
            work = 0
            if stop[0] != 0:
                return 0
        low = firsts[component[v]]
        high = firsts[component[v] + 1]
        begin = 0
        end = 0
        if high - low == 1:
            _hand_on(
                v, offsets, bounds, targets, may, tests, masks, bits, fresh, touched, passing,
                delta, waits, queue, low, high, end,
            )  # fmt: skip
        else:
            for t in range(v, low - 1, -1):
                if (touched[t >> 6] >> u8(t & 63)) & _ONE != _ZERO:
                    waits[t] = True
                    queue[end] = t
                    end += 1
            while begin < end:
                t = queue[begin % queue.size]
                begin += 1
                waits[t] = False
                end = _hand_on(
                    t, offsets, bounds, targets, may, tests, masks, bits, fresh, touched,
                    passing, delta, waits, queue, low, high, end,
                )  # fmt: skip
                work += 1
                if work > 1 << 16:
                    work = 0
                    if stop[0] != 0:
                        return 0
        v = low - 1
    return 1


@kernel("i8(i8[::1], i8[::1], u4[::1], i8[::1], i8, u8[:, ::1])")
def compare_masks(
    values: Array, order: Array, nodes: Array, others: Array, kind: int, out: Array
) -> int:
    """Keep of each node's bits those of the sources whose value compares with the node's.

    Sources have ascending `values`, the i-th of them is bit order[i]; others[i] is the value of
    nodes[i]. Kinds are <, <=, >, >=, = and ~= of the source's value to the node's. The sources
    below a value are a prefix, so there is a row of bits for each prefix.
    """
    count = values.size
    below = np.zeros((count + 1, 8), np.uint64)
    for i in range(count):
        for k in range(8):
            below[i + 1, k] = below[i, k]
        below[i + 1, order[i] >> 6] |= _ONE << u8(order[i] & 63)
    for i in range(nodes.size):
        wanted = others[i]
        low = 0
        high = count
        while low < high:
            middle = (low + high) >> 1
            if values[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        last = low
        if kind != 0 and kind != 3:
            high = count
            while last < high:
                middle = (last + high) >> 1
                if values[middle] <= wanted:
                    last = middle + 1
                else:
                    high = middle
        t = nodes[i]
        for k in range(8):
            less = below[low, k]
            least = below[last, k]
            if kind == 0:
                out[t, k] &= less
            elif kind == 1:
                out[t, k] &= least
            elif kind == 2:
                out[t, k] &= ~least
            elif kind == 3:
                out[t, k] &= ~less
            elif kind == 4:
                out[t, k] &= least & ~less
            else:
                out[t, k] &= ~least | less
    return nodes.size


@helper
def _transpose(square: Array) -> None:
    """64 rows of 64 bits: rows become columns."""
    width = u8(32)
    mask = u8(0x00000000FFFFFFFF)
    while width != _ZERO:
        k = _ZERO
        while k < u8(64):
            swapped = ((square[k] >> width) ^ square[k + width]) & mask
            square[k] ^= swapped << width
            square[k + width] ^= swapped
            k = (k + width + _ONE) & ~width
        width >>= _ONE
        mask ^= mask << width


@kernel("i8(i8[::1], u8[::1], u4[::1], u4[::1], u8[:, ::1])")
def fill_ranges(bounds: Array, ranges: Array, rows: Array, places: Array, out: Array) -> int:
    """Set bit places[i] of every class of row rows[i]; places ascend, and `out` comes in zeroed.

    Ranges are filled word by word, for 64 places at a time, and these turned to classes.
    """
    classes = out.shape[0]
    words = (classes + 63) >> 6
    lines = np.zeros((64, words), np.uint64)
    square = np.empty(64, np.uint64)
    i = 0
    while i < rows.size:
        group = places[i] >> u4(6)
        while i < rows.size and places[i] >> u4(6) == group:
            line = lines[places[i] & u4(63)]
            r = i8(rows[i])
            for p in range(bounds[r], bounds[r + 1]):
                first = ranges[p] >> _HALF
                last = ranges[p] & _LOW
                begin = first >> _SIX
                end = last >> _SIX
                low = _ALL << (first & _63)
                high = _ALL >> (_63 - (last & _63))
                if begin == end:
                    line[begin] |= low & high
                else:
                    line[begin] |= low
                    for q in range(begin + _ONE, end):
                        line[q] = _ALL
                    line[end] |= high
            i += 1
        for q in range(words):
            some = _ZERO
            for j in range(64):
                square[j] = lines[j, q]
                some |= square[j]
                lines[j, q] = _ZERO
            if some != _ZERO:
                _transpose(square)
                for j in range(min(64, classes - (q << 6))):
                    out[(q << 6) + j, group] = square[j]
    return rows.size


@helper
def _transpose_words(bits: Array, word: int, places: Array, count: int, rows: Array) -> None:
    """For 64 sources what they reach: words of 64 nodes, only for the places touched."""
    square = np.empty(64, np.uint64)
    for i in range(count):
        begin = places[i] << 6
        for j in range(64):
            square[j] = bits[begin + j, word] if begin + j < bits.shape[0] else _ZERO
        _transpose(square)
        for j in range(64):
            rows[j, i] = square[j]


@helper
def _count_touched(touched: Array, places: Array) -> int:
    count = 0
    for q in range(touched.size):
        if touched[q] != _ZERO:
            places[count] = q
            count += 1
    return count


@kernel("i8(u8[:, ::1], u8[::1], i8, i8[::1], u8[::1])")
def drain_ranges(bits: Array, touched: Array, sources: int, row_bounds: Array, out: Array) -> int:
    """What each source of a block reaches, as ranges of nodes; how many sources found room."""
    places = np.empty(touched.size, np.int64)
    count = _count_touched(touched, places)
    rows = np.empty((64, count + 1), np.uint64)
    most = u8(32 * count + 2)
    w = _ZERO
    for s in range(sources):
        if w + most > u8(out.size):
            return s
        if s & 63 == 0:
            _transpose_words(bits, s >> 6, places, count, rows)
        begin = w
        for i in range(count):
            w = put_word(out, begin, w, u8(places[i]), rows[s & 63, i])
        row_bounds[s + 1] = i8(w)
    return sources


@kernel("i8(u8[:, ::1], u8[::1], i8, u8[:, ::1])")
def drain_rows(bits: Array, touched: Array, sources: int, out: Array) -> int:
    """What each source of a block reaches, as rows of bits; `out` comes in zeroed."""
    places = np.empty(touched.size, np.int64)
    count = _count_touched(touched, places)
    rows = np.empty((64, count + 1), np.uint64)
    for s in range(sources):
        if s & 63 == 0:
            _transpose_words(bits, s >> 6, places, count, rows)
        for i in range(count):
            out[s, places[i]] = rows[s & 63, i]
    return sources


@kernel("i8(u8[:, ::1], u4[::1], u8[:, ::1], u4[::1])")
def add_rows(out: Array, to: Array, given: Array, of: Array) -> int:
    """Add to some nodes' bits those of others: given[of[i]] to out[to[i]]."""
    for i in range(to.size):
        for k in range(8):
            out[to[i], k] |= given[of[i], k]
    return to.size
