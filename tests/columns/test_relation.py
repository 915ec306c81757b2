"""Domains, packings and stored relations: the same facts as a set of tuples, in every version."""

import datetime as dt
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from caladan.columns.domains import (
    OffsetDomain,
    closed_domain,
    coded_domain,
    computed_domain,
    word_of,
)
from caladan.columns.index import RunMatches, present
from caladan.columns.layout import Packing, Words, concatenate
from caladan.columns.packed import PackedRelation
from caladan.columns.ranks import arrow_ranks, float_ranks, rank_floats, rank_of
from caladan.columns.relation import StoredRelation
from caladan.columns.rows import RowRelation
from caladan.columns.runs import Run
from caladan.program import thresholds
from caladan.program.kinds import Kind
from caladan.rules.body import Version

Fact = tuple[int, ...]


@dataclass
class Sizes:
    """A domain of which only the size matters."""

    size: int
    grows: bool = False


def columns(facts: list[Fact], arity: int) -> list[Words]:
    return [np.array([fact[c] for fact in facts], np.uint32) for c in range(arity)]


def facts_of(blocks: list[tuple[Words, ...]], arity: int) -> list[Fact]:
    joined = concatenate(iter(blocks), arity)
    return list(zip(*(c.tolist() for c in joined), strict=True))


# ── Domains ──────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.floats(), min_size=2))
def test_ranks_of_doubles_are_in_their_order(values: list[float]) -> None:
    ranks = float_ranks(np.array(values))
    assert ranks.tolist() == [rank_of(v) for v in values]
    back = rank_floats(ranks)
    order = np.argsort(ranks, kind="stable")
    in_order = back[order]
    numbers = in_order[~np.isnan(in_order)]
    assert np.all(numbers[1:] >= numbers[:-1])
    assert not np.any(np.isnan(in_order[: len(numbers)]))
    assert np.array_equal(back, np.array(values) + 0.0, equal_nan=True)


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 99))), st.booleans())
def test_integers(given: list[list[int]], computed: bool) -> None:
    ranks = [np.array(column, np.int64) for column in given]
    domain, words = (computed_domain if computed else closed_domain)(Kind.INTEGER, ranks)
    for column, encoded in zip(given, words, strict=True):
        assert domain.ranks(encoded).tolist() == column
        assert domain.arrow(encoded, pa.int64()).to_pylist() == column
        assert all(word < domain.size for word in encoded)
        assert [word_of(value, domain) for value in column] == encoded.tolist()


@given(st.lists(st.lists(st.text())))
def test_texts(given: list[list[str]]) -> None:
    columns = [pa.chunked_array([column], pa.string()) for column in given]
    domain, words = coded_domain(Kind.STRING, columns)
    texts = {
        text: int(word)
        for c, w in zip(given, words, strict=True)
        for text, word in zip(c, w, strict=True)
    }
    assert sorted(texts, key=lambda text: text.encode()) == sorted(texts, key=lambda t: texts[t])
    assert len(set(texts.values())) == len(texts)
    for column, encoded in zip(given, words, strict=True):
        assert domain.arrow(encoded, pa.string()).to_pylist() == column


def test_values_that_are_computed_far_away_still_have_words() -> None:
    domain = OffsetDomain(Kind.INTEGER, 0, 1, grows=True)
    far = np.array([5, 2**62, -3, 7, 2**62], np.int64)
    words = domain.words(far)
    assert domain.ranks(words).tolist() == far.tolist()
    assert words[1] == words[4]
    assert domain.ranks(domain.words(np.array([6], np.int64))).tolist() == [6]


def test_datetimes_and_booleans() -> None:
    moments = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 1, 31)]
    ranks = arrow_ranks(pa.chunked_array([moments], pa.timestamp("us")), Kind.DATETIME)
    assert ranks.tolist() == [rank_of(m) for m in moments]
    domain, (words,) = closed_domain(Kind.DATETIME, [ranks])
    assert domain.arrow(words, pa.timestamp("us")).to_pylist() == moments
    ranks = arrow_ranks(pa.chunked_array([[True, False]]), Kind.BOOLEAN)
    domain, (words,) = closed_domain(Kind.BOOLEAN, [ranks])
    assert domain.arrow(words, pa.bool_()).to_pylist() == [True, False]


# ── Relations ────────────────────────────────────────────────────────────────────────────────────


@st.composite
def rounds(draw: st.DrawFn) -> tuple[int, list[list[Fact]]]:
    arity = draw(st.integers(0, 5))
    fact = st.tuples(*[st.integers(0, 6)] * arity)
    return arity, draw(st.lists(st.lists(fact, max_size=25), max_size=5))


@pytest.mark.parametrize("width", [3, 20])
@given(given=rounds(), data=st.data())
def test_versions_of_a_relation(
    width: int, given: tuple[int, list[list[Fact]]], data: st.DataObject
) -> None:
    """Old, delta and new, by any bound columns; facts of 3 bits a column are packed, of 20 not."""
    arity, batches = given
    relation = StoredRelation([Sizes(1 << width)] * arity)
    assert isinstance(relation.body, PackedRelation) == (width * arity <= 64)
    old: set[Fact] = set()
    for batch in batches:
        relation.add(columns(batch, arity), len(batch))
        delta = set(batch) - old
        assert relation.flip() == len(delta)
        versions = {Version.OLD: old, Version.DELTA: delta, Version.NEW: old | delta}
        bound = tuple(sorted(data.draw(st.sets(st.integers(0, arity - 1))))) if arity else ()
        for version, facts in versions.items():
            check_lookups(relation, bound, version, facts)
        relation.commit()
        old |= delta
    assert relation.count() == len(old)
    if arity:
        assert sorted(facts_of(list(relation.blocks(7)), arity)) == sorted(old)
        assert len(relation.head(3)[0]) == min(3, len(old))
        some = [*sorted(old)[:5], (9,) * arity]
        wanted = [True] * len(sorted(old)[:5]) + [False]
        if 1 << width > 9:
            assert relation.contains(tuple(columns(some, arity))).tolist() == wanted


