"""Tries and their kernels against plain Python."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from caladan.columns.kernels import candidates as kernels
from caladan.join.search.accumulate import accumulate, distinct_keys, union
from caladan.join.search.constraint import Lists
from caladan.join.search.trie import Trie, distinct_rows

small = st.integers(-4, 4)
huge = st.integers(-(2**63), 2**63 - 1)
rows2 = st.lists(st.tuples(small, small), min_size=1, max_size=40)
lists = st.lists(st.lists(small, unique=True).map(sorted), min_size=1, max_size=6)


def columns(rows: list[tuple[int, ...]]) -> list[np.ndarray]:
    return [np.array(c, np.int64) for c in zip(*rows, strict=True)]


def packed(of_rows: list[list[int]]) -> Lists:
    ends = np.cumsum([len(each) for each in of_rows])
    values = np.array([word for each in of_rows for word in each], np.int64)
    return Lists(values, ends - [len(each) for each in of_rows], ends)


def unpacked(packed: Lists) -> list[list[int]]:
    return [packed.values[lo:hi].tolist() for lo, hi in zip(packed.lo, packed.hi, strict=True)]


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[small | huge] * n), min_size=1)))
def test_rows_come_out_sorted_and_distinct(rows: list[tuple[int, ...]]) -> None:
    found = list(zip(*(c.tolist() for c in distinct_rows(columns(rows))), strict=True))
    assert found == sorted(set(rows))


@given(
    st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[small] * n), min_size=1, max_size=40))
    | st.lists(st.tuples(huge, small, huge), min_size=1, max_size=20)
)
def test_levels(rows: list[tuple[int, ...]]) -> None:
    """Every prefix leads to the values that follow it, and to the number of facts below it."""
    trie = Trie.of(columns(rows))
    facts = set(rows)
    assert trie.count == len(facts)
    assert trie.nbytes > 0
    assert trie.values[0].tolist() == sorted({fact[0] for fact in facts})
    width = len(rows[0])
    for length in range(1, width):
        prefixes = sorted({fact[:length] for fact in facts})
        missing = [(*prefix[:-1], 77) for prefix in prefixes]
        nodes = trie.locate(columns([*prefixes, *missing]))
        known = len(prefixes)
        assert (nodes[:known] >= 0).all()
        assert (nodes[known:] == -1).all()
        followers = unpacked(trie.below(nodes, length - 1))
        counts = trie.facts(nodes, length - 1)
        for prefix, values, count in zip(prefixes, followers, counts, strict=False):
            below = {fact for fact in facts if fact[:length] == prefix}
            assert values == sorted({fact[length] for fact in below})
            assert count == len(below)


@given(rows2)
def test_a_trie_from_packed_keys(rows: list[tuple[int, int]]) -> None:
    shifted = [(a + 4, b + 4) for a, b in rows]
    keys = np.array(sorted({a << 4 | b for a, b in shifted}), np.uint64)
    before = keys.copy()
    trie = Trie.of_keys(keys, [4, 4])
    same = Trie.of(columns(shifted))
    assert [v.tolist() for v in trie.values] == [v.tolist() for v in same.values]
    assert (keys == before).all(), "the keys belong to somebody else"


@given(st.lists(small, unique=True).map(sorted), st.lists(small | huge))
def test_locating_words(values: list[int], words: list[int]) -> None:
    nodes = np.empty(len(words), np.int64)
    kernels.locate_sorted(np.array(words, np.int64), np.array(values, np.int64), nodes)
    expected = [values.index(word) if word in values else -1 for word in words]
    assert nodes.tolist() == expected


@given(st.data(), st.integers(1, 4), st.integers(1, 5), st.booleans())
def test_intersecting(data: st.DataObject, k: int, cap: int, guided: bool) -> None:
    """However small the buffer, the chunks put together are the intersections, in order."""
    rows = data.draw(st.integers(1, 5))
    each = st.lists(st.lists(small, unique=True).map(sorted), min_size=rows, max_size=rows)
    of_lists = [data.draw(each) for _ in range(k)]
    arrays = [packed(one) for one in of_lists]
    if data.draw(st.booleans()):  # a hub: all rows read the same list
        of_lists[-1] = [of_lists[-1][0]] * rows
        arrays[-1] = arrays[-1].take(np.zeros(rows, np.int64))
    values = tuple(a.values for a in arrays)
    lo, hi = np.stack([a.lo for a in arrays]), np.stack([a.hi for a in arrays])
    which = np.array(
        [data.draw(st.integers(0, k - 1)) for _ in range(rows)] if guided else [], np.int64
    )
    state = np.array([0, -1, 0, 0])
    found: list[tuple[int, int]] = []
    while state[0] < rows:
        parents, words = np.empty(cap, np.int64), np.empty(cap, np.int64)
        if k == 2:
            kernels.intersect_two(*values, lo, hi, which, 3, state, parents, words)
        else:
            kernels.intersect(values, lo, hi, which, 3, state, parents, words)
        found += zip(parents[: state[2]].tolist(), words[: state[2]].tolist(), strict=True)
    common = [sorted(set.intersection(*(set(one[row]) for one in of_lists))) for row in range(rows)]
    assert found == [(row, word) for row in range(rows) for word in common[row]]
    counts = np.empty(rows, np.int64)
    kernels.count_common(values, lo, hi, counts)
    assert counts.tolist() == [len(words) for words in common]


@given(lists, st.integers(1, 4))
def test_expanding(of_rows: list[list[int]], cap: int) -> None:
    whole = packed(of_rows)
    state = np.array([0, -1, 0, 0])
    found: list[tuple[int, int]] = []
    while state[0] < len(of_rows):
        parents, positions = np.empty(cap, np.int64), np.empty(cap, np.int64)
        kernels.expand(whole.lo, whole.hi, state, parents, positions)
        words = whole.values[positions[: state[2]]]
        found += zip(parents[: state[2]].tolist(), words.tolist(), strict=True)
    assert found == [(row, word) for row, words in enumerate(of_rows) for word in words]


@given(st.data())
def test_union_of_lists(data: st.DataObject) -> None:
    left = data.draw(lists)
    size = len(left)
    right = data.draw(
        st.lists(st.lists(small, unique=True).map(sorted), min_size=size, max_size=size)
    )
    merged = union(packed(left), packed(right))
    assert unpacked(merged) == [sorted({*a, *b}) for a, b in zip(left, right, strict=True)]


@given(st.lists(rows2, min_size=1, max_size=4), st.lists(small, min_size=1))
def test_accumulating_runs(runs: list[list[tuple[int, int]]], keys: list[int]) -> None:
    """What follows each key in any run, though the keys come unsorted and more than once."""
    tries = [Trie.of(columns(run)) for run in runs]
    found = unpacked(accumulate(tries, [np.array(keys, np.int64)]))
    facts = {fact for run in runs for fact in run}
    assert found == [sorted({b for a, b in facts if a == key}) for key in keys]


@given(st.lists(st.tuples(small, small), min_size=1))
def test_distinct_keys(rows: list[tuple[int, int]]) -> None:
    keys, number = distinct_keys(columns(rows))
    named = list(zip(*(c.tolist() for c in keys), strict=True))
    assert len(named) == len(set(named)) == len(set(rows))
    assert [named[i] for i in number] == rows


@given(st.lists(st.lists(st.integers(0, 2**62), min_size=3, max_size=3), min_size=1))
def test_choosing(rows: list[list[int]]) -> None:
    counts = np.ascontiguousarray(np.array(rows, np.int64).T)
    choice = np.empty(len(rows), np.int64)
    kernels.choose(counts, choice)
    for row, chosen in zip(rows, choice.tolist(), strict=True):
        bits = [count.bit_length() for count in row]
        assert chosen == (-1 if 0 in row else bits.index(min(bits)))


@pytest.mark.parametrize("low", [0, -5, 10**15])
def test_dense_and_sparse_lookups_agree(low: int) -> None:
    for step in (1, 3, 1_000_003):
        words = low + step * np.arange(50)
        trie = Trie.of([words, words])
        asked = np.array([*words, low - 1, low + 50 * step, -(2**63), 2**63 - 1])
        assert trie.locate([asked]).tolist() == [*range(50), -1, -1, -1, -1]
