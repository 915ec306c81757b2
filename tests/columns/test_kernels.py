"""Every kernel against a twin in plain Python."""

import math
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given, strategies as st

from caladan.columns import runs
from caladan.columns.kernels import groups, hashing, packs, probe, sorted as sets
from caladan.columns.layout import Counts, Keys, Words
from caladan.columns.membership import WordSet
from caladan.columns.packed import PackedRelation
from caladan.program import thresholds
from caladan.rules.body import Version

KEYS = st.lists(st.integers(0, 40) | st.integers(0, 2**64 - 1), max_size=60)
WORDS = st.lists(st.integers(0, 2**32 - 1), max_size=40)


def keys(values: Any) -> Keys:
    return np.array(sorted(values), np.uint64)


def room(*arrays: Keys) -> Keys:
    return np.empty(sum(map(len, arrays)), np.uint64)


@given(KEYS)
def test_dedup(values: list[int]) -> None:
    some = keys(values)
    assert some[: sets.dedup(some)].tolist() == sorted(set(values))


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_merge_and_subtract(one: set[int], other: set[int]) -> None:
    left, right = keys(one), keys(other)
    out = room(left, right)
    assert out[: sets.merge(left, right, out)].tolist() == sorted(one | other)
    for subtract in (sets.subtract_galloping, sets.subtract_linear):
        out = room(left)
        assert out[: subtract(left, right, out)].tolist() == sorted(one - other)
        itself = left.copy()
        assert itself[: subtract(itself, right, itself)].tolist() == sorted(one - other)


@given(st.lists(st.integers(0, 200)))
def test_unseen_keeps_the_first_of_each(values: list[int]) -> None:
    seen = np.zeros(4, np.uint64)
    some = np.array(values, np.uint64)
    assert some[: sets.take_unseen(some, seen, some)].tolist() == list(dict.fromkeys(values))
    again = np.array(values, np.uint64)
    assert sets.take_unseen(again, seen, again) == 0
    others = np.arange(256, dtype=np.uint64)
    unknown = others[: sets.unknown(others, seen, others)].tolist()
    assert unknown == [key for key in range(256) if key not in values]


@given(st.lists(KEYS))
def test_word_sets(batches: list[list[int]]) -> None:
    seen = WordSet()
    known: set[int] = set()
    for batch in batches:
        unknown = seen.unknown(np.array(batch, np.uint64)).tolist()
        assert unknown == [key for key in batch if key not in known]
        new = seen.unseen(np.array(batch, np.uint64)).tolist()
        assert new == [key for key in dict.fromkeys(batch) if key not in known]
        known.update(batch)


def test_word_sets_grow() -> None:
    seen = WordSet()
    keys = np.arange(0, 1 << 20, 64, dtype=np.uint64)
    assert len(seen.unseen(keys.copy())) == len(keys)
    assert len(seen.unseen(keys.copy())) == 0


@given(st.lists(st.tuples(st.integers(0, 2**20 - 1), st.integers(0, 2**12 - 1)), max_size=40))
def test_pack_and_unpack(rows: list[tuple[int, int]]) -> None:
    first: Words = np.array([a for a, _ in rows], np.uint32)
    second: Words = np.array([b for _, b in rows], np.uint32)
    packed: Keys = np.empty(len(rows), np.uint64)
    packs.pack(packed, first, 12)
    packs.pack_into(packed, second, 0)
    assert packed.tolist() == [a << 12 | b for a, b in rows]
    out: Words = np.empty(len(rows), np.uint32)
    packs.unpack(packed, 12, 2**20 - 1, out)
    assert out.tolist() == first.tolist()
    turned: Keys = np.empty(len(rows), np.uint64)
    shifts, to = np.array([12, 0]), np.array([0, 20])
    packs.repack(packed, shifts, np.array([2**20 - 1, 2**12 - 1], np.uint64), to, turned)
    assert turned.tolist() == [b << 20 | a for a, b in rows]


@given(WORDS, st.data())
def test_gather_and_compress(values: list[int], data: st.DataObject) -> None:
    words: Words = np.array(values, np.uint32)
    rows = data.draw(st.lists(st.integers(0, len(values) - 1))) if values else []
    out: Words = np.empty(len(rows), np.uint32)
    packs.gather(words, np.array(rows, np.uint32), out)
    assert out.tolist() == [values[row] for row in rows]
    keep = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    out = np.empty(len(values), np.uint32)
    count = packs.compress(words, np.array(keep, np.bool_), out)
    assert out[:count].tolist() == [v for v, k in zip(values, keep, strict=True) if k]


PAIRS = st.sets(st.tuples(st.integers(0, 9), st.integers(0, 15)), max_size=50)


