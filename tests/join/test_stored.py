"""The search over the engine's own relations, in all their versions and layouts."""

import gc
from dataclasses import dataclass
from weakref import ref

import numpy as np
import pytest
from hypothesis import given, strategies as st

from caladan.columns.relation import StoredRelation
from caladan.join.cyclic import StoredAtom, relation_of, solve_atoms
from caladan.rules.body import Version


@dataclass
class Size:
    size: int
    grows: bool = False


def stored(batches: list[list[tuple[int, ...]]], arity: int, bits: int) -> StoredRelation:
    """A relation that got its facts in batches; the last is its delta."""
    relation = StoredRelation([Size(1 << bits)] * arity)
    for number, batch in enumerate(batches):
        if number:
            relation.commit()
        columns = np.array(batch, np.uint32).reshape(-1, arity).T
        relation.add([np.ascontiguousarray(c) for c in columns], len(batch))
        relation.flip()
    return relation


small = st.integers(0, 5)
batches2 = st.lists(st.lists(st.tuples(small, small), max_size=12), min_size=1, max_size=4)


def facts_of(relation: StoredRelation, version: Version) -> list[tuple[int, ...]]:
    runs = relation_of(relation, version).runs
    return [f for run in runs for f in zip(*(c.tolist() for c in run.columns), strict=True)]


@given(batches2, st.sampled_from([3, 31, 32]))
def test_versions(batches: list[list[tuple[int, int]]], bits: int) -> None:
    relation = stored(batches, 2, bits)
    old = {fact for batch in batches[:-1] for fact in batch}
    new = set(batches[-1]) - old
    for version, expected in ((Version.OLD, old), (Version.DELTA, new), (Version.NEW, old | new)):
        found = facts_of(relation, version)
        assert len(found) == len(set(found))
        assert set(found) == expected


@given(st.lists(st.tuples(*[small] * 3), min_size=1, max_size=12))
def test_facts_that_do_not_fit_into_a_key(facts: list[tuple[int, int, int]]) -> None:
    relation = stored([facts[:5], facts[5:]], 3, 30)
    assert set(facts_of(relation, Version.NEW)) == set(facts)


@pytest.mark.parametrize("grade", ["jessica", "paul", "ghanima", "leto"])
@given(batches=batches2)
def test_triangles_seeded_by_the_delta(grade: str, batches: list[list[tuple[int, int]]]) -> None:
    relation = stored(batches, 2, 3)
    delta = facts_of(relation, Version.DELTA)
    every = set(facts_of(relation, Version.NEW))
    seed = {
        "x": np.array([x for x, _ in delta], np.uint32),
        "y": np.array([y for _, y in delta], np.uint32),
    }
    atoms = [
        StoredAtom(relation, Version.NEW, ("y", "z")),
        StoredAtom(relation, Version.NEW, ("z", "x")),
    ]
    found: list[tuple[int, int, int]] = []
    for rows, columns in solve_atoms(atoms, ["x", "z"], seed, len(delta), grade=grade, width=3):
        assert columns["z"].dtype == np.uint32
        found += zip(
            *(c.tolist() for c in (columns["x"], seed["y"][rows], columns["z"])), strict=True
        )
    assert sorted(found) == sorted(
        (x, y, z) for x, y in delta for y2, z in every if y2 == y and (z, x) in every
    )


def test_tries_live_and_die_with_their_run() -> None:
    relation = stored([[(1, 2), (2, 3), (3, 1)]], 2, 3)
    first = relation_of(relation, Version.NEW)
    (trie,) = first.tries((1, 0))
    (again,) = relation_of(relation, Version.NEW).tries((1, 0))
    assert again is trie
    assert relation_of(relation, Version.NEW).orders == [(1, 0)]
    run = ref(relation.index((), Version.NEW).runs[0])
    del relation, first
    gc.collect()
    assert run() is None
