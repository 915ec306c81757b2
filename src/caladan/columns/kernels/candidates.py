"""Kernels of the search: what it does with a batch of bindings and sorted lists.

A *list* is a stretch `values[lo:hi]` of strictly rising words; each row of a frontier has one for
every relation that restricts the variable to be bound. Lists come out of tries
(join/search/trie.py):

    locate_dense, locate_sorted, descend    words → node of the trie, or -1
    children                                 node → its list
    intersect, intersect_two                 the least list of a row proposes, the others confirm
    count_common                             the same, counted only
    confirm                                  candidates that came from elsewhere, against lists
    expand                                   all members of the lists, for a plain join
    merge_counts, merge_lists                two lists a key into one: mid-join accumulation
    choose                                   the variable each row binds next

Kernels with an output buffer stop when it is full and say where to resume; those that may work long
without output stop after `budget` steps, so that whoever calls them can listen to interrupts.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from caladan.columns.kernels import helper, kernel
from caladan.columns.kernels.search import gallop, lower_bound, seek

MOST_LISTS: Final = 4  # intersect is compiled for up to so many; more are confirmed one by one


@kernel("void(i8[::1], i8, i8[::1], i8[::1])")
def locate_dense(words: Any, first: int, starts: Any, nodes: Any) -> None:
    """Node of each word where `starts[word - first]` nodes have a smaller word; one step each."""
    span = starts.size - 1
    for i in range(words.size):
        # Unsigned, so that a word below `first` is out of range too, however far below.
        at = np.uint64(words[i]) - np.uint64(np.int64(first))
        node = -1
        if at < np.uint64(span):
            p = np.int64(at)
            if starts[p + 1] > starts[p]:
                node = starts[p]
        nodes[i] = node


@kernel("void(i8[::1], i8[::1], i8[::1])")
def locate_sorted(words: Any, values: Any, nodes: Any) -> None:
    """Node of each word in a sorted list; a word searches on from its predecessor if it can."""
    last = 0
    before = np.int64(0)
    for i in range(words.size):
        word = words[i]
        if i > 0 and word >= before:
            last = gallop(values, last, values.size, word)
        else:
            last = lower_bound(values, 0, values.size, word)
        before = word
        nodes[i] = last if last < values.size and values[last] == word else -1


@kernel("void(i8[::1], i8[::1], i8[::1], i8[::1], i8[::1])")
def descend(nodes: Any, bounds: Any, values: Any, words: Any, below: Any) -> None:
    """The child of each node that has the given word, or -1; a binary search each."""
    for i in range(nodes.size):
        child = -1
        node = nodes[i]
        if node >= 0:
            hi = bounds[node + 1]
            at = lower_bound(values, bounds[node], hi, words[i])
            if at < hi and values[at] == words[i]:
                child = at
        below[i] = child


@kernel("void(i8[::1], i8[::1], i8[::1], i8[::1])")
def children(nodes: Any, bounds: Any, lo: Any, hi: Any) -> None:
    """The list of each node; the list of no node is empty."""
    for i in range(nodes.size):
        node = nodes[i]
        if node >= 0:
            lo[i] = bounds[node]
            hi[i] = bounds[node + 1]
        else:
            lo[i] = 0
            hi[i] = 0


_INTERSECT = (
    "void(UniTuple(i8[::1], {0}), i8[:, ::1], i8[:, ::1], i8[::1], i8, i8[::1], i8[::1], i8[::1])"
)


@kernel([_INTERSECT.format(k) for k in range(1, MOST_LISTS + 1)])
def intersect(
    lists: Any, lo: Any, hi: Any, which: Any, budget: int, state: Any, parents: Any, words: Any
) -> None:
    """Words that all lists of a row have, for rows from `state` on, until the output is full.

    `state` is row, position in the proposer's list (-1: its start), words written, proposals made;
    the first two say where to resume. `which[row]` proposes, or, if `which` is empty, the least
    list. Invariant: words of a row come out rising, so every other list is searched from where the
    last search ended. Cost: the proposer's length, times log of the others' at worst.
    """
    k = len(lists)
    rows = lo.shape[1]
    cap = parents.size
    row = state[0]
    resume = state[1]
    written = 0
    made = 0
    at = np.empty(k, np.int64)
    while row < rows and made < budget:
        best = 0
        if which.size > 0:
            best = which[row]
        else:
            for c in range(1, k):
                if hi[c, row] - lo[c, row] < hi[best, row] - lo[best, row]:
                    best = c
        for c in range(k):
            at[c] = lo[c, row]
        p = at[best] if resume < 0 else resume
        end = hi[best, row]
        resume = -1
        proposer = lists[best]
        while p < end:
            if written == cap or made >= budget:
                resume = p
                break
            word = proposer[p]
            p += 1
            made += 1
            holds = True
            for c in range(k):
                if c != best:
                    q = seek(lists[c], at[c], hi[c, row], word, end - p + 1)
                    at[c] = q
                    if q >= hi[c, row]:
                        holds = False
                        p = end  # that list is used up, so no later word can be in it
                        break
                    if lists[c][q] != word:
                        holds = False
                        break
            if holds:
                parents[written] = row
                words[written] = word
                written += 1
        if resume >= 0:
            break
        row += 1
    state[0] = row
    state[1] = resume
    state[2] = written
    state[3] = made


@helper
def _walk(
    values: Any, p: int, end: int, others: Any, q: int, stop: int, hint: int, words: Any, at: int
) -> tuple[int, int, int]:
    """Words of `values[p:end]` that are in `others[q:stop]`, into `words[at:]` while there is room.

    `hint` is where some earlier search in `others` ended. Returns where it stopped in both lists,
    and how many words it wrote.
    """
    written = 0
    last = min(end, p + words.size - at)
    while p < last and q < stop:
        word = values[np.uint64(p)]
        if hint > q and others[np.uint64(hint)] <= word:
            q = hint
        q = seek(others, q, stop, word, end - p)
        p += 1
        if q < stop and others[np.uint64(q)] == word:
            words[at + written] = word
            written += 1
    return p, q, written


_TWO = "void(i8[::1], i8[::1], i8[:, ::1], i8[:, ::1], i8[::1], i8, i8[::1], i8[::1], i8[::1])"


@kernel(_TWO)
def intersect_two(
    first: Any,
    second: Any,
    lo: Any,
    hi: Any,
    which: Any,
    budget: int,
    state: Any,
    parents: Any,
    words: Any,
) -> None:
    """As `intersect`, for two lists, the usual case.

    Rows often come in the order of the words they lead to, and share the long list of a hub: a row
    searches on where the row before ended, if that was in the same list.
    """
    row = state[0]
    resume = state[1]
    written = 0
    made = 0
    hint = -1
    hinted = -1  # the list that the hint is for, and its row
    while row < lo.shape[1] and made < budget and written < parents.size:
        least = hi[1, row] - lo[1, row] < hi[0, row] - lo[0, row]
        best = which[row] if which.size > 0 else np.int64(least)
        other = 1 - best
        start = lo[best, row] if resume < 0 else resume
        end = hi[best, row]
        q = lo[other, row]
        stop = hi[other, row]
        if hinted != other or row == 0 or lo[other, row - 1] != q or hi[other, row - 1] != stop:
            hint = -1
        if best == 0:
            p, q, found = _walk(first, start, end, second, q, stop, hint, words, written)
        else:
            p, q, found = _walk(second, start, end, first, q, stop, hint, words, written)
        hint = min(q, stop - 1)
        hinted = other
        for i in range(written, written + found):
            parents[i] = row
        written += found
        made += p - start
        if p < end and q < stop:
            resume = p
        else:
            resume = -1
            row += 1
    state[0] = row
    state[1] = resume
    state[2] = written
    state[3] = made


_COUNT = "void(UniTuple(i8[::1], {0}), i8[:, ::1], i8[:, ::1], i8[::1])"


@kernel([_COUNT.format(k) for k in range(1, MOST_LISTS + 1)])
def count_common(lists: Any, lo: Any, hi: Any, counts: Any) -> None:
    """How many words all lists of a row have in common; cost as `intersect`."""
    k = len(lists)
    at = np.empty(k, np.int64)
    for row in range(lo.shape[1]):
        best = 0
        for c in range(k):
            at[c] = lo[c, row]
            if hi[c, row] - lo[c, row] < hi[best, row] - lo[best, row]:
                best = c
        proposer = lists[best]
        found = 0
        p = at[best]
        end = hi[best, row]
        while p < end:
            word = proposer[p]
            p += 1
            holds = True
            for c in range(k):
                if c != best:
                    q = seek(lists[c], at[c], hi[c, row], word, end - p + 1)
                    at[c] = q
                    if q >= hi[c, row]:
                        holds = False
                        p = end
                        break
                    if lists[c][q] != word:
                        holds = False
                        break
            found += holds
        counts[row] = found


@kernel("void(i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], b1[::1], b1[::1])")
def confirm(
    values: Any, lo: Any, hi: Any, parents: Any, words: Any, alive: Any, found: Any
) -> None:
    """Mark the living candidates whose word is in their parent's list; log of its length each."""
    parent = -1
    at = 0
    before = np.int64(0)
    for i in range(words.size):
        if not alive[i]:
            continue
        word = words[i]
        end = hi[parents[i]]
        if parents[i] == parent and word >= before:
            at = gallop(values, at, end, word)
        else:
            parent = parents[i]
            at = lower_bound(values, lo[parent], end, word)
        before = word
        if at < end and values[at] == word:
            found[i] = True


