"""Mid-join accumulation: one list for each binding out of a relation of several runs.

Joining a frontier with a sum of runs could add up the runs first, which costs as much as the
largest, or add up the joined outputs, which costs as much as the product. Between the two: find the
keys of the frontier in each run, restrict each run to them (a semijoin), add up these restrictions,
and only then cross them with the frontier, in one pass over it. With one run nothing is added up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from caladan.columns.kernels import candidates as kernels
from caladan.join.search.constraint import Lists
from caladan.join.search.frontier import Rows, Words
from caladan.join.search.trie import Trie


def accumulate(tries: Sequence[Trie], prefix: Sequence[Words]) -> Lists:
    """What can follow each prefix (one array a column) in any of the runs."""
    keys, key_of_row = distinct_keys(prefix)
    level = len(prefix) - 1
    smallest_first = sorted(tries, key=lambda trie: trie.count)
    found = [trie.below(trie.locate(keys), level) for trie in smallest_first]
    merged = found[0]
    for other in found[1:]:
        merged = union(merged, other)
    return merged.take(key_of_row)


def accumulate_roots(tries: Sequence[Trie]) -> Words:
    """The distinct words of the first level of several runs."""
    return np.unique(np.concatenate([trie.values[0] for trie in tries]))


def union(left: Lists, right: Lists) -> Lists:
    """For each key the words of either list."""
    if left.values is right.values and left.lo is right.lo:
        return left
    a = (left.values, left.lo, left.hi, right.values, right.lo, right.hi)
    bounds = np.empty(len(left.lo) + 1, np.int64)
    kernels.merge_counts(*a, bounds)
    values = np.empty(bounds[-1], np.int64)
    kernels.merge_lists(*a, values)
    return Lists(values, bounds[:-1].copy(), bounds[1:].copy())


def distinct_keys(prefix: Sequence[Words]) -> tuple[list[Words], Rows]:
    """The distinct rows of a prefix, and for each row of it the number of its key."""
    order: Rows | None = None
    columns = list(prefix)
    if len(prefix) > 1 or bool((prefix[0][1:] < prefix[0][:-1]).any()):
        order = np.lexsort(tuple(reversed(columns)))
        columns = [c[order] for c in columns]
    new = np.zeros(len(columns[0]), np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    number = np.cumsum(new) - 1
    if order is not None:
        unsorted = np.empty_like(number)
        unsorted[order] = number
        number = unsorted
    return [c[new] for c in columns], number
