"""Batches of facts: to whom rows go, and that they arrive as they were sent."""

from typing import Any

import numpy as np
from hypothesis import given, strategies as st

from caladan.columns.domains import InternedDomain, OffsetDomain, TextDomain
from caladan.columns.layout import Packing
from caladan.columns.ranks import CODED
from caladan.engines.spark.mesh.messages import (
    TaskStatus,
    Verdict,
    batches_of,
    message,
    standing_of,
)
from caladan.engines.spark.mesh.shuffle import (
    AsIs,
    ByKey,
    RowBatch,
    Slot,
    TextCodec,
    codec,
    field_spread,
    key_spread,
)
from caladan.program.kinds import Kind

words = st.lists(st.integers(0, 1000), min_size=1, max_size=200)


def sent(slot: Slot, batch: RowBatch, other: Slot) -> RowBatch:
    """A batch as it arrives where the slot is `other`."""
    buffers = message(TaskStatus(7, 5, 3, 9, Verdict.GO_ON), [(slot, batch)])
    data = bytearray(b"".join(bytes(each) for each in buffers))
    assert standing_of(data) == TaskStatus(7, 5, 3, 9, Verdict.GO_ON)
    ((_, came),) = batches_of(data, [other])
    return came


def slot(*codecs: Any) -> Slot:
    return Slot(0, codecs, field_spread(codecs, (0,)), lambda _: None)


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1)), max_size=50))
def test_numbers_arrive(rows: list[tuple[int, int]]) -> None:
    fields = (np.array([a for a, _ in rows], np.uint64), np.array([b for _, b in rows], np.uint32))
    both = slot(AsIs(np.uint64), AsIs(np.uint32))
    came = sent(both, RowBatch(len(rows), fields), both)
    assert list(zip(*(f.tolist() for f in came.fields), strict=True)) == rows


VALUES = {
    Kind.STRING: st.text(max_size=5),
    Kind.BINARY: st.binary(max_size=5),
    Kind.DECIMAL: st.decimals(-(10**9), 10**9, places=3),
}


@given(st.data(), st.sampled_from(sorted(VALUES, key=str)))
def test_values_arrive_though_the_other_side_numbers_them_differently(
    data: st.DataObject, kind: Kind
) -> None:
    values = data.draw(st.lists(VALUES[kind], min_size=1, max_size=30))
    known = data.draw(st.lists(VALUES[kind], unique=True))
    here, there = TextDomain([], kind), TextDomain(known, kind)
    given_words = here.take(values)
    outward, inward = TextCodec(here), TextCodec(there)
    came = sent(slot(outward), RowBatch(len(values), (given_words,)), slot(inward))
    assert there.arrow(came.fields[0], CODED[kind]).to_pylist() == values
    assert outward.values(given_words).tolist() == inward.values(came.fields[0]).tolist()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=50))
def test_computed_numbers_arrive(values: list[int]) -> None:
    """Numbers far from the base are numbered in order of appearance, in every task its own."""
    here = OffsetDomain(Kind.INTEGER, 0, 1, grows=True)
    there = OffsetDomain(Kind.INTEGER, 0, 1, grows=True)
    there.words(np.array([-1, -2, 2**62], np.int64))
    ranks = np.array(values, np.int64)
    came = sent(slot(codec(here)), RowBatch(len(values), (here.words(ranks),)), slot(codec(there)))
    assert there.ranks(came.fields[0]).tolist() == values


@given(words, st.integers(1, 7), st.integers(0, 1))
def test_every_row_goes_to_one_task_and_equal_values_to_the_same(
    values: list[int], tasks: int, column: int
) -> None:
    packing = Packing((10, 12), (0, 1))
    left, right = np.array(values, np.uint32), np.arange(len(values), dtype=np.uint32)
    keys = packing.keys([left, right], len(values))
    parts = key_spread(packing, (column,)).split(RowBatch(len(values), (keys,)), tasks)
    found = [key for part in parts if part is not None for key in part.fields[0].tolist()]
    assert sorted(found) == sorted(keys.tolist())
    homes: dict[int, int] = {}
    for task, part in enumerate(parts):
        if part is not None:
            for word in packing.column(part.fields[0], column).tolist():
                assert homes.setdefault(word, task) == task


@given(words, st.integers(2, 5))
def test_packed_or_not_a_value_has_the_same_home(values: list[int], tasks: int) -> None:
    """Two relations meet in a variable, one of them packed, the other too wide for that."""
    packing = Packing((3, 12), (0, 1))
    column = np.array(values, np.uint32)
    keys = packing.keys([np.zeros(len(values), np.uint32), column], len(values))
    packed = key_spread(packing, (1,)).split(RowBatch(len(values), (keys,)), tasks)
    fields = field_spread([AsIs(np.uint32)], (0,)).split(RowBatch(len(values), (column,)), tasks)
    for one, other in zip(packed, fields, strict=True):
        words_there = [] if one is None else packing.column(one.fields[0], 1).tolist()
        assert words_there == ([] if other is None else other.fields[0].tolist())


@given(st.lists(st.floats(), min_size=1, max_size=40), st.integers(2, 5))
def test_computed_doubles_have_a_home_that_all_tasks_know(values: list[float], tasks: int) -> None:
    here, there = InternedDomain(Kind.FLOAT), InternedDomain(Kind.FLOAT)
    ranks = np.array(values, np.float64).view(np.int64)
    there.words(ranks[::-1].copy())
    batches = [RowBatch(len(ranks), (d.words(ranks),)) for d in (here, there)]
    parts = [
        field_spread([codec(domain)], (0,)).split(batch, tasks)
        for domain, batch in zip((here, there), batches, strict=True)
    ]
    for one, other in zip(*parts, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            same = here.ranks(one.fields[0]) == there.ranks(other.fields[0])
            assert bool(same.all())


def test_whole_and_first() -> None:
    keys = np.arange(5, dtype=np.uint64)
    batch = RowBatch(5, (keys,))
    packing = Packing((8,), (0,))
    assert key_spread(packing, None).split(batch, 3) == [batch] * 3
    assert key_spread(packing, ()).split(batch, 3) == [batch, None, None]
    assert isinstance(key_spread(packing, (0,)), ByKey)
