"""The search over the engine's own relations, in all their versions and layouts."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, strategies as st

from caladan.columns.relation import StoredRelation
from caladan.join.adaptive import solve
from caladan.join.constraints.atom import StoredAtom
from caladan.join.frontier import Bindings
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
    names = tuple(f"x{i}" for i in range(relation.arity))
    whole, copied = StoredAtom(relation, version, names), StoredAtom(relation, version, names)
    found = [atom.table() for atom in (whole, copied.listed())]
    rows = [list(zip(*(t.columns[n].tolist() for n in names), strict=True)) for t in found]
    assert sorted(rows[0]) == sorted(rows[1])
    return rows[0]


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
    columns = {
        "x": np.array([x for x, _ in delta], np.uint32),
        "y": np.array([y for _, y in delta], np.uint32),
    }
    atoms = [
        StoredAtom(relation, Version.NEW, ("y", "z")),
        StoredAtom(relation, Version.NEW, ("z", "x")),
    ]
    found: list[tuple[int, int, int]] = []
    names = ["x", "y", "z"]
    for batch in solve(atoms, names, Bindings(len(delta), columns), grade=grade, width=3):
        assert batch.columns["z"].dtype == np.uint32
        found += zip(*(batch.columns[v].tolist() for v in names), strict=True)
    assert sorted(found) == sorted(
        (x, y, z) for x, y in delta for y2, z in every if y2 == y and (z, x) in every
    )