@kernel("void(i8[::1], i8[::1], i8[::1], i8[::1], i8[::1])")
def expand(lo: Any, hi: Any, state: Any, parents: Any, positions: Any) -> None:
    """Every position of every row's list, until the output is full; `state` as for `intersect`."""
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


@kernel("void(i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8[::1])")
def merge_counts(a: Any, alo: Any, ahi: Any, b: Any, blo: Any, bhi: Any, bounds: Any) -> None:
    """Bounds of the union of two lists for each key; one pass over the lists."""
    total = 0
    bounds[0] = 0
    for key in range(alo.size):
        p = alo[key]
        q = blo[key]
        pe = ahi[key]
        qe = bhi[key]
        while p < pe and q < qe:
            x = a[p]
            y = b[q]
            p += x <= y
            q += y <= x
            total += 1
        total += pe - p + qe - q
        bounds[key + 1] = total


@kernel("void(i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8[::1])")
def merge_lists(a: Any, alo: Any, ahi: Any, b: Any, blo: Any, bhi: Any, out: Any) -> None:
    """The union of two lists for each key, one key after the other; one pass."""
    w = 0
    for key in range(alo.size):
        p = alo[key]
        q = blo[key]
        pe = ahi[key]
        qe = bhi[key]
        while p < pe and q < qe:
            x = a[p]
            y = b[q]
            out[w] = min(x, y)
            w += 1
            p += x <= y
            q += y <= x
        while p < pe:
            out[w] = a[p]
            w += 1
            p += 1
        while q < qe:
            out[w] = b[q]
            w += 1
            q += 1


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


@kernel("void(i8[::1], i8[::1])")
def rank_words(words: Any, ranks: Any) -> None:
    """`ranks[w]`: how many of the sorted `words` are below w, so that a word is found at once."""
    at = 0
    for w in range(ranks.size):
        while at < words.size and words[at] < w:
            at += 1
        ranks[w] = at