@given(
    PAIRS, st.lists(st.integers(0, 12), max_size=30), st.booleans(), st.sampled_from([None, 0, 6])
)
def test_lookups(
    pairs: set[tuple[int, int]], wanted: list[int], with_bounds: bool, filter_log: int | None
) -> None:
    """By the first of two columns: ranges, membership, and both ways of spreading them."""
    run = keys(a << 4 | b for a, b in pairs)
    bounds: Counts = np.empty(0, np.int64)
    if with_bounds and len(run):
        bounds = np.empty(int(run[-1] >> np.uint64(4)) + 2, np.int64)
        probe.leading_bounds(run, 4, bounds)
    bits: Keys = np.zeros(0 if filter_log is None else 1, np.uint64)
    if filter_log is not None:
        probe.fill_filter(run, 4, filter_log, bits)
    sought: Keys = np.array(wanted, np.uint64)
    starts, counts = np.empty((2, len(sought)), np.int64)
    log = filter_log or 0
    total = probe.ranges(sought, run, 4, bounds, 0, bits, log, starts, counts)
    matches = [[k for k in run.tolist() if k >> 4 == w] for w in wanted]
    assert counts.tolist() == [len(m) for m in matches]
    assert total == sum(map(len, matches))
    found = np.zeros(len(sought), np.bool_)
    probe.mark_present(sought, run, 4, bounds, 0, bits, log, found)
    assert found.tolist() == [bool(m) for m in matches]

    used: Counts = np.zeros(1, np.int64)
    rows: Words = np.empty(total, np.uint32)
    hits: Keys = np.empty(total, np.uint64)
    assert probe.spread(run, starts, counts, 0, total, used, rows, hits) == len(wanted)
    assert rows.tolist() == [i for i, m in enumerate(matches) for _ in m]
    assert hits.tolist() == [k for m in matches for k in m]
    places: Counts = np.empty(len(wanted), np.int64)
    again: Keys = np.empty(total, np.uint64)
    assert probe.find_fit(counts, 0, total, used, rows, places) == len(wanted)
    probe.copy_matches(run, starts, counts, 0, len(wanted), places, again)
    assert again.tolist() == hits.tolist()
    bases: Keys = np.array([w << 4 for w in wanted], np.uint64)
    fields = np.zeros(1, np.int64), np.array([15], np.uint64), np.zeros(1, np.int64)
    probe.emit(run, starts, counts, 0, total, bases, *fields, used, again)
    assert again.tolist() == hits.tolist()


@given(PAIRS, st.lists(st.tuples(st.integers(0, 9), st.integers(0, 15)), max_size=30))
def test_lookups_by_all_columns(pairs: set[tuple[int, int]], wanted: list[tuple[int, int]]) -> None:
    run = keys(a << 4 | b for a, b in pairs)
    bounds: Counts = np.empty(12, np.int64)
    probe.leading_bounds(run, 4, bounds)
    sought = np.array([a << 4 | b for a, b in wanted], np.uint64)
    none: Keys = np.empty(0, np.uint64)
    for known in (bounds, np.empty(0, np.int64)):
        found = np.zeros(len(sought), np.bool_)
        probe.mark_present(sought, run, 0, known, 4, none, 0, found)
        assert found.tolist() == [pair in pairs for pair in wanted]


def test_chunks_end_at_whole_rows() -> None:
    counts = np.array([2, 3, 0, 1], np.int64)
    used: Counts = np.zeros(1, np.int64)
    rows: Words = np.empty(4, np.uint32)
    places: Counts = np.empty(4, np.int64)
    assert probe.find_fit(counts, 0, 4, used, rows, places) == 1
    assert (used[0], rows[:2].tolist()) == (2, [0, 0])
    assert probe.find_fit(counts, 1, 4, used, rows, places) == 4
    assert (used[0], rows.tolist()) == (4, [1, 1, 1, 3])


@given(KEYS)
def test_intern(values: list[int]) -> None:
    slots: Words = np.zeros(256, np.uint32)
    known: Keys = np.empty(len(values) + 1, np.uint64)
    ids: Words = np.empty(len(values), np.uint32)
    fresh: Counts = np.empty(len(values), np.int64)
    batch: Keys = np.array(values, np.uint64)
    count = hashing.intern(batch, slots, known, 0, ids, fresh)
    order = list(dict.fromkeys(values))
    assert known[:count].tolist() == order
    assert ids.tolist() == [order.index(v) for v in values]
    assert fresh[:count].tolist() == [values.index(v) for v in order]
    larger: Words = np.zeros(512, np.uint32)
    hashing.refill(known, count, larger)
    hashing.find(
        np.array([*values, 41], np.uint64),
        larger,
        known,
        found := np.empty(len(ids) + 1, np.uint32),
    )
    assert found[:-1].tolist() == ids.tolist()
    assert found[-1] == (order.index(41) if 41 in order else hashing.ABSENT)


AMOUNTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(-(2**63), 2**63 - 1)), max_size=40
)


@given(AMOUNTS, st.booleans())
def test_best(rows: list[tuple[int, int, int]], smaller: bool) -> None:
    group = np.array([g for g, _, _ in rows], np.int64)
    ranks = np.array([a for _, _, a in rows], np.int64)
    best, known = np.zeros(4, np.int64), np.zeros(4, np.bool_)
    groups.improve(group, ranks, best, known, smaller)
    for g in range(4):
        amounts = [a for each, _, a in rows if each == g]
        assert known[g] == bool(amounts)
        assert not amounts or best[g] == (min if smaller else max)(amounts)


@given(AMOUNTS, st.booleans())
def test_sums_of_integers(rows: list[tuple[int, int, int]], latest: bool) -> None:
    """128 bits: exact, with and without contributors."""
    group = np.array([g for g, _, _ in rows], np.int64)
    amounts = np.array([a for _, _, a in rows], np.int64)
    low, high = np.zeros(4, np.uint64), np.zeros(4, np.int64)
    groups.add_integers(group, amounts, low, high)
    assert wide(low, high) == [sum(a for each, _, a in rows if each == g) for g in range(4)]
    low, high = np.zeros(4, np.uint64), np.zeros(4, np.int64)
    who = np.array([5 * g + c for g, c, _ in rows], np.uint32)
    held, known = np.zeros(20, np.int64), np.zeros(20, np.bool_)
    groups.place_integers(group, who, amounts, held, known, latest, low, high)
    places: dict[tuple[int, int], int] = {}
    for g, c, a in rows:
        places[g, c] = a if latest else max(a, places.get((g, c), a))
    assert wide(low, high) == [sum(a for (e, _), a in places.items() if e == g) for g in range(4)]


def wide(low: Any, high: Any) -> list[int]:
    return [(int(h) << 64) + int(w) for w, h in zip(low, high, strict=True)]


@given(st.lists(st.floats(-1e6, 1e6), max_size=50), st.booleans())
def test_sums_of_doubles_are_rounded_once(amounts: list[float], latest: bool) -> None:
    group = np.zeros(len(amounts), np.int64)
    total, error, special = np.zeros(1), np.zeros(1), np.zeros(3, np.int64)
    groups.add_floats(group, np.array(amounts, np.float64), total, error, special)
    assert math.isclose(total[0] + error[0], math.fsum(amounts), rel_tol=1e-15, abs_tol=1e-25)
    total, error = np.zeros((2, 1))
    held, known = np.zeros(1), np.zeros(1, np.bool_)
    who = np.zeros(len(amounts), np.uint32)
    numbers = np.array(amounts, np.float64)
    groups.place_floats(group, who, numbers, held, known, latest, total, error, special)
    wanted = amounts[-1] if latest and amounts else max(amounts, default=0.0)
    assert math.isclose(total[0] + error[0], wanted, rel_tol=1e-15, abs_tol=1e-9)
    assert not special.any()


@given(
    st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9)), st.integers(0, 64), st.integers(1, 11)
)
def test_radix_is_a_stable_sort(values: list[int], low: int, width: int) -> None:
    keys: Keys = np.array(values or [0], np.uint64)
    wanted = sorted(keys.tolist(), key=lambda key: key >> low)
    high = int(keys.max()).bit_length()
    scratch: Keys = np.empty_like(keys)
    found = scratch if sets.radix(keys, scratch, low, high, width) else keys
    assert found.tolist() == wanted


@given(st.lists(st.tuples(*[st.integers(0, 5)] * 3)), st.permutations(range(3)))
def test_keys_in_another_order_of_columns(facts: list[tuple[int, ...]], order: list[int]) -> None:
    with thresholds.override(radix_keys=1), patch.object(runs, "is_loaded", lambda: True):
        relation = PackedRelation((3, 4, 5), {frozenset(order[:1]): tuple(order)})
        words = [np.array([fact[c] for fact in facts], np.uint32) for c in range(3)]
        relation.add(words, len(facts))
        relation.flip()
        relation.commit()
        index = relation.index(order[:1], Version.NEW)
        found = [
            tuple(int(index.column(run.keys, c)[i]) for c in index.packing.order)
            for run in index.runs
            for i in range(len(run))
        ]
    assert found == sorted({tuple(fact[c] for c in index.packing.order) for fact in facts})
