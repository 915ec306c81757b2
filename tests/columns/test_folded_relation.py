"""A folded relation answers lookups by any columns, counts and picks as its listed facts would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from tests.columns.test_bits import Facts, bit_rows, range_rows, relations

from caladan.columns.folded import Fold
from caladan.columns.folded_relation import FoldedRelation, FoldedSide
from caladan.columns.matrices import BitRows, RangeRows
from caladan.rules.body import Version

Drawn = tuple[Fold, Fold, list[tuple[int, int]], Facts, Facts]


def tuples(numbers: int, columns: int, spread: int) -> list[np.ndarray]:
    """Different tuples for so many numbers, with words that repeat in each column but the last."""
    rest = [np.arange(numbers) // spread**k % spread for k in range(columns - 1)]
    return [each.astype(np.uint32) for each in (*rest, np.arange(numbers)[::-1] * 3)]


SIDES = [((0,), (1,)), ((1,), (0,)), ((0, 2), (1,)), ((1,), (2, 0)), ((3, 0), (1, 2))]


def folded(
    make: Callable[..., BitRows | RangeRows], drawn: Drawn, sides: tuple[tuple[int, ...], ...]
) -> tuple[FoldedRelation, set[tuple[int, ...]]]:
    rows, columns, pairs, beside, expected = drawn
    assume(len(expected) < 2000)
    extra = np.array(sorted(beside), np.uint32).reshape(-1, 2)
    matrix = make(rows, columns, pairs).with_extra(extra[:, 0], extra[:, 1])
    size = 1 + max((max(fact) for fact in expected), default=0)
    size = max(size, len(rows.class_of), len(columns.class_of))
    words = [tuples(size, len(side), 4) if sum(map(len, sides)) > 2 else None for side in sides]
    first, second = (FoldedSide(side, each) for side, each in zip(sides, words, strict=True))
    facts: set[tuple[int, ...]] = set()
    for numbers in expected:
        fact = [0] * sum(map(len, sides))
        for side, number in zip((first, second), numbers, strict=True):
            for c in side.columns:
                fact[c] = int(side.of(np.array([number], np.uint32), c)[0])
        facts.add(tuple(fact))
    return FoldedRelation(matrix, first, second), facts


@pytest.mark.parametrize("make", [bit_rows, range_rows])
@pytest.mark.parametrize("sides", SIDES)
@settings(max_examples=5)
@given(drawn=relations(), seed=st.integers(0, 99), room=st.sampled_from([1, 50, 10_000]))
def test_lookups_by_any_columns(
    make: Callable[..., BitRows | RangeRows],
    sides: tuple[tuple[int, ...], ...],
    drawn: Drawn,
    seed: int,
    room: int,
) -> None:
    relation, facts = folded(make, drawn, sides)
    room = max(room, len(facts) // 50)
    assert {
        tuple(map(int, row)) for b in relation.blocks(room) for row in zip(*b, strict=True)
    } == (facts)
    chance = np.random.default_rng(seed)
    some = sorted(facts)[:: max(1, len(facts) // 8)]
    batch = np.array([*some, *some[:2], [7] * relation.arity], np.uint32)
    batch = np.concatenate([batch, chance.permuted(batch, axis=0)])
    for size in range(1, relation.arity + 1):
        for bound in combinations(range(relation.arity), size):
            index = relation.index(bound, Version.FULL)
            keys, lead = index.key({c: batch[:, c].copy() for c in bound}, len(batch))
            by_key: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
            for fact in facts:
                by_key.setdefault(tuple(fact[c] for c in bound), set()).add(fact)
            wanted = [by_key.get(tuple(int(row[c]) for c in bound), set()) for row in batch]
            found = index.find(keys, lead)
            assert found.counts().tolist() == [len(each) for each in wanted]
            assert found.total == sum(map(len, wanted))
            assert index.present(keys, lead).tolist() == [bool(each) for each in wanted]
            listed: list[tuple[int, tuple[int, ...]]] = []
            for rows, hits in found.chunks(room):
                columns = [index.column(hits, c).tolist() for c in range(relation.arity)]
                listed += zip(rows.tolist(), zip(*columns, strict=True), strict=True)
            assert Counter(listed) == Counter(
                (row, fact) for row, each in enumerate(wanted) for fact in each
            )


@pytest.mark.parametrize("make", [bit_rows, range_rows])
@pytest.mark.parametrize("sides", SIDES)
@settings(max_examples=5)
@given(drawn=relations())
def test_counts_and_picks(
    make: Callable[..., BitRows | RangeRows], sides: tuple[tuple[int, ...], ...], drawn: Drawn
) -> None:
    relation, facts = folded(make, drawn, sides)
    index = relation.index((), Version.FULL)
    for side in (relation.first, relation.second):
        numbers, counts = relation.weighed(first=side is relation.first)
        columns = [side.of(numbers, c).tolist() for c in side.columns]
        counted = Counter(tuple(fact[c] for c in side.columns) for fact in facts)
        assert dict(zip(zip(*columns, strict=True), counts.tolist(), strict=True)) == counted
        needed = frozenset(side.columns[:1])
        hits = np.concatenate([np.empty(0, np.uint64), *relation.scan(Version.FULL, 9, needed)])
        assert set(index.column(hits, side.columns[0]).tolist()) == {
            fact[side.columns[0]] for fact in facts
        }
    size = len(drawn[1].class_of) + 400
    column = relation.second.columns[0]
    values = relation.second.of(np.arange(size, dtype=np.uint32), column) if (
        relation.second.words is None
    ) else relation.second.words[0]  # fmt: skip
    numbers, least = relation.best(values.astype(np.int64))
    first = relation.first
    found = zip(*(first.of(numbers, c).tolist() for c in first.columns), strict=True)
    expected: dict[tuple[int, ...], int] = {}
    for fact in facts:
        key = tuple(fact[c] for c in relation.first.columns)
        expected[key] = min(expected.get(key, 1 << 60), fact[column])
    assert dict(zip(found, least.tolist(), strict=True)) == expected


@pytest.mark.parametrize("make", [bit_rows, range_rows])
def test_listing_takes_no_more_room_than_there_are_facts(
    make: Callable[..., BitRows | RangeRows],
) -> None:
    ends = Fold.of(np.array([0, 0, 1], np.uint32), 2)
    matrix = make(ends, ends, [(0, 1)])
    assert [len(first) for first, _ in matrix.blocks(1 << 40)] == [2]