@given(
    batches=st.lists(
        st.lists(st.tuples(*[st.integers(0, 3)] * 2), min_size=5, max_size=25), min_size=2
    ),
    late=st.integers(0, 50),
)
def test_what_a_round_derives_is_taken_in_while_its_delta_is_apart(
    batches: list[list[Fact]], late: int
) -> None:
    """Each fact counts once, whenever the relation comes to keep a set of all it has seen."""
    with pytest.MonkeyPatch.context() as patch, thresholds.override(compact=2):
        patch.setattr(PackedRelation, "is_worth_a_set", lambda self, known: self._tried > late)
        relation = StoredRelation([Sizes(8)] * 2)
        known: set[Fact] = set()
        for batch in batches:
            for at in range(0, len(batch), 5):
                part = batch[at : at + 5]
                relation.add(columns(part, 2), len(part))
            relation.commit()
            assert relation.flip() == len(set(batch) - known)
            known |= set(batch)
        assert sorted(facts_of(list(relation.blocks()), 2)) == sorted(known)


def check_lookups(
    relation: StoredRelation, bound: tuple[int, ...], version: Version, facts: set[Fact]
) -> None:
    arity = relation.arity
    index = relation.index((), version)
    scanned = [
        fact
        for keys in relation.scan(version, 4)
        for fact in facts_of([tuple(index.column(keys, c) for c in range(arity))], arity)
    ]
    if arity:
        assert sorted(scanned) == sorted(facts)
    if not bound:
        return
    batch = [(x,) * arity for x in range(7)] + sorted(facts)[:3]
    words = dict(enumerate(columns(batch, arity)))
    index = relation.index(bound, version)
    keys, lead = index.key({c: words[c] for c in bound}, len(batch))
    found: set[tuple[int, Fact]] = set()
    for rows, hits in RunMatches(index, keys, lead).chunks(5):
        those = facts_of([tuple(index.column(hits, c) for c in range(arity))], arity)
        found |= set(zip(rows.tolist(), those, strict=True))
    assert found == {
        (i, fact)
        for i, wanted in enumerate(batch)
        for fact in facts
        if all(fact[c] == wanted[c] for c in bound)
    }
    if index.is_exact:
        there = present(index, keys, lead).tolist()
        assert there == [any(i == row for row, _ in found) for i in range(len(batch))]


@given(st.lists(st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=9), min_size=2, max_size=6))
def test_a_relation_whose_words_grow_is_packed_anew(batches: list[list[Fact]]) -> None:
    """First wider keys, then rows; nothing is lost, whatever is pending or new at that moment."""
    domains = [Sizes(4), Sizes(4), Sizes(4)]
    relation = StoredRelation(domains)
    known: set[Fact] = set()
    for number, batch in enumerate(batches):
        relation.add(columns(batch, 3), len(batch))
        factor = 1 << (12 * number)
        domains[number % 3].size = min(4 * factor, 1 << 32)
        more = [tuple(min(w * factor, domains[c].size - 1) if c == number % 3 else w
                      for c, w in enumerate(fact)) for fact in batch]  # fmt: skip
        relation.add(columns(more, 3), len(more))
        new = {*batch, *more} - known
        assert relation.flip() == len(new)
        known |= new
        relation.commit()
    assert sorted(facts_of(list(relation.blocks()), 3)) == sorted(known)


def test_sixteen_columns() -> None:
    relation = StoredRelation([Sizes(1 << 20)] * 16)
    assert isinstance(relation.body, RowRelation)
    facts = [tuple(range(i, i + 16)) for i in range(100)]
    relation.add(columns([*facts, *facts], 16), 200)
    assert relation.flip() == 100
    relation.commit()
    (found,) = relation.select({3: 10, 15: 22})
    assert [int(column[0]) for column in found] == list(facts[7])
    assert list(relation.select({0: 5, 1: 5})) == []


def test_select_takes_words_that_no_fact_has() -> None:
    relation = StoredRelation([Sizes(4), Sizes(4)])
    relation.add(columns([(1, 2)], 2), 1)
    relation.flip()
    assert list(relation.select({0: 3})) == []
    assert list(relation.select({0: 99})) == []
    assert facts_of(list(relation.select({0: 1})), 2) == [(1, 2)]


def test_a_filter_of_one_bit_is_not_taken_for_one_of_all_keys() -> None:
    run = Run(np.array([7], np.uint64), Packing((32, 32), (0, 1)))
    with thresholds.override(filter_keys=1, filter_bits=1):
        assert run.filter(0, 1).bits.nbytes == 8


def test_a_batch_of_known_facts_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("caladan.columns.pool.threads", lambda: 2)
    relation = PackedRelation((10, 10))
    known = np.arange(1 << 16, dtype=np.uint64)
    relation.add_keys(known.copy())
    assert relation.bitmap(1 << 20) is not None
    for new in range(20):
        batch = known.copy()
        batch[0] = (1 << 16) + new
        relation.add_keys(batch)
    held = sum(keys.nbytes if keys.base is None else keys.base.nbytes for keys in relation.pending)
    assert held < 2 * known.nbytes
    assert relation.flip() == len(known) + 20
