"""Bit rows and ranges over classes of words, against sets of pairs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

from caladan.columns.folded import Distinct, Fold
from caladan.columns.folded_index import NONE
from caladan.columns.folded_relation import FoldedRelation, FoldedSide
from caladan.columns.kernels.bits import set_bits
from caladan.columns.layout import Layout
from caladan.columns.matrices import BitRows, RangeRows

Facts = set[tuple[int, int]]


@st.composite
def folds(draw: st.DrawFn) -> Fold:
    """Some words without a class, some classes with several words."""
    count = draw(st.integers(1, 140))
    drawn = draw(st.lists(st.integers(-1, count - 1), max_size=160))
    # Every class has a word, as every class does that comes from data.
    classes = [*drawn, *range(count)]
    return Fold.of(np.array([int(NONE) if c < 0 else c for c in classes], np.uint32), count)


def members(fold: Fold) -> list[list[int]]:
    return [[w for w, c in enumerate(fold.class_of) if c == k] for k in range(fold.count)]


@st.composite
def relations(draw: st.DrawFn) -> tuple[Fold, Fold, list[tuple[int, int]], Facts, Facts]:
    """Folds, a set of pairs of classes, facts beside them, and all facts."""
    rows, columns = draw(folds()), draw(folds())
    seed = draw(st.integers(0, 2**32 - 1))
    full = draw(st.sampled_from([0.0, 0.01, 0.3, 1.0]))
    random = np.random.default_rng(seed)
    pairs = [
        (int(r), int(c)) for r, c in np.argwhere(random.random((rows.count, columns.count)) < full)
    ]
    row_words, column_words = members(rows), members(columns)
    inside = {(x, y) for r, c in pairs for x in row_words[r] for y in column_words[c]}
    word = st.integers(0, 320)
    beside = draw(st.sets(st.tuples(word, word), max_size=5)) - inside
    return rows, columns, pairs, beside, inside | beside


def bit_rows(rows: Fold, columns: Fold, pairs: list[tuple[int, int]]) -> BitRows:
    bits = np.zeros((rows.count, (columns.count + 63) // 64), np.uint64)
    first, second = np.array(pairs, np.uint32).reshape(-1, 2).T
    set_bits(bits, first.copy(), second.copy())
    return BitRows.of(rows, columns, bits)


def ranges_of(values: list[int]) -> list[tuple[int, int]]:
    """Ascending values as ranges of neighbours."""
    found: list[tuple[int, int]] = []
    for value in values:
        if found and found[-1][1] == value - 1:
            found[-1] = (found[-1][0], value)
        else:
            found.append((value, value))
    return found


def range_rows(rows: Fold, columns: Fold, pairs: list[tuple[int, int]]) -> RangeRows:
    by_row = [ranges_of(sorted(c for r, c in pairs if r == k)) for k in range(rows.count)]
    bounds = np.cumsum([0, *map(len, by_row)])
    ranges = np.array([low << 32 | high for row in by_row for low, high in row], np.uint64)
    return RangeRows.of(rows, columns, bounds, ranges)


def facts(blocks: list[tuple[np.ndarray, ...]]) -> list[tuple[int, ...]]:
    return [tuple(map(int, fact)) for block in blocks for fact in zip(*block, strict=True)]


def check(layout: Layout, expected: Facts, limit: int) -> None:
    assert layout.count() == len(expected)
    assert layout.nbytes > 0
    blocks = list(layout.blocks(limit))
    assert all(0 < len(block[0]) <= limit for block in blocks)
    listed = facts(blocks)
    assert len(listed) == len(expected)
    assert set(listed) == expected
    head = facts([layout.head(7)])
    assert len(head) == min(7, len(expected)) and set(head) <= expected
    x, y = (a.reshape(-1).astype(np.uint32) for a in np.meshgrid(range(0, 330, 3), range(330)))
    found = layout.contains((x, y))
    assert {(int(a), int(b)) for a, b in zip(x[found], y[found], strict=True)} == {
        f for f in expected if f[0] % 3 == 0 and f[0] < 330
    }
    for word in (0, 5, 77, 319, 2**32 - 1, 2**40):
        by_first = facts(list(layout.select({0: word}, limit)))
        by_second = facts(list(layout.select({1: word}, limit)))
        assert sorted(by_first) == sorted(f for f in expected if f[0] == word)
        assert sorted(by_second) == sorted(f for f in expected if f[1] == word)
    for fact in [*list(expected)[:3], (1, 1)]:
        assert facts(list(layout.select({0: fact[0], 1: fact[1]}))) == [fact] * (fact in expected)
    assert set(facts(list(layout.select({}, limit)))) == expected


@pytest.mark.parametrize("make", [bit_rows, range_rows])
@given(relation=relations(), limit=st.sampled_from([1, 10, 1000]))
def test_layouts_hold_their_facts(
    make: Callable[..., BitRows | RangeRows],
    relation: tuple[Fold, Fold, list[tuple[int, int]], Facts, Facts],
    limit: int,
) -> None:
    rows, columns, pairs, beside, expected = relation
    if limit == 1 and len(expected) > 2000:
        limit = 100
    extra = np.array(sorted(beside), np.uint32).reshape(-1, 2)
    layout = make(rows, columns, pairs).with_extra(extra[:, 0], extra[:, 1])
    check(layout, expected, limit)
    check(
        FoldedRelation(layout, FoldedSide((1,)), FoldedSide((0,))),
        {(y, x) for x, y in expected},
        limit,
    )


@given(st.sets(st.integers(0, 50)), st.integers(1, 9))
def test_a_column_of_words(words: set[int], limit: int) -> None:
    layout = Distinct(np.array(sorted(words), np.uint32))
    assert layout.count() == len(words)
    assert [w for (block,) in layout.blocks(limit) for w in block] == sorted(words)
    assert layout.head(3)[0].tolist() == sorted(words)[:3]
    every = np.arange(60, dtype=np.uint32)
    assert layout.contains((every,)).tolist() == [w in words for w in every]
    assert facts(list(layout.select({0: 7}))) == [(7,)] * (7 in words)
