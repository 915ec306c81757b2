"""Lookups in relations of several runs: merged in mid-join where that costs less, and counted."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.join.words import stored

import caladan
from caladan.columns.index import numbered_keys
from caladan.join.constraints.lookup import AtomLookup
from caladan.join.frontier import Bindings
from caladan.join.statistics import Statistics
from caladan.program import thresholds
from caladan.rules.body import Version

BATCHES = [
    [(k, v) for k in range(40) for v in range(start, start + size)]
    for start, size in ((0, 400), (400, 100), (500, 20))
]


def looked_up(keys: list[int], least: int) -> tuple[list[tuple[int, int]], Statistics]:
    """What keys have in three runs, and whether it was merged."""
    relation = stored(BATCHES, 2)
    counts = Statistics()
    lookup = AtomLookup(
        relation, Version.FULL, {0: "x"}, {}, {1: "y"}, counting=False, statistics=counts
    )
    words = relation.domains[0].words(np.array(keys))
    with thresholds.override(accumulate=least):
        found = list(lookup.run(Bindings(len(keys), {"x": words}), frozenset("xy")))
    values = [
        (int(x), int(y))
        for batch in found
        for x, y in zip(
            relation.domains[0].ranks(batch.columns["x"]),
            relation.domains[1].ranks(batch.columns["y"]),
            strict=True,
        )
    ]
    return sorted(values), counts


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_merged_where_that_costs_less(order: str) -> None:
    """20,000 rows look for 40 keys in three runs: 60,000 stretches against 20,800 facts."""
    keys = [k for k in range(40) for _ in range(500)]
    if order == "shuffled":
        np.random.default_rng(1).shuffle(keys)
    plain, by_run = looked_up(keys[:200], 0)
    assert (by_run.lookups, by_run.accumulated) == (1, 0)
    merged, at_once = looked_up(keys[:200], 1)
    assert merged == plain
    assert at_once.lookups == 1
    _, large = looked_up(keys, thresholds.Thresholds().accumulate)
    assert (large.lookups, large.accumulated) == (1, 1)


def test_not_merged_where_rows_differ() -> None:
    """40 rows of 40 keys: telling them apart saves nothing, and there are 20,800 facts to merge."""
    _, counts = looked_up(list(range(40)), thresholds.Thresholds().accumulate)
    assert (counts.lookups, counts.accumulated) == (1, 0)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=300), st.integers(2, 6))
def test_numbered_keys_are_the_keys(keys: list[int], runs: int) -> None:
    given_keys = np.array(keys, np.uint64)
    with thresholds.override(accumulate=1):
        found = numbered_keys(given_keys, runs)
    if found is not None:
        distinct, numbers = found
        assert (distinct[numbers] == given_keys).all()
        assert len(distinct) < len(keys)


def test_stats_count_them() -> None:
    """A closure over labels that compose goes in rounds, and looks up in several runs."""
    random = np.random.default_rng(3)
    labelled = "p(X, Y, L) <- e(X, Y, L). p(X, Z, N) <- p(X, Y, L), p(Y, Z, M), c(L, M, N)."
    db = caladan.connect("embedded")
    db.add("e", np.stack([random.integers(0, n, 400) for n in (150, 150, 4)], axis=1))
    db.add("c", [(0, 1, 2), (1, 2, 3), (2, 3, 0), (3, 0, 1), (0, 0, 1), (1, 1, 2)])
    out = db.run(labelled)
    rules = [rule for clique in out.stats.cliques for rule in clique.rules]
    assert sum(rule.lookups for rule in rules) > sum(rule.accumulated for rule in rules) > 0
    assert "in several runs" in str(out.stats)
    facts = set(out["p"].rows())
    with thresholds.override(accumulate=0):
        again = caladan.connect("embedded")
        again.add("e", db.run("query e(X, Y, L).").answer.rows())
        again.add("c", [(0, 1, 2), (1, 2, 3), (2, 3, 0), (3, 0, 1), (0, 0, 1), (1, 1, 2)])
        plain = again.run(labelled)
    assert set(plain["p"].rows()) == facts
    assert not any(rule.accumulated for c in plain.stats.cliques for rule in c.rules)
