"""Views keep up with their relation, whatever happens to it between two looks."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from caladan.columns.packed import PackedRelation
from caladan.columns.relation import StoredRelation
from caladan.columns.views import ViewColumns
from caladan.rules.body import Version

Facts = set[tuple[int, ...]]


class Domain:
    """So many words."""

    grows = False

    def __init__(self, size: int) -> None:
        self.size = size


PACKED, WIDE = 8, 1 << 31

fact = st.tuples(*[st.integers(0, 3)] * 3)
looks = st.sampled_from([None, Version.OLD, Version.NEW])
moves = st.lists(
    st.tuples(st.sampled_from(["round", "machine"]), st.lists(fact, max_size=8), looks, looks)
)


def facts_of(relation: StoredRelation, version: Version) -> Facts:
    index = relation.index((), version)
    found: Facts = set()
    for hits in relation.scan(version):
        columns = [index.column(hits, c).tolist() for c in range(relation.arity)]
        rows = list(zip(*columns, strict=True))
        assert len(set(rows)) == len(rows)
        assert found.isdisjoint(rows)
        found.update(rows)
    return found


def seen(facts: Facts, shown: ViewColumns) -> Facts:
    kept = (f for f in facts if all(f[a] == f[b] for a, b in shown.equal))
    return {tuple(f[c] for c in shown.columns) for f in kept}


def add(relation: StoredRelation, facts: list[tuple[int, ...]]) -> None:
    if facts:
        relation.add(list(np.array(facts, np.uint32).T.copy()), len(facts))


@pytest.mark.parametrize("size", [PACKED, WIDE])
@given(moves, st.sampled_from([(0,), (2, 0), (1, 2), (0, 1, 2)]), st.booleans())
def test_a_view_follows(size: int, moves: list[Any], columns: tuple[int, ...], equal: bool) -> None:
    relation = StoredRelation([Domain(size)] * 3)
    assert isinstance(relation.body, PackedRelation) == (size == PACKED)
    shown = ViewColumns(columns, ((0, 1),) if equal else ())
    view = relation.view(shown)
    old: Facts = set()
    delta: Facts = set()
    for kind, facts, before, after in moves:
        add(relation, facts)
        relation.flip()
        delta = set(facts) - old
        if before is not None:
            assert facts_of(view.relation, before) == seen(
                old | (delta if before is Version.NEW else set()), shown
            )
        if kind == "machine" and isinstance(relation.body, PackedRelation):
            # All that is new went through the machine, and became old.
            keys = relation.body.base.delta
            empty = np.empty(0, np.uint64)
            relation.body.absorb(empty if keys is None else keys.keys.copy(), empty)
        else:
            relation.commit()
        old |= delta
        if after is not None:
            assert facts_of(view.relation, after) == seen(old, shown)
    new = facts_of(view.relation, Version.NEW)
    assert new == seen(old, shown)
    index = view.index(range(len(columns)), Version.NEW)
    assert sum(len(run) for run in index.runs) == len(new)
