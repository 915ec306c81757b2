"""Searches from many sources at a time: several blocks, cycles, tests at both ends of steps."""

from __future__ import annotations

import numpy as np
import pytest

from caladan.columns.layout import Mask, Words
from caladan.columns.matrices import BitRows, RangeRows
from caladan.fixpoint.shapes.blocks import (
    AskedTest,
    ComparedTest,
    PairedTest,
    PlaceTest,
    Trail,
    search_rows,
)
from caladan.fixpoint.shapes.pairs import Declined, Pairs, ShapeLimits, distinct
from caladan.program import thresholds

NODES, SOURCES = 90, 1200
LIMITS = ShapeLimits(1 << 28, 1, np.zeros(1, np.int64))


def some_pairs(seed: int, rows: int, columns: int, count: int) -> Pairs:
    chance = np.random.default_rng(seed)
    first, second = chance.integers(0, rows, count), chance.integers(0, columns, count)
    return distinct(first.astype(np.uint32), second.astype(np.uint32))


def reached(exits: Pairs, trails: list[tuple[Pairs, Mask, Mask, Mask]]) -> set[tuple[int, int]]:
    """Pair by pair: edges, who may take them, where a source may leave, where it may arrive."""
    found = set(zip(exits[0].tolist(), exits[1].tolist(), strict=True))
    waiting = list(found)
    while waiting:
        s, v = waiting.pop()
        for (first, second), may, leaving, arriving in trails:
            if not may[s] or not leaving[s, v]:
                continue
            for t in second[first == v].tolist():
                if arriving[s, t] and (s, t) not in found:
                    found.add((s, t))
                    waiting.append((s, t))
    return found


@pytest.mark.parametrize("edges", [40, 120, 400])
@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "=", "~="])
def test_blocks_reach_what_a_search_from_each_source_does(edges: int, operator: str) -> None:
    chance = np.random.default_rng(edges)
    exits = some_pairs(1, SOURCES, NODES, 1500)
    graphs = [some_pairs(seed, NODES, NODES, edges) for seed in (2, 3)]
    may = chance.integers(0, 4, SOURCES) > 0
    of_source, of_node = (chance.integers(0, 9, size) for size in (SOURCES, NODES))
    forbidden = some_pairs(4, SOURCES, NODES, 20000)
    compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
               "=": np.equal, "~=": np.not_equal}[operator]  # fmt: skip
    compared = compare(of_source[:, None], of_node[None, :])
    compared[:, :5] = True  # what the test is not about
    apart = np.ones((SOURCES, NODES), np.bool_)
    apart[forbidden] = False
    odd = (np.arange(SOURCES)[:, None] * 7 + np.arange(NODES)[None, :]) % 3 > 0
    every = np.ones((SOURCES, NODES), np.bool_)

    def asked(sources: Words, nodes: Words) -> Mask:
        return odd[np.ix_(sources, nodes)]

    above = PlaceTest(5, NODES, ComparedTest(operator, of_source, of_node))
    numbers = np.arange(SOURCES, dtype=np.uint32), np.arange(NODES, dtype=np.uint32)
    beside = PlaceTest(0, NODES, PairedTest(forbidden, *numbers, (SOURCES, NODES), negated=True))
    trails = [
        Trail(graphs[0], may, (), (above, beside)),
        Trail(graphs[1], None, (PlaceTest(0, NODES, AskedTest(asked)),), ()),
    ]
    layout = search_rows(exits, trails, NODES, LIMITS)
    assert layout is not None
    found = {pair for block in layout.blocks() for pair in zip(*map(list, block), strict=True)}
    anyone = np.ones(SOURCES, np.bool_)
    naive = [(graphs[0], may, every, compared & apart), (graphs[1], anyone, odd, every)]
    assert found == reached(exits, naive)
    assert layout.count() == len(found)


def test_rows_are_ranges_or_bits_whichever_is_smaller() -> None:
    sources = np.arange(700, dtype=np.uint32)
    chain = sources[:-1], sources[1:]
    may = np.ones(700, np.bool_)
    assert isinstance(search_rows((sources, sources), [Trail(chain, may)], 700, LIMITS), RangeRows)
    ragged = some_pairs(5, 700, 700, 100_000)
    assert isinstance(search_rows(ragged, [Trail(chain, ~may)], 700, LIMITS), BitRows)
    assert (
        search_rows(ragged, [Trail(chain, may)], 700, ShapeLimits(1 << 16, 1, LIMITS.stop)) is None
    )


def test_too_many_questions_decline() -> None:
    sources = np.arange(700, dtype=np.uint32)
    test = AskedTest(lambda some, nodes: np.ones((len(some), len(nodes)), np.bool_))
    trail = Trail((sources[:-1], sources[1:]), None, (), (PlaceTest(0, 700, test),))
    with thresholds.override(shape_tests=1000), pytest.raises(Declined, match="pairs to test"):
        search_rows((sources, sources), [trail], 700, LIMITS)
