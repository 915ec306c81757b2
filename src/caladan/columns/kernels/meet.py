"""Several sorted lists for each row of a batch: the least proposes, the others confirm.

A list is a stretch of a run whose keys agree in all columns but the last: its words, the last
`mask` bits of each key, rise. Where an atom is looked up by all columns but one (columns/views.py
sees to it), what agrees with a row is such a list.

A kernel stops when its output is full, or after `budget` proposals, and says where to resume, so
that whoever calls it can listen to interrupts.
"""

from __future__ import annotations

from typing import Any, Final

from numpy import int64 as i8, uint32 as u4, uint64 as u8

from caladan.columns.kernels import helper, kernel
from caladan.columns.kernels.sorted import seek

Array = Any
Scalar = Any  # numba tells signed and unsigned apart, Python does not

MOST_LISTS: Final = 4  # `meet` is compiled for up to so many


@helper
def walk_two(
    run: Array,
    p: Scalar,
    end: Scalar,
    mask: Scalar,
    other: Array,
    q: Scalar,
    stop: Scalar,
    other_mask: Scalar,
    hint: Scalar,
    words: Array,
    at: Scalar,
) -> tuple[Scalar, Scalar, Scalar]:
    """Words of run[p:end] that are in other[q:stop], into words[at:] while there is room.

    `hint` is where some earlier search in `other` ended. Returns where it stopped in both lists,
    and how many words it wrote.
    """
    written = 0
    last = min(end, p + words.size - at)
    while p < last and q < stop:
        word = run[u8(p)] & mask
        if hint > q and (other[u8(hint)] & other_mask) <= word:
            q = hint
        q = seek(other, q, stop, other_mask, word, end - p)
        p += 1
        if q < stop and (other[u8(q)] & other_mask) == word:
            words[at + written] = u4(word)
            written += 1
    return p, q, written


@helper
def sift(
    run: Array, q: Scalar, stop: Scalar, mask: Scalar, words: Array, at: Scalar, count: Scalar
) -> Scalar:
    """Keep of words[at : at + count] those that are in run[q:stop]; how many they are."""
    kept = 0
    for i in range(count):
        word = words[at + i]
        q = seek(run, q, stop, mask, u8(word), count - i)
        if q >= stop:
            break
        if (run[u8(q)] & mask) == u8(word):
            words[at + kept] = word
            kept += 1
    return kept


_TWO = "void({0}, {0}, u8, u8, i8, i8[::1], u4[::1], u4[::1])"


@kernel(_TWO.format("u8[::1], i8[::1], i8[::1]"))
def meet_two(
    first: Array,
    first_starts: Array,
    first_counts: Array,
    second: Array,
    second_starts: Array,
    second_counts: Array,
    first_mask: Scalar,
    second_mask: Scalar,
    budget: Scalar,
    state: Array,
    rows: Array,
    words: Array,
) -> None:
    """As `meet`, for two lists, the usual case.

    Rows often come in the order of the words they lead to, and share the long list of a hub: a row
    searches on where the row before ended, if that was in the same list.
    """
    mask, other_mask = u8(first_mask), u8(second_mask)
    row = state[0]
    resume = state[1]
    written = 0
    made = 0
    hint = i8(-1)
    hinted = i8(-1)  # where the list starts that the hint is for, and which of the two it is
    swapped = False
    while row < first_starts.size and made < budget and written < rows.size:
        p = first_starts[row]
        end = p + first_counts[row]
        q = second_starts[row]
        stop = q + second_counts[row]
        swap = stop - q < end - p
        if swap:
            p, end, q, stop = q, stop, p, end
        if resume >= 0:
            p = resume
        if swap != swapped or hinted != q:
            hint = i8(-1)
        swapped, hinted, start = swap, q, p
        if swap:
            p, q, found = walk_two(
                second, p, end, other_mask, first, q, stop, mask, hint, words, written
            )
        else:
            p, q, found = walk_two(
                first, p, end, mask, second, q, stop, other_mask, hint, words, written
            )
        hint = min(q, stop - 1)
        for i in range(written, written + found):
            rows[i] = u4(row)
        written += found
        made += p - start
        state[5 if swap else 4] += p - start
        if p < end and q < stop:
            resume = p
        else:
            resume = i8(-1)
            row += 1
    state[0] = row
    state[1] = resume
    state[2] = written
    state[3] = made


_MEET = (
    "void(UniTuple(u8[::1], {0}), i8[:, ::1], i8[:, ::1], u8[::1], i8, i8[::1], u4[::1], u4[::1])"
)


@kernel([_MEET.format(k) for k in range(3, MOST_LISTS + 1)])
def meet(
    runs: Array,
    starts: Array,
    counts: Array,
    masks: Array,
    budget: Scalar,
    state: Array,
    rows: Array,
    words: Array,
) -> None:
    """Words that all lists of a row have, for rows from `state` on, until the output is full.

    `state` is row, position in the proposer's list (-1: its start), words written, proposals made;
    the first two say where to resume. Behind them the proposals of each list are added up. Words of
    a row come out rising, so every other list is searched from where the last search ended; the
    next to least comes first.
    """
    k = len(runs)
    row = state[0]
    resume = state[1]
    written = 0
    made = 0
    while row < starts.shape[1] and made < budget and written < rows.size:
        best = 0
        for c in range(1, k):
            if counts[c, row] < counts[best, row]:
                best = c
        near = 1 if best == 0 else 0
        for c in range(k):
            if c != best and counts[c, row] < counts[near, row]:
                near = c
        start = starts[best, row] if resume < 0 else resume
        end = starts[best, row] + counts[best, row]
        q = starts[near, row]
        stop = q + counts[near, row]
        p, q, found = walk_two(
            runs[best], start, end, masks[best],
            runs[near], q, stop, masks[near], i8(-1), words, written,
        )  # fmt: skip
        is_done = p >= end or q >= stop
        made += p - start
        state[4 + best] += p - start
        for c in range(k):
            if c != best and c != near and found > 0:
                at = starts[c, row]
                found = sift(runs[c], at, at + counts[c, row], masks[c], words, written, found)
        for i in range(written, written + found):
            rows[i] = u4(row)
        written += found
        if is_done:
            resume = i8(-1)
            row += 1
        else:
            resume = p
    state[0] = row
    state[1] = resume
    state[2] = written
    state[3] = made


@kernel("void(i8[::1], i8[::1], i8[::1], i8[::1], i8[::1])")
def expand(lo: Any, hi: Any, state: Any, parents: Any, positions: Any) -> None:
    """Every position of every row's list, until the output is full; `state` as for `meet`."""
    row = state[0]
    p = state[1]
    written = 0
    cap = parents.size
    while row < lo.size:
        if p < 0:
            p = lo[row]
        take = min(hi[row] - p, cap - written)
        for j in range(take):
            parents[written + j] = row
            positions[written + j] = p + j
        written += max(take, 0)
        p += max(take, 0)
        if p < hi[row]:
            break
        row += 1
        p = -1
    state[0] = row
    state[1] = p
    state[2] = written
    state[3] = written


@kernel("void(i8[:, ::1], i8[::1])")
def choose(counts: Any, choice: Any) -> None:
    """The first variable with the least bit length of its count; -1 where a count is 0."""
    for row in range(counts.shape[1]):
        least = 65
        best = -1
        for v in range(counts.shape[0]):
            left = counts[v, row]
            if left == 0:
                best = -1
                break
            bits = 0
            while left > 0:
                left >>= 1
                bits += 1
            if bits < least:
                least = bits
                best = v
        choice[row] = best
